"""Rows of any kind are answered or refused: what a caller sends never becomes a 500."""

from math import prod
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.fixtures import edges, onnx_models
from tidegate.artifacts.manifest import Column, LabelsSpec, TabularSpec, TransformSpec
from tidegate.errors import RequestRejectedError
from tidegate.oip.errors import NonFiniteOutputError
from tidegate.tensors.datatypes import DATATYPES
from tidegate_realtime.api.forms import InferForm, PredictForm
from tidegate_realtime.api.served import ServedVersion

TYPES = {
    "BOOL": TensorProto.BOOL,
    "INT8": TensorProto.INT8,
    "INT64": TensorProto.INT64,
    "UINT64": TensorProto.UINT64,
    "FP16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}
TABULAR = TransformSpec(
    tabular=TabularSpec(
        input="x",
        columns=(
            Column(name="n", type="number", default=0.5),
            Column(name="i", type="integer"),
            Column(name="b", type="boolean"),
            Column(name="c", type="category", categories=("low", "high")),
        ),
    ),
    labels=LabelsSpec(output="y", names=("n", "i", "b", "c")),
)


def identity(file: Path, datatype: str, shape: list[int | str]) -> Path:
    return onnx_models.save(
        file,
        [helper.make_node("Identity", ["x"], ["y"])],
        [helper.make_tensor_value_info("x", TYPES[datatype], shape)],
        [helper.make_tensor_value_info("y", TYPES[datatype], shape)],
    )


def two_inputs(file: Path) -> Path:
    def value(name: str, of: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TYPES[of], ["rows", 2])

    return onnx_models.save(
        file,
        [helper.make_node("Identity", [a], [b]) for a, b in (("a", "c"), ("b", "d"))],
        [value("a", "FP32"), value("b", "BYTES")],
        [value("c", "FP32"), value("d", "BYTES")],
    )


SHAPES: list[list[int | str]] = [["rows"], ["rows", 2], ["rows", "any", 2]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> list[ServedVersion]:
    folder = tmp_path_factory.mktemp("models")
    models = [
        edges.load(identity(folder / f"{name}{len(shape)}.onnx", name, shape), name=name.lower())
        for name in TYPES
        for shape in SHAPES
    ]
    table = identity(folder / "table.onnx", "FP32", ["rows", 4])
    models.append(edges.load(table, name="table", transforms=TABULAR))
    models.append(edges.load(two_inputs(folder / "two.onnx"), name="two"))
    return [edges.described(model) for model in models]


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(-3, 3)
    | st.sampled_from([10**30, 10**400, -(10**400)])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["low", "high", "1.5", "nan", "", "\0", "é"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["b64", "n", "i", "x"]), inner, max_size=2)
        | st.just({"b64": "aGk="})
    ),
    max_leaves=6,
)
rows = (
    values
    | st.fixed_dictionaries(dict.fromkeys("nibc", scalars))
    | st.fixed_dictionaries({"n": scalars, "i": st.integers(), "b": st.booleans(), "c": scalars})
    | st.fixed_dictionaries({"a": st.lists(scalars, max_size=3), "b": st.lists(values, max_size=3)})
)


@given(instances=st.lists(rows, min_size=1, max_size=3), place=st.integers(0, 28))
@settings(max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_instances_are_answered_or_refused(
    served: list[ServedVersion], instances: list[Any], place: int
) -> None:
    form, version = PredictForm(), served[place]
    try:
        asked = form.decode(msgspec.json.encode({"instances": instances}), version)
    except RequestRejectedError:
        return
    assert asked.rows == len(instances)
    assert {array.shape[0] for array in asked.inputs.values()} == {asked.rows}
    outputs = version.model.run(asked.inputs)
    try:
        written = form.encode(version, asked, outputs, request_id="r").body
    except NonFiniteOutputError:
        assert not all(np.isfinite(v).all() for v in outputs.values() if v.dtype.kind == "f")
        return
    assert len(orjson.loads(written)["predictions"]) == asked.rows


wanted = st.fixed_dictionaries(
    {"name": st.sampled_from(["y", "y", "c", "d", "z"])},
    optional={
        "parameters": st.fixed_dictionaries(
            {},
            optional={
                "binary_data": st.booleans(),
                "classification": st.integers(-1, 3),
                "else": st.just(1),
            },
        )
    },
)


FITTING: dict[str, st.SearchStrategy[Any]] = {
    "b": st.booleans(),
    "i": st.integers(-3, 3),
    "u": st.integers(0, 3),
    "f": st.floats(-1e4, 1e4) | st.integers(-3, 3),
    "O": st.text(max_size=3),
}
SOUND = [[1], [2], [2, 2], [1, 2], [1, 0, 2], [1, 3, 2]]
UNSOUND = [[0], [1, -1], [1, 3], [2**60, 16, 2], []]


@st.composite
def infer_bodies(draw: st.DrawFn) -> tuple[str, int, bytes, bytes]:
    """Make a mostly sound request: datatype and rank, its JSON, and the bytes behind that."""
    datatype = draw(st.sampled_from(sorted(TYPES)))
    shape = draw(st.sampled_from([*SOUND, *SOUND, *SOUND, *UNSOUND]))
    elements = draw(st.sampled_from([FITTING[DATATYPES[datatype].kind]] * 3 + [scalars]))
    tensor: dict[str, Any] = {"name": "x", "datatype": datatype, "shape": shape}
    count = min(8, abs(prod(shape)))
    blob = b""
    if draw(st.booleans()):
        size = count * (DATATYPES[datatype].item_bytes or 4)
        too_many = draw(st.sampled_from([0, 0, 0, 1]))
        bits = st.sampled_from([b"\0", b"\1", b"\x7f"] if draw(st.booleans()) else [b"\0"])
        blob = b"".join(draw(bits) for _ in range(size + too_many))
        tensor["parameters"] = {"binary_data_size": size}
    else:
        tensor["data"] = draw(st.lists(elements, min_size=count, max_size=count))
    request: dict[str, Any] = {"inputs": [tensor]}
    if draw(st.booleans()):
        request["outputs"] = draw(st.lists(wanted, max_size=2))
    if draw(st.booleans()):
        request["parameters"] = {"binary_data_output": draw(st.booleans())}
    return datatype, max(0, min(2, len(shape) - 1)), msgspec.json.encode(request), blob


@given(infer_bodies())
@settings(max_examples=1_500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_tensors_are_answered_or_refused(
    served: list[ServedVersion], asked: tuple[str, int, bytes, bytes]
) -> None:
    datatype, rank, text, blob = asked
    form, version = InferForm(), served[3 * list(TYPES).index(datatype) + rank]
    try:
        read = form.decode(text + blob, version, json_bytes=len(text))
    except RequestRejectedError:
        return
    outputs = version.model.run(read.inputs)
    try:
        written = form.encode(version, read, outputs, request_id="r")
    except NonFiniteOutputError:
        assert not all(np.isfinite(v).all() for v in outputs.values() if v.dtype != object)
        return
    described = orjson.loads(written.body[: written.json_bytes])["outputs"]
    assert [output["shape"][0] for output in described] == [read.rows] * len(described)
