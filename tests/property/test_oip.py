"""Whatever comes over the wire is a request or a refusal, and what is written can be read."""

from typing import Any

import numpy as np
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tidegate.errors import RequestRejectedError
from tidegate.oip import (
    InferRequest,
    NamedOutput,
    ResponseTag,
    WireLimits,
    decode_request,
    encode_response,
)
from tidegate.oip.errors import MalformedJsonError
from tidegate.oip.limits import check_raw_json
from tidegate.oip.values import ONLY_BINARY
from tidegate.tensors.datatypes import DATATYPES

TAG = ResponseTag(model_name="risk", model_version="7", parameters={})
NUMBERS = sorted(DATATYPES.keys() - ONLY_BINARY - {"BYTES"})
SHAPES = hnp.array_shapes(max_dims=4, max_side=5)


def numbers(datatype: str) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    kind = np.dtype(DATATYPES[datatype].numpy)
    elements = {"allow_nan": False, "allow_infinity": False} if kind.kind == "f" else None
    return hnp.arrays(kind, SHAPES, elements=elements)


def texts() -> st.SearchStrategy[np.ndarray[Any, Any]]:
    return hnp.arrays(object, SHAPES, elements=st.text())


tensors = st.one_of(
    *[st.tuples(st.just(name), numbers(name)) for name in NUMBERS],
    st.tuples(st.just("BYTES"), texts()),
)


def as_request(written: bytes, *, nested: bool) -> bytes:
    """Ask with the outputs of a reply: they have the form that inputs have."""
    outputs = orjson.loads(written)["outputs"]
    for output in outputs:
        if nested:
            data = np.empty(len(output["data"]), object)
            data[:] = output["data"]
            output["data"] = data.reshape(output["shape"]).tolist()
    return orjson.dumps({"inputs": outputs})


@given(tensors, st.booleans())
def test_every_datatype_comes_back_bit_by_bit_flat_and_nested(
    tensor: tuple[str, np.ndarray[Any, Any]], nested: bool
) -> None:
    datatype, values = tensor
    written = encode_response(TAG, id=None, outputs=[NamedOutput("x", datatype, values)]).body
    read = decode_request(as_request(written, nested=nested)).inputs["x"]
    assert read.dtype == np.dtype(DATATYPES[datatype].numpy)
    assert read.shape == values.shape
    assert read.tolist() == values.tolist()
    if datatype != "BYTES":
        assert read.tobytes() == values.tobytes()  # -0.0 too


def decoded(body: bytes) -> InferRequest | RequestRejectedError:
    try:
        return decode_request(body)
    except RequestRejectedError as error:
        return error


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_a_request_or_a_refusal(body: bytes) -> None:
    asked = decoded(body)
    assert isinstance(asked, InferRequest) or str(asked)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**65)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
small = st.integers(-2, 3) | json_values
wire_tensors = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["x", "y", ""]) | json_values,
        "shape": st.lists(small, max_size=10) | json_values,
        "datatype": st.sampled_from([*DATATYPES, "BF16", "FP8"]) | json_values,
        "data": st.lists(json_values, max_size=6) | json_values,
        "parameters": st.dictionaries(st.text(), json_values, max_size=2),
    },
)
wire_requests = st.fixed_dictionaries(
    {"inputs": st.lists(wire_tensors, max_size=3)},
    optional={
        "id": json_values,
        "outputs": st.lists(wire_tensors, max_size=3),
        "parameters": st.dictionaries(st.text(), json_values, max_size=2),
    },
)


@given(wire_requests | json_values)
@settings(max_examples=500)
def test_any_json_is_a_request_or_a_refusal_in_one_sentence(value: object) -> None:
    try:
        body = orjson.dumps(value)
    except orjson.JSONEncodeError:  # integers beyond 64 bits
        body = repr(value).replace("'", '"').encode()
    asked = decoded(body)
    if isinstance(asked, InferRequest):
        assert {array.shape[0] for array in asked.inputs.values()} == {asked.rows}
    else:
        assert 0 < len(str(asked)) < 1_000


def depth_of(value: object) -> int:
    match value:
        case list():
            return 1 + max(map(depth_of, value), default=0)
        case dict():
            return 1 + max(map(depth_of, value.values()), default=0)
        case _:
            return 0


@given(
    st.recursive(
        st.text(alphabet='[]{}"\\a,') | st.integers(0, 9),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\'), inner, max_size=2)
        ),
        max_leaves=20,
    ),
    st.integers(0, 8),
)
@settings(max_examples=500)
def test_depth_is_counted_as_a_parser_would_count_it(value: object, limit: int) -> None:
    limits = WireLimits(depth=limit)
    try:
        check_raw_json(orjson.dumps(value), limits)
        refused = False
    except MalformedJsonError:
        refused = True
    assert refused == (depth_of(value) > limit)
