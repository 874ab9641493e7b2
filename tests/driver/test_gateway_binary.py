"""Infer with bytes in and out, from the body of a request to the body of its reply."""

import gzip
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tests.fixtures.oip_models import ONNX, edge_values, same
from tidegate.artifacts.manifest import LabelsSpec, TransformSpec
from tidegate.inference.model import Model
from tidegate.oip.binary import bytes_from_array
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.predicting import Predictor
from tidegate_realtime.api.replies import Reply
from tidegate_realtime.api.routing import Action, Route

pytestmark = pytest.mark.looptime

LENGTH = "inference-header-content-length"
TAG = (
    b'{"model_name":"echo","model_version":"1","parameters":{"tidegate_digest":"'
    + edges.DIGEST.encode()
    + b'","tidegate_variant":"default","tidegate_served_by":"model"},"outputs":['
)


@asynccontextmanager
async def serving(model: Model) -> AsyncIterator[Edge]:
    edge = edges.serve(
        [model], clock=LoopClock(), backend=lambda _: FakeBackend(model=model.run), slo_ms=100
    )
    try:
        yield edge
    finally:
        await edge.catalogue.versions[0].driver.aclose()


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


async def infer(edge: Edge, request: object, blob: bytes = b"", length: int | None = None) -> Reply:
    text = request if isinstance(request, bytes) else orjson.dumps(request)
    said = str(len(text) if length is None else length)
    return await edge.endpoint.answer(
        FakeExchange("POST", "/v2/models/echo/infer", text + blob, headers={LENGTH: said})
    )


def asking(
    datatype: str, shape: tuple[int, ...], *, size: int | None = None, **more: object
) -> dict[str, object]:
    tensor: dict[str, object] = {"name": "x", "datatype": datatype, "shape": shape}
    if size is not None:
        tensor["parameters"] = {"binary_data_size": size}
    return {"inputs": [{**tensor, **more}]}


def parts(reply: Reply) -> tuple[bytes, bytes]:
    headers = dict(reply.headers)
    assert headers["content-type"] == "application/octet-stream"
    length = int(headers[LENGTH])
    return reply.body[:length], reply.body[length:]


async def test_bytes_in_and_bytes_out_are_exactly_these(echo: Model) -> None:
    request = (
        b'{"inputs":[{"name":"input","shape":[1,2],"datatype":"FP32",'
        b'"parameters":{"binary_data_size":8}}],'
        b'"outputs":[{"name":"output","parameters":{"binary_data":true}}]}'
    )
    async with serving(echo) as edge:
        reply = await infer(edge, request, struct.pack("<ff", 0.5, -1))
    text, blob = parts(reply)
    assert text == TAG + (
        b'{"name":"output","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}]}'
    )
    assert blob == struct.pack("<ff", 0.5, -1)


async def test_bytes_in_and_json_out_when_nobody_asks_for_bytes(echo: Model) -> None:
    request = {
        "inputs": [
            {
                "name": "input",
                "shape": [1, 2],
                "datatype": "FP32",
                "parameters": {"binary_data_size": 8},
            }
        ]
    }
    async with serving(echo) as edge:
        reply = await infer(edge, request, struct.pack("<ff", 0.5, -1))
    assert LENGTH not in dict(reply.headers)
    assert reply.body == TAG + (
        b'{"name":"output","datatype":"FP32","shape":[1,2],"data":[0.5,-1.0]}]}'
    )


@pytest.mark.field_fault("P-12")
@pytest.mark.parametrize("datatype", ONNX)
async def test_every_datatype_comes_back_bit_by_bit(tmp_path: Path, datatype: str) -> None:
    model = edges.load(same(tmp_path / "same.onnx", datatype))
    values = edge_values(datatype)
    sent = bytes(bytes_from_array(values))
    asked = asking(datatype, values.shape, size=len(sent))
    asked["parameters"] = {"binary_data_output": True}
    async with serving(model) as edge:
        reply = await infer(edge, asked, sent)
        _, came = parts(reply)
        assert came == sent
        if datatype not in {"FP16", "BF16"}:
            data = values.ravel().tolist()
            if datatype == "FP32":  # as few digits as name it
                data = [float(str(value)) for value in values.ravel()]
            as_json = asking(datatype, values.shape, data=data)
            answered = orjson.loads((await infer(edge, as_json)).body)["outputs"][0]
            assert answered == {**as_json["inputs"][0], "name": "y", "shape": [1, 2]}  # type: ignore[index] # a list


