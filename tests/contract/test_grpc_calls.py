"""What a gRPC client sends and gets, on a real channel, with a real driver and a small model."""

import asyncio
from pathlib import Path

import grpc
import numpy as np
import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fixtures import edges, onnx_models
from tests.fixtures.grpc_calls import (
    TWO_ROWS,
    begin,
    listening,
    output_arrays,
    refused,
    rows_request,
    serving,
)
from tidegate.errors import BackendError, SettingError
from tidegate.inference.arrays import Tensors
from tidegate.inference.model import Model
from tidegate.oip.protobuf import v2_pb2 as v2
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.served import State
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.main.tallying import report_requests


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


def endings(edge: Edge) -> dict[tuple[str, str], int]:
    return {(str(key.outcome), key.reason): count for key, count in edge.metrics.ended.items()}


@pytest.mark.parametrize("raw", [True, False])
async def test_an_answer_has_the_form_of_its_request_and_says_who_made_it(
    echo: Model, raw: bool
) -> None:
    async with serving(echo) as (_, channel):
        request = rows_request(raw=raw, id="mine", model_version="1")
        call = begin(channel, "ModelInfer", request, x_request_id="r-1")
        reply = await call
        assert (reply.model_name, reply.model_version, reply.id) == ("echo", "1", "mine")
        assert bool(reply.raw_output_contents) is raw
        assert reply.outputs[0].HasField("contents") is not raw
        assert not reply.outputs[0].parameters
        assert np.array_equal(output_arrays(reply)["output"], TWO_ROWS)
        assert {name: value.string_param for name, value in reply.parameters.items()} == {
            "tidegate_digest": edges.DIGEST,
            "tidegate_variant": "default",
            "tidegate_served_by": "model",
        }
        assert tuple(await call.initial_metadata()) == (
            ("x-tidegate-model", "echo"),
            ("x-tidegate-version", "1"),
            ("x-tidegate-digest", edges.DIGEST),
            ("x-tidegate-served-by", "model"),
            ("x-request-id", "r-1"),
        )


