"""The models that every server gets, and the requests that each of them answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx
import orjson
from onnx import TensorProto, helper, numpy_helper

from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.ids import Alias, ModelName
from tidegate.objects.local import LocalObjectStore
from tidegate.oip.protobuf.v2_pb2 import ModelInferRequest
from tidegate.publishing.publish import Candidate, publish

_OPSET: Final = 17
_IR: Final = 9
_SEED: Final = 1


class Form(StrEnum):
    """How a row travels."""

    JSON = "json"
    BINARY = "binary"
    """The binary tensor extension of the Open Inference Protocol."""
    RAW = "raw"
    """The row's bytes and nothing else."""
    GRPC = "grpc"
    """``ModelInfer`` with raw contents."""


@dataclass(frozen=True, slots=True)
class Work:
    """One model, and a row for it."""

    name: str
    widths: tuple[int, ...]
    """Of its layers, the input's first."""

    @property
    def row(self) -> npt.NDArray[np.float32]:
        """One row, ``(1, features)``, the same in every request."""
        return np.random.default_rng(_SEED).random((1, self.widths[0]), np.float32)


SMALL: Final = Work("small", (30, 64, 32, 2))
"""Microseconds a row: what is measured is the server."""
WIDE: Final = Work("wide", (256, 4096, 2048, 512, 10))
"""Bound by memory for one row, so that a batch of them pays even on a CPU."""
WORKS: Final = {work.name: work for work in (SMALL, WIDE)}


@dataclass(frozen=True, slots=True)
class Request:
    """What is posted."""

    body: bytes
    headers: Mapping[str, str]


def request_of(work: Work, form: Form, *, model: str) -> Request:
    """Write the request of one row; ``model`` is its name where that stands in the body."""
    row = work.row
    if form is Form.GRPC:
        return Request(_message(model, row), {})
    if form is Form.RAW:
        return Request(row.tobytes(), {"Content-Type": "application/octet-stream"})
    tensor: dict[str, object] = {"name": "input", "shape": list(row.shape), "datatype": "FP32"}
    if form is Form.JSON:
        digits = [round(float(value), 4) for value in row.ravel()]
        body = orjson.dumps({"inputs": [{**tensor, "data": digits}]})
        return Request(body, {"Content-Type": "application/json"})
    tensor["parameters"] = {"binary_data_size": row.nbytes}
    head = orjson.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
    headers = {
        "Content-Type": "application/octet-stream",
        "Inference-Header-Content-Length": str(len(head)),
    }
    return Request(head + row.tobytes(), headers)


def _message(model: str, row: npt.NDArray[np.float32]) -> bytes:
    request = ModelInferRequest(model_name=model, raw_input_contents=[row.tobytes()])
    request.inputs.add(name="input", datatype="FP32", shape=row.shape)
    return request.SerializeToString()


def make_models(folder: Path) -> Path:
    """Write ``small.onnx`` and ``wide.onnx``, and publish both; return the store."""
    store = folder / "store"
    for work in WORKS.values():
        file = model_file(folder, work)
        onnx.save(perceptron(work), file)
        candidate = Candidate(
            name=ModelName(work.name), file=file, alias=Alias("stable"), tolerance=1e-3
        )
        publish(ArtifactStore(LocalObjectStore(store)), candidate, clock=SystemClock())
    return store


def model_file(folder: Path, work: Work) -> Path:
    """Return where ``make_models`` puts one."""
    return folder / f"{work.name}.onnx"


def perceptron(work: Work) -> onnx.ModelProto:
    """Build the model: layers of random weights from a fixed seed, ReLU between them."""
    random = np.random.default_rng(_SEED)
    nodes, weights, last = [], [], "input"
    layers = list(pairwise(work.widths))
    for place, (rows, columns) in enumerate(layers):
        matrix = random.standard_normal((rows, columns), np.float32) / np.float32(rows) ** 0.5
        weights.append(numpy_helper.from_array(matrix, f"weights_{place}"))
        weights.append(numpy_helper.from_array(np.zeros(columns, np.float32), f"bias_{place}"))
        nodes.append(
            helper.make_node("Gemm", [last, f"weights_{place}", f"bias_{place}"], [f"sum_{place}"])
        )
        ends = place == len(layers) - 1
        last = "output" if ends else f"layer_{place}"
        nodes.append(helper.make_node("Softmax" if ends else "Relu", [f"sum_{place}"], [last]))
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width])
        for name, width in (("input", work.widths[0]), ("output", work.widths[-1]))
    ]
    graph = helper.make_graph(nodes, work.name, values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR
    onnx.checker.check_model(model)
    return model
