"""The models of the live proof, built here and published into a store that is thrown away."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import orjson
from onnx import TensorProto, helper, numpy_helper

from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.ids import Alias, ModelName
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, publish

SMALL: Final = "small"
"""What the emulated backend pretends to run: four numbers in, four out."""
WIDE: Final = "wide"
"""A perceptron that has something to do: 10.5 million weights."""
WIDTHS: Final = (256, 4096, 2048, 512, 10)
SMALL_WIDTH: Final = 4
KNOWN_CODES: Final = 2
"""Codes from 0 on that the wide model knows; any other makes its call raise."""
_OPSET: Final = 17
_IR: Final = 9
_SEED: Final = 1


def publish_models(folder: Path) -> Path:
    """Publish both models as ``stable``; return the store."""
    store = folder / "store"
    for name, model in ((SMALL, _small()), (WIDE, _wide())):
        file = folder / f"{name}.onnx"
        onnx.save(model, file)
        candidate = Candidate(
            name=ModelName(name), file=file, alias=Alias("stable"), tolerance=1e-3
        )
        publish(ArtifactStore(LocalObjectStore(store)), candidate, clock=SystemClock())
    return store


def small_requests() -> Sequence[bytes]:
    """Return the one request to the small model, of one row."""
    values = {"name": "input", "shape": [1, SMALL_WIDTH], "datatype": "FP32", "data": [1, 2, 3, 4]}
    return [http_request(SMALL, [values])]


def wide_requests(*, rows: int, count: int = 16) -> Sequence[bytes]:
    """Return requests to the wide model, none like another."""
    return [_wide_request(rows, place, code=0) for place in range(count)]


def poison_requests(count: int) -> Sequence[bytes]:
    """Return requests of one row that each make the call raise, each in its own way.

    The gateway remembers rows that did so, and would not run the same one again.
    """
    return [_wide_request(1, place, code=KNOWN_CODES + place) for place in range(count)]


def _wide_request(rows: int, seed: int, *, code: int) -> bytes:
    # Small integers: what a number costs to read is not what is measured here.
    values = np.random.default_rng(seed).integers(-9, 10, rows * WIDTHS[0]).tolist()
    shape = [rows, WIDTHS[0]]
    inputs = [
        {"name": "input", "shape": shape, "datatype": "FP32", "data": values},
        {"name": "code", "shape": [rows], "datatype": "INT64", "data": [code] * rows},
    ]
    return http_request(WIDE, inputs)


def http_request(model: str, inputs: Sequence[object]) -> bytes:
    """Write a whole inference request as HTTP/1.1."""
    body = orjson.dumps({"inputs": inputs})
    return (
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


def _small() -> onnx.ModelProto:
    return _model(
        [helper.make_node("Identity", ["input"], ["output"])],
        [_value("input", SMALL_WIDTH)],
        [_value("output", SMALL_WIDTH)],
        [],
    )


def _wide() -> onnx.ModelProto:
    """Three hidden layers with ReLU, and a table look-up whose result is 0, or an error."""
    random = np.random.default_rng(_SEED)
    nodes, weights, last = [], [], "input"
    for place, (rows, columns) in enumerate(pairwise(WIDTHS)):
        matrix = random.standard_normal((rows, columns), np.float32) / np.float32(rows) ** 0.5
        weights.append(numpy_helper.from_array(matrix, f"weights_{place}"))
        nodes.append(helper.make_node("MatMul", [last, f"weights_{place}"], [f"sum_{place}"]))
        nodes.append(helper.make_node("Relu", [f"sum_{place}"], [f"layer_{place}"]))
        last = f"layer_{place}"
    weights.append(numpy_helper.from_array(np.zeros((KNOWN_CODES, 1), np.float32), "table"))
    nodes.append(helper.make_node("Gather", ["table", "code"], ["nothing"]))
    nodes.append(helper.make_node("Add", [last, "nothing"], ["output"]))
    code = helper.make_tensor_value_info("code", TensorProto.INT64, ["rows"])
    return _model(
        nodes, [_value("input", WIDTHS[0]), code], [_value("output", WIDTHS[-1])], weights
    )


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto],
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "proof", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR
    onnx.checker.check_model(model)
    return model


def _value(name: str, width: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