@pytest.mark.field_fault("P-12")
@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
async def test_a_16_bit_float_as_json_is_refused_by_its_name(tmp_path: Path, datatype: str) -> None:
    model = edges.load(same(tmp_path / "same.onnx", datatype))
    values = edge_values(datatype)
    sent = bytes(bytes_from_array(values))
    as_bytes = asking(datatype, values.shape, size=len(sent))
    named = {"outputs": [{"name": "y", "parameters": {"binary_data": False}}]}
    async with serving(model) as edge:
        for asked, blob in (
            (asking(datatype, (1, 2), data=[0, 1]), b""),
            (as_bytes, sent),
            ({**as_bytes, **named}, sent),
        ):
            reply = await infer(edge, asked, blob)
            assert (reply.status, orjson.loads(reply.body)["code"]) == (400, "needs_binary")
            assert datatype in orjson.loads(reply.body)["error"]


async def test_a_raw_body_is_answered_in_bytes(echo: Model) -> None:
    async with serving(echo) as edge:
        reply = await infer(edge, struct.pack("<ff", 3, 4), length=0)
        assert parts(reply)[1] == struct.pack("<ff", 3, 4)
        wrong = await infer(edge, b"123", length=0)
        empty = await infer(edge, b"", length=0)
    assert (wrong.status, orjson.loads(wrong.body)["code"]) == (400, "binary_layout")
    assert (empty.status, orjson.loads(empty.body)["code"]) == (400, "malformed_json")


def wanting(**parameters: object) -> dict[str, object]:
    return {
        **asking("FP32", (2, 2), data=[0.25, 0.75, 0.9, 0.1], name="input"),
        "outputs": [{"name": "output", "parameters": parameters}],
    }


async def test_a_classification_names_the_highest_values(tmp_path: Path) -> None:
    labels = LabelsSpec(output="output", names=("stays", "leaves"))
    model = edges.load(
        onnx_models.echo(tmp_path / "echo.onnx"), transforms=TransformSpec(labels=labels)
    )
    async with serving(model) as edge:
        reply = await infer(edge, wanting(classification=1))
        as_bytes = await infer(edge, wanting(classification=2, binary_data=True))
    assert orjson.loads(reply.body)["outputs"] == [
        {
            "name": "output",
            "datatype": "BYTES",
            "shape": [2, 1],
            "data": ["0.75:1:leaves", "0.9:0:stays"],
        }
    ]
    text, blob = parts(as_bytes)
    (output,) = orjson.loads(text)["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [2, 2])
    assert blob.startswith(b"\x0d\x00\x00\x000.75:1:leaves")


async def test_only_what_is_asked_for_comes_back_and_in_that_order(tmp_path: Path) -> None:
    from onnx import TensorProto, helper  # noqa: PLC0415 - of this test alone

    file = onnx_models.save(
        tmp_path / "three.onnx",
        [helper.make_node("Identity", ["x"], [name]) for name in ("a", "b", "c")],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows"])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows"]) for n in ("a", "b", "c")],
    )
    asked: dict[str, object] = {
        **asking("FP32", (1,), data=[1]),
        "outputs": [{"name": "c"}, {"name": "a", "parameters": {"binary_data": True}}],
    }
    async with serving(edges.load(file)) as edge:
        text, blob = parts(await infer(edge, asked))
        everything = await infer(edge, asking("FP32", (1,), data=[1]))
    assert [output["name"] for output in orjson.loads(text)["outputs"]] == ["c", "a"]
    assert blob == struct.pack("<f", 1)
    assert [o["name"] for o in orjson.loads(everything.body)["outputs"]] == ["a", "b", "c"]


