"""What a gRPC call must not send: each is refused in a sentence, and executes nothing."""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.fakes.backends import FakeBackend
from tests.fixtures import edges, onnx_models
from tests.fixtures.grpc_calls import TWO_ROWS, begin, listening, refused, rows_request, serving
from tidegate.inference.model import Model
from tidegate.oip.protobuf import v2_pb2 as v2
from tidegate_realtime.api.bodies import HELD_LIMIT_BYTES
from tidegate_realtime.api.grpc.question import GrpcQuestion
from tidegate_realtime.api.guards import HEADER_LIMIT_S


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


def typed_beside_raw() -> v2.ModelInferRequest:
    request = rows_request()
    request.inputs[0].contents.fp32_contents.extend([1, 2, 3, 4])
    return request


def changed(
    change: Callable[[v2.ModelInferRequest], object], *, raw: bool = True
) -> v2.ModelInferRequest:
    request = rows_request(raw=raw)
    change(request)
    return request


def doubled(request: v2.ModelInferRequest) -> None:
    request.inputs.append(request.inputs[0])
    request.raw_input_contents.append(request.raw_input_contents[0])


REFUSED: dict[str, tuple[v2.ModelInferRequest | bytes, str, str]] = {
    "no message": (b"\xff\xff", "malformed_request", "no ModelInferRequest"),
    "raw and typed": (typed_beside_raw(), "malformed_request", "has contents beside"),
    "one blob too many": (
        changed(lambda r: r.raw_input_contents.append(b"")),
        "malformed_request",
        "1 inputs and 2 raw_input_contents",
    ),
    "no inputs": (v2.ModelInferRequest(model_name="echo"), "malformed_request", "has 0 inputs"),
    "one input twice": (
        changed(doubled),
        "malformed_request",
        "twice",
    ),
    "bytes that do not fit": (
        changed(lambda r: r.inputs[0].shape.append(2)),
        "binary_layout",
        "8 of FP32",
    ),
    "a negative dimension": (
        changed(lambda r: r.inputs[0].shape.append(-1)),
        "malformed_request",
        "negative dimension",
    ),
    "a huge shape": (
        changed(lambda r: r.inputs[0].shape.extend([2**62, 2**62])),
        "binary_layout",
        "more than 2^63",
    ),
    "contents of another datatype": (
        changed(lambda r: r.inputs[0].contents.int_contents.append(1), raw=False),
        "malformed_request",
        "FP32 is sent in fp32_contents, and it has int_contents",
    ),
    "another number of values": (
        changed(lambda r: r.inputs[0].contents.fp32_contents.append(1), raw=False),
        "malformed_request",
        "fp32_contents has 5 values",
    ),
    "a 16-bit float in typed contents": (
        changed(lambda r: setattr(r.inputs[0], "datatype", "FP16"), raw=False),
        "needs_binary",
        "raw_input_contents",
    ),
    "an unknown datatype": (
        changed(lambda r: setattr(r.inputs[0], "datatype", "FP8"), raw=False),
        "malformed_request",
        "'FP8' is no datatype",
    ),
    "another model's input": (
        changed(lambda r: setattr(r.inputs[0], "name", "x")),
        "signature_mismatch",
        "'x'",
    ),
    "inputs of very long names": (
        changed(lambda r: setattr(r.inputs[0], "name", "\N{WATER WAVE}" * 100_000)),
        "signature_mismatch",
        "Input '\N{WATER WAVE}",
    ),
    "an output that is not there": (
        rows_request(outputs={"nothing": {}}),
        "signature_mismatch",
        "'nothing'",
    ),
    "a parameter without a value": (
        changed(lambda r: r.parameters["timeout"].Clear()),
        "malformed_request",
        "'timeout' has no value",
    ),
    "a sequence": (
        rows_request(parameters={"sequence_id": 1}),
        "unsupported_parameter",
        "sequence",
    ),
    "an option with a typing error": (
        rows_request(parameters={"tidegate_alow": True}),
        "bad_option",
        "tidegate_alow",
    ),
    "a negative timeout": (rows_request(parameters={"timeout": -1}), "bad_option", "timeout"),
    "a model that is not served": (
        changed(lambda r: setattr(r, "model_name", "other")),
        "model_not_found",
        "'other' is not served",
    ),
    "a name that no model can have": (
        changed(lambda r: setattr(r, "model_name", "../echo" * 100_000)),
        "model_not_found",
        "is no model name",
    ),
    "a version that is not served": (
        changed(lambda r: setattr(r, "model_version", "2")),
        "version_not_served",
        "[1]",
    ),
    "a version that cannot be": (
        changed(lambda r: setattr(r, "model_version", "²")),
        "version_not_served",
        "is no version",
    ),
}
STATUSES = {
    "model_not_found": grpc.StatusCode.NOT_FOUND,
    "version_not_served": grpc.StatusCode.NOT_FOUND,
}


@pytest.mark.field_fault("P-11", "P-20")
@pytest.mark.parametrize(("request_", "code", "hint"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_answered_is_refused_in_a_sentence(
    echo: Model, request_: v2.ModelInferRequest | bytes, code: str, hint: str
) -> None:
    backend = FakeBackend(model=echo.run)
    async with serving(echo, backend=backend) as (_, channel):
        refusal = await refused(begin(channel, "ModelInfer", request_, x_request_id="r-9"))
        assert refusal.code == code
        assert refusal.status is STATUSES.get(code, grpc.StatusCode.INVALID_ARGUMENT)
        assert hint in refusal.sentence
        assert len(refusal.sentence) <= 400
        assert refusal.trailing["x-request-id"] == "r-9"
    assert backend.rows == []


async def test_details_say_what_was_expected_and_found(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        refusal = await refused(begin(channel, "ModelInfer", rows_request(TWO_ROWS[:, :1])))
        assert refusal.details == {
            "input": "input",
            "expected": "shape [-1, 2]",
            "found": "shape [2, 1]",
        }


@pytest.mark.field_fault("S-61")
async def test_nothing_of_a_refused_message_waits_for_the_collector(echo: Model) -> None:
    """The library's ``abort`` keeps it all: a burst of refusals held 600 MiB."""
    async with serving(echo) as (_, channel):
        gc.collect()
        gc.disable()
        try:
            for request in (rows_request(TWO_ROWS[:, :1]), rows_request(outputs={"none": {}})):
                assert (await refused(begin(channel, "ModelInfer", request))).code
            kept = [each for each in gc.get_objects() if isinstance(each, GrpcQuestion)]
        finally:
            gc.enable()
        assert kept == []


async def test_messages_are_counted_among_the_bodies_that_the_process_holds(echo: Model) -> None:
    async with serving(echo) as (edge, channel):
        edge.sweeper.bodies.take(HELD_LIMIT_BYTES)
        refusal = await refused(begin(channel, "ModelInfer", rows_request()))
        assert (refusal.status, refusal.code) == (grpc.StatusCode.UNAVAILABLE, "queue_full")
        assert "grpc-retry-pushback-ms" in refusal.trailing
        edge.sweeper.bodies.give_back(HELD_LIMIT_BYTES)
        await begin(channel, "ModelInfer", rows_request())


async def test_connections_that_speak_no_grpc_are_closed(echo: Model) -> None:
    async def until_closed(port: int, said: bytes) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        async with asyncio.timeout(HEADER_LIMIT_S * 3):
            await reader.read()
        writer.close()

    async with serving(echo) as (edge, _), listening(edge) as server:
        said = (b"", b"PRI * HT", b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.gather(*(until_closed(server.port, each) for each in said))