async def test_whether_there_is_a_server_and_a_model(
    echo: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(echo) as (edge, channel):
        model = v2.ModelReadyRequest(name="echo", version="stable")
        assert (await begin(channel, "ServerLive", v2.ServerLiveRequest())).live
        assert (await begin(channel, "ServerReady", v2.ServerReadyRequest())).ready
        assert (await begin(channel, "ModelReady", model)).ready
        edge.catalogue.readiness.state = State.DRAINING
        assert (await begin(channel, "ServerLive", v2.ServerLiveRequest())).live
        assert not (await begin(channel, "ServerReady", v2.ServerReadyRequest())).ready
        assert not (await begin(channel, "ModelReady", model)).ready
        late = await refused(begin(channel, "ModelInfer", rows_request()))
        assert (late.status, late.code) == (grpc.StatusCode.UNAVAILABLE, "draining")
        report_requests(edge.metrics)
    total = next(line for line in capsys.readouterr().err.splitlines() if "requests_ended" in line)
    counts = ("arrived", "answered", "rejected", "refused_draining", "cut_off")
    assert [orjson.loads(total)[name] for name in counts] == [1, 0, 1, 1, 0]


async def test_what_is_served_is_said_as_over_http(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        server = await begin(channel, "ServerMetadata", v2.ServerMetadataRequest())
        assert server.name == "tidegate"
        assert server.version
        assert "schedule_policy" in server.extensions
        about = await begin(channel, "ModelMetadata", v2.ModelMetadataRequest(name="echo"))
        assert (about.name, list(about.versions)) == ("echo", ["1"])
        (tensor,) = about.inputs
        assert (tensor.name, tensor.datatype, list(tensor.shape)) == ("input", "FP32", [-1, 2])
        assert about.outputs[0].name == "output"
        assert about.properties["slo_ms"] == "10000.0"
        assert about.properties["tidegate_digest"] == edges.DIGEST


async def test_configuration_and_statistics_are_those_of_tritons_clients(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        await begin(channel, "ModelInfer", rows_request())
        told = await begin(channel, "ModelConfig", v2.ModelConfigRequest(name="echo", version="1"))
        assert (told.config.name, told.config.max_batch_size) == ("echo", 4_096)
        assert told.config.HasField("dynamic_batching")
        (tensor,) = told.config.input
        assert (tensor.name, tensor.data_type, list(tensor.dims)) == ("input", v2.TYPE_FP32, [2])
        for name in ("echo", ""):
            counted = await begin(channel, "ModelStatistics", v2.ModelStatisticsRequest(name=name))
            (model,) = counted.model_stats
            assert (model.name, model.version) == ("echo", "1")
            assert model.inference_stats.success.count == 1
            assert model.inference_stats.success.ns > 0


@pytest.mark.parametrize(
    "method", ["ModelStreamInfer", "RepositoryIndex", "RepositoryModelLoad", "TraceSetting"]
)
async def test_what_is_not_offered_is_unimplemented(echo: Model, method: str) -> None:
    async with serving(echo) as (_, channel):
        refusal = await refused(begin(channel, method, b""))
        assert refusal.status is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.field_fault("S-41")
async def test_a_full_queue_says_when_to_come_back(echo: Model) -> None:
    limits = BatchLimits(cap_rows=2, queue_limit_rows=2)
    backend = FakeBackend(model=echo.run, took_s=0.2)
    async with serving(echo, backend=backend, limits=limits) as (_, channel):
        calls = [begin(channel, "ModelInfer", rows_request()) for _ in range(3)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert sorted(isinstance(end, v2.ModelInferResponse) for end in ended) == [
            False,
            True,
            True,
        ]
        (turned_away,) = (
            call for call, end in zip(calls, ended, strict=True) if isinstance(end, Exception)
        )
        refusal = await refused(turned_away)
        assert (refusal.status, refusal.code) == (grpc.StatusCode.UNAVAILABLE, "queue_full")
        after_ms = refusal.trailing["grpc-retry-pushback-ms"]
        assert isinstance(after_ms, str)
        assert int(after_ms) == refusal.details["retry_after_ms"] > 0


def raising(_: Tensors) -> Tensors:
    raise BackendError("node /secret/path failed")


@pytest.mark.field_fault("P-15")
async def test_a_model_that_fails_is_internal_without_its_reason(echo: Model) -> None:
    async with serving(echo, backend=FakeBackend(model=raising)) as (edge, channel):
        refusal = await refused(begin(channel, "ModelInfer", rows_request(TWO_ROWS[:1])))
        assert (refusal.status, refusal.code) == (grpc.StatusCode.INTERNAL, "model_failed")
        assert "secret" not in refusal.sentence
        assert endings(edge) == {("failed", "model_failed"): 1}


@pytest.mark.field_fault("P-08")
@pytest.mark.parametrize("kind", ["int64_param", "uint64_param"])
async def test_both_kinds_of_integers_are_timeouts_and_priorities(echo: Model, kind: str) -> None:
    backend = FakeBackend(model=echo.run, took_s=0.3)
    async with serving(echo, backend=backend) as (edge, channel):
        request = rows_request()
        setattr(request.parameters["timeout"], kind, 20_000)  # microseconds
        setattr(request.parameters["priority"], kind, 1)
        refusal = await refused(begin(channel, "ModelInfer", request))
        assert refusal.status is grpc.StatusCode.DEADLINE_EXCEEDED
        assert refusal.code == "deadline_expired"
        assert refusal.details["limit_ms"] == pytest.approx(20, abs=5)
        assert endings(edge) == {("expired", "deadline_expired"): 1}


async def test_the_shortest_deadline_counts_wherever_it_was_named(echo: Model) -> None:
    backend = FakeBackend(model=echo.run, took_s=0.3)
    async with serving(echo, backend=backend) as (_, channel):
        request = rows_request(parameters={"timeout": 25_000_000})
        of_header = begin(channel, "ModelInfer", request, tidegate_deadline_ms="30", timeout=20)
        refusal = await refused(of_header)
        assert refusal.details["limit_ms"] == pytest.approx(30, abs=5)
        of_call = begin(channel, "ModelInfer", request, tidegate_deadline_ms="9000", timeout=0.05)
        refusal = await refused(of_call)
        assert refusal.status is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_deadline_header_that_is_none_is_refused(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        call = begin(channel, "ModelInfer", rows_request(), tidegate_deadline_ms="50ms")
        assert (await refused(call)).code == "bad_option"


async def test_only_wanted_outputs_come_and_classes_where_they_are_wanted(echo: Model) -> None:
    async with serving(echo) as (_, channel):
        request = rows_request(outputs={"output": {"classification": 1}})
        reply = await begin(channel, "ModelInfer", request)
        assert reply.outputs[0].datatype == "BYTES"
        assert output_arrays(reply)["output"].tolist() == [["2.0:1"], ["4.0:1"]]


@pytest.mark.parametrize("compression", list(grpc.Compression))
async def test_a_message_beyond_the_limit_is_refused_and_the_connection_goes_on(
    echo: Model, compression: grpc.Compression
) -> None:
    async with serving(echo) as (_, channel):
        large = bytes((64 << 20) + 1)
        refusal = await refused(begin(channel, "ModelInfer", large, compression=compression))
        assert refusal.status is grpc.StatusCode.RESOURCE_EXHAUSTED
        await begin(channel, "ModelInfer", rows_request())


async def test_a_taken_port_is_refused(echo: Model) -> None:
    async with serving(echo) as (edge, _), listening(edge) as first:
        with pytest.raises(SettingError, match=rf"127.0.0.1:{first.port}.*--grpc-port"):
            async with listening(edge, port=first.port):
                pass