@pytest.mark.field_fault("P-17", "P-43")
@pytest.mark.parametrize(
    ("outputs", "status"),
    [
        ([{"name": "output"}] * 2, 400),
        ([{"name": f"o{place}"} for place in range(100_000)], 400),
        ([{"name": "other"}], 422),
        ([{"name": "output", "parameters": {"tidegate_binary": True}}], 400),
        ([{"name": "output", "parameters": {"shared_memory_region": "r"}}], 400),
    ],
)
async def test_outputs_that_cannot_be_had_are_refused(
    echo: Model, outputs: list[Mapping[str, object]], status: int
) -> None:
    asked = asking("FP32", (1, 2), data=[1, 2], name="input")
    async with serving(echo) as edge:
        reply = await infer(edge, {**asked, "outputs": outputs})
    assert reply.status == status


async def test_a_body_with_bytes_is_nothing_for_predict(echo: Model) -> None:
    async with serving(echo) as edge:
        reply = await edge.endpoint.answer(
            FakeExchange("POST", "/v1/models/echo:predict", b"{}\0", headers={LENGTH: "2"})
        )
    assert (reply.status, orjson.loads(reply.body)["code"]) == (400, "binary_layout")


async def test_a_million_values_pass_as_json_and_as_bytes(tmp_path: Path) -> None:
    model = edges.load(same(tmp_path / "same.onnx", "FP32"))
    values = np.arange(1_000_000, dtype=np.float32).reshape(1, -1)
    body = orjson.dumps(
        asking("FP32", values.shape, data=values.ravel()), option=orjson.OPT_SERIALIZE_NUMPY
    )
    async with serving(model) as edge:
        answered = orjson.loads((await infer(edge, body)).body)["outputs"][0]
        assert answered["data"] == values.ravel().tolist()
        asked = asking("FP32", values.shape, size=values.nbytes)
        asked["parameters"] = {"binary_data_output": True}
        assert parts(await infer(edge, asked, values.tobytes()))[1] == values.tobytes()


async def test_a_dimension_that_the_model_leaves_open_may_be_empty(tmp_path: Path) -> None:
    model = edges.load(same(tmp_path / "same.onnx", "INT64"))
    async with serving(model) as edge:
        reply = await infer(edge, asking("INT64", (3, 0), data=[]))
        assert orjson.loads(reply.body)["outputs"][0]["shape"] == [3, 0]
        asked = asking("INT64", (3, 0), size=0)
        asked["parameters"] = {"binary_data_output": True}
        text, blob = parts(await infer(edge, asked))
        assert (orjson.loads(text)["outputs"][0]["shape"], blob) == ([3, 0], b"")


@pytest.mark.parametrize("compresses", [True, False])
async def test_only_predictions_are_compressed_and_only_if_that_is_set(
    tmp_path: Path, *, compresses: bool
) -> None:
    model = edges.load(same(tmp_path / "same.onnx", "FP32"))
    route = Route(Action.INFER, "echo")
    body = orjson.dumps(asking("FP32", (1, 1_000), data=[0.5] * 1_000))
    wrong = orjson.dumps(asking("FP32", (1,), data=[0.5], name="x" * 2_000))

    def asked(body: bytes) -> FakeExchange:
        headers = {"accept-encoding": "gzip, deflate, br"}
        return FakeExchange("POST", "/v2/models/echo/infer", body, headers=headers)

    async with serving(model) as edge:
        predictor = Predictor(edge.scorer, Policy(compresses_replies=compresses))
        reply = await predictor.answer(asked(body), route)
        refusal = await predictor.answer(asked(wrong), route)
    assert ("content-encoding", "gzip") not in refusal.headers
    assert orjson.loads(refusal.body)["code"] == "signature_mismatch"
    assert (("content-encoding", "gzip") in reply.headers) == compresses
    text = gzip.decompress(reply.body) if compresses else reply.body
    assert orjson.loads(text)["outputs"][0]["data"] == [0.5] * 1_000
