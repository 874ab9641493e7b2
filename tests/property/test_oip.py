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
from tidegate.oip.binary import array_from_bytes, bytes_from_array
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


def bits(name: str) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Make tensors of any bit pattern that the datatype has."""
    kind = np.dtype(DATATYPES[name].numpy)
    shapes = hnp.array_shapes(max_dims=4, min_side=0, max_side=4)
    if kind == np.bool_:
        return hnp.arrays(kind, shapes)
    return hnp.arrays(np.dtype(f"u{kind.itemsize}"), shapes).map(lambda whole: whole.view(kind))


any_bits = st.one_of(*[bits(name) for name in DATATYPES if name != "BYTES"], texts())
NAMES = {np.dtype(each.numpy): name for name, each in DATATYPES.items()}


@given(any_bits)
@settings(max_examples=300)
def test_bytes_bring_back_every_bit_whatever_it_means(values: np.ndarray[Any, Any]) -> None:
    blob = bytes(bytes_from_array(values))
    name = NAMES[values.dtype]
    read = array_from_bytes(blob, name="x", datatype=name, shape=values.shape)
    assert (read.dtype, read.shape) == (values.dtype, values.shape)
    assert bytes(bytes_from_array(read)) == blob


@given(tensors)
def test_json_and_bytes_are_the_same_tensor(tensor: tuple[str, np.ndarray[Any, Any]]) -> None:
    datatype, values = tensor
    output = NamedOutput("x", datatype, values, binary=True)
    reply = encode_response(TAG, id=None, outputs=[output])
    assert reply.json_bytes is not None
    text, blob = reply.body[: reply.json_bytes], reply.body[reply.json_bytes :]
    asked = orjson.dumps({"inputs": orjson.loads(text)["outputs"]})
    of_bytes = decode_request(asked + blob, json_bytes=len(asked)).inputs["x"]
    as_json = encode_response(TAG, id=None, outputs=[NamedOutput("x", datatype, of_bytes)]).body
    of_json = decode_request(as_request(as_json, nested=False)).inputs["x"]
    assert of_json.dtype == of_bytes.dtype == values.dtype
    assert of_json.tolist() == of_bytes.tolist() == values.tolist()


def decoded(body: bytes, *, json_bytes: int | None = None) -> InferRequest | RequestRejectedError:
    try:
        return decode_request(body, json_bytes=json_bytes)
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


sizes = st.integers(-2, 40) | st.sampled_from([2**32, 2**63, 2**64 + 8, True, 1.0, "8"])
divided = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["x", "y"]),
        "shape": st.lists(st.integers(-1, 4) | st.sampled_from([2**60 + 2, 2**63]), max_size=3),
        "datatype": st.sampled_from([*DATATYPES, "FP8"]),
        "parameters": st.fixed_dictionaries({"binary_data_size": sizes}),
    },
    optional={"data": st.lists(st.integers(0, 1), max_size=4)},
)


@given(
    st.lists(divided, min_size=1, max_size=3),
    st.binary(max_size=60),
    st.integers(0, 400) | st.none(),
)
@settings(max_examples=400)
def test_any_division_of_a_body_is_a_request_or_a_refusal(
    inputs: list[dict[str, Any]], blob: bytes, said: int | None
) -> None:
    text = repr({"inputs": inputs}).replace("'", '"').replace("True", "true").encode()
    body = text + blob
    asked = decoded(body, json_bytes=min(said or len(text), len(body)))
    if isinstance(asked, InferRequest):
        assert sum(array.nbytes for array in asked.inputs.values() if array.dtype != object) <= 60
    else:
        assert 0 < len(str(asked)) < 1_000
