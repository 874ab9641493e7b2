"""Compressed bodies: what is undone, what is refused, and how little of it is ever there."""

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from random import Random

import pytest

from tests.fixtures.bombs import bomb
from tidegate.oip.errors import MalformedRequestError
from tidegate_realtime.api.errors import BodiesHeldError, BodyTooLargeError
from tidegate_realtime.api.inflating import ANY_RATIO_BYTES, STEP_BYTES, inflate

LIMIT = 64 << 20


def undo(
    body: bytes,
    encoding: str = "gzip",
    *,
    limit_bytes: int = LIMIT,
    hold: Callable[[int], None] = lambda _: None,
) -> bytes:
    return asyncio.run(inflate(body, encoding, limit_bytes=limit_bytes, hold=hold))


@pytest.mark.parametrize("size", [0, 1, 1_000, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES + 7])
def test_what_was_compressed_comes_back(size: int) -> None:
    text = bytes(range(251)) * (size // 251 + 1)
    held: list[int] = []
    assert undo(gzip.compress(text[:size]), hold=held.append) == text[:size]
    assert undo(zlib.compress(text[:size]), "deflate") == text[:size]
    assert (sum(held), max(held, default=0) <= STEP_BYTES) == (size, True)


@pytest.mark.parametrize("size", [STEP_BYTES * n + more for n in (1, 2) for more in (-1, 0, 1)])
def test_a_result_that_ends_with_a_full_step_is_whole(size: int) -> None:
    assert len(undo(gzip.compress(bytes(size)))) == size


@pytest.mark.field_fault("P-41")
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_is_refused_when_a_little_of_it_is_there(encoding: str) -> None:
    body = bomb(encoding, mebibytes=1_024)
    tracemalloc.start()
    with pytest.raises(BodyTooLargeError) as refused:
        undo(body, encoding, limit_bytes=8 << 20)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused.value.limit == 8 << 20
    assert peak_bytes < 20 << 20


def test_a_ratio_is_refused_far_below_the_limit() -> None:
    with pytest.raises(BodyTooLargeError) as refused:
        undo(bomb("gzip", mebibytes=8))
    assert refused.value.limit == ANY_RATIO_BYTES
    assert refused.value.found <= ANY_RATIO_BYTES + STEP_BYTES
    assert len(undo(gzip.compress(bytes(ANY_RATIO_BYTES)))) == ANY_RATIO_BYTES


def test_the_limit_is_inclusive() -> None:
    assert len(undo(gzip.compress(bytes(1_000)), limit_bytes=1_000)) == 1_000
    with pytest.raises(BodyTooLargeError):
        undo(gzip.compress(bytes(1_001)), limit_bytes=1_000)


def test_whoever_holds_the_bodies_may_refuse_the_next_step() -> None:
    def full(_: int) -> None:
        raise BodiesHeldError("full")

    with pytest.raises(BodiesHeldError):
        undo(gzip.compress(b"x"), hold=full)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"\x1f\x8b",
        gzip.compress(b"{}")[:-1],
        gzip.compress(b"{}")[:-9],
        gzip.compress(b"{}") + b"x",
        gzip.compress(b"{}") * 2,
        gzip.compress(b"{}") + bytes(STEP_BYTES),
        zlib.compress(b"{}"),
        gzip.compress(b"{}")[:-8] + bytes(8),
    ],
)
def test_what_is_no_single_whole_stream_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedRequestError, match="not one whole gzip stream"):
        undo(body)


@pytest.mark.parametrize(
    "body",
    [
        zlib.compress(Random(7).randbytes(8 * STEP_BYTES)),
        zlib.compress(bytes(4 * STEP_BYTES)),
        b"\x78\x01" + b"\0\0\0\xff\xff" * STEP_BYTES + zlib.compress(b"")[2:],
    ],
    ids=["random", "zeros", "empty blocks"],
)
async def test_others_run_while_much_is_inflated(body: bytes) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.get_running_loop().create_task(other())
    whole = await inflate(body, "deflate", limit_bytes=LIMIT, hold=lambda _: None)
    running.cancel()
    assert turns >= max(len(whole), len(body)) // STEP_BYTES - 1
