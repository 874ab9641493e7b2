"""What is not read of a gRPC call: the message of whoever may not ask, or who does not send it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.fakes.grpc_context import FakeContext
from tests.fixtures import edges, onnx_models
from tests.fixtures.grpc_calls import begin, connected, refused, rows_request, serving
from tests.project import ROOT
from tidegate.clock.system import SystemClock
from tidegate.inference.model import Model
from tidegate.keys.access import Access
from tidegate.keys.ring import Keyring
from tidegate.oip.protobuf import v2_pb2 as v2
from tidegate.units import Nanoseconds
from tidegate_realtime.api.errors import UploadTooSlowError
from tidegate_realtime.api.grpc.calls import Call
from tidegate_realtime.api.grpc.service import SERVICE
from tidegate_realtime.api.policy import Policy


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


async def never() -> AsyncIterator[bytes]:
    """Begin a call, and send no message."""
    await asyncio.Event().wait()
    yield b""


def unsent(channel: grpc.aio.Channel, method: str, timeout_s: float = 30) -> Any:  # noqa: ANN401 - a call of any type
    multi: Any = channel.stream_unary(f"/{SERVICE}/{method}")
    return multi(never(), timeout=timeout_s)


async def status_of(call: Any) -> grpc.StatusCode:  # noqa: ANN401 - a call of any type
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code()


@pytest.mark.parametrize("method", ["ModelInfer", "ModelReady", "ModelStatistics"])
async def test_without_a_key_no_message_is_waited_for(echo: Model, method: str) -> None:
    keys = Keyring(ROOT / "tests/fixtures/keys-schema-1.json", SystemClock())
    async with serving(echo) as (open_to_all, _):
        edge = replace(open_to_all, policy=Policy(access=Access(keys)))
        async with connected(edge) as channel:
            assert await status_of(unsent(channel, method)) is grpc.StatusCode.UNAUTHENTICATED


async def test_whether_it_lives_is_said_without_a_message(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        assert v2.ServerLiveResponse.FromString(await unsent(channel, "ServerLive")).live


async def test_a_message_that_does_not_come_is_waited_for_as_long_as_an_upload() -> None:
    class Silent(FakeContext):
        async def read(self) -> None:
            await asyncio.Event().wait()

    call = Call(Silent().for_a_call(), began_at_ns=Nanoseconds(0))
    with pytest.raises(UploadTooSlowError, match="did not arrive within 0 s"):
        await call.read(0.0)


async def test_a_waiting_call_can_be_cut_on_a_real_connection(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        waiting = unsent(channel, "ModelInfer", timeout_s=0.05)
        assert await status_of(waiting) is grpc.StatusCode.DEADLINE_EXCEEDED
        await begin(channel, "ModelInfer", rows_request())


async def test_a_lookup_takes_no_more_than_two_names(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        refusal = await refused(begin(channel, "ModelReady", b"\x2a\x00" * 10_000))
        assert (refusal.code, refusal.status) == (
            "malformed_request",
            grpc.StatusCode.INVALID_ARGUMENT,
        )


async def test_a_message_of_a_million_empty_inputs_costs_next_to_nothing(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        message = b"\x0a\x04echo" + b"\x2a\x00" * 1_000_000
        refusal = await refused(begin(channel, "ModelInfer", message))
        assert refusal.code == "malformed_request"
        assert "more than 256 fields" in refusal.sentence


@pytest.mark.parametrize("name", ["authorization", "tidegate-deadline-ms", "x-request-id"])
async def test_metadata_that_stands_for_one_value_is_taken_once(echo: Model, name: str) -> None:
    async with serving(echo) as (_, channel):
        multi: Any = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        raw, twice = rows_request().SerializeToString(), ((name, "1"), (name, "2"))
        refusal = await refused(multi(raw, metadata=twice, timeout=30))
        assert refusal.code == "malformed_request"
        assert name in refusal.sentence
