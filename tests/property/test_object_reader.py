"""A file over ranged reads is a file: whatever is read from wherever, in few requests."""

import io
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.objects.s3_reader import READ_AHEAD_BYTES, open_ranges

STEPS = st.one_of(
    st.tuples(st.just("read"), st.integers(-1, 300)),
    st.tuples(st.sampled_from(["from start", "from here", "from end"]), st.integers(-300, 300)),
)
WHENCE = {"from start": io.SEEK_SET, "from here": io.SEEK_CUR, "from end": io.SEEK_END}


class Requests:
    """Serves ranges of a body and keeps what was asked for."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.asked: list[tuple[int, int]] = []

    def fetch(self, start: int, length: int) -> bytes:
        assert length > 0
        assert start + length <= len(self.body)
        self.asked.append((start, length))
        return self.body[start : start + length]

    def open(self, read_ahead_bytes: int = READ_AHEAD_BYTES) -> BinaryIO:
        return open_ranges(self.fetch, size_bytes=len(self.body), read_ahead_bytes=read_ahead_bytes)


@given(st.binary(max_size=200), st.integers(1, 64), st.lists(STEPS, max_size=30))
def test_it_reads_like_a_file_of_the_same_bytes(
    body: bytes, read_ahead_bytes: int, steps: list[tuple[str, int]]
) -> None:
    plain, ranged = io.BytesIO(body), Requests(body).open(read_ahead_bytes)
    for what, number in steps:
        if what == "read":
            assert ranged.read(number) == plain.read(number)
        else:
            target = max(0, number + _origin(plain, what))
            plain.seek(target)
            assert ranged.seek(target - _origin(ranged, what), WHENCE[what]) == target
        assert ranged.tell() == plain.tell()


def _origin(file: BinaryIO, what: str) -> int:
    """Return where a seek counts from, leaving the position alone."""
    here = file.tell()
    origin = file.seek(0, WHENCE[what])
    file.seek(here)
    return origin


def test_many_small_reads_are_few_requests() -> None:
    requests = Requests(bytes(20 << 20))
    with requests.open() as file:
        while file.read(1_000):
            pass
    assert requests.asked == [(0, 8 << 20), (8 << 20, 8 << 20), (16 << 20, 4 << 20)]


def test_reading_all_that_is_left_is_one_request() -> None:
    requests = Requests(bytes(20 << 20))
    with requests.open() as file:
        file.seek(1 << 20)
        assert len(file.read()) == 19 << 20
    assert requests.asked == [(1 << 20, 19 << 20)]


def test_jumping_within_what_was_read_ahead_asks_for_nothing() -> None:
    requests = Requests(bytes(10_000))
    with requests.open() as file:
        file.seek(-8, io.SEEK_END)  # as a reader of parquet begins
        file.read(8)
        file.seek(-5_000, io.SEEK_END)
        file.read(4_000)
        file.seek(6_000)
        file.read(100)
    assert requests.asked == [(9_992, 8), (5_000, 5_000)]


def test_before_the_start_there_is_nothing() -> None:
    with Requests(b"abc").open() as file, pytest.raises(ValueError, match="-4"):
        file.seek(-7, io.SEEK_END)
