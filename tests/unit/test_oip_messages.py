"""Messages of ``ModelInfer``: what each datatype needs, and what is refused, without a channel."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import RequestRejectedError
from tidegate.oip.errors import ReplyTooLargeError
from tidegate.oip.limits import WireLimits
from tidegate.oip.parameters import Parameter
from tidegate.oip.protobuf.contents import FIELDS
from tidegate.oip.protobuf.parameters import read_parameters, write_parameters
from tidegate.oip.protobuf.request import decode_message
from tidegate.oip.protobuf.response import encode_message
from tidegate.oip.protobuf.v2_pb2 import ModelInferRequest, ModelInferResponse
from tidegate.oip.request import InferRequest
from tidegate.oip.response import NamedOutput, ResponseTag
from tidegate.tensors.datatypes import DATATYPES

TAG = ResponseTag(
    model_name="risk", model_version="7", parameters={"tidegate_digest": "sha256:ab", "odd": True}
)


def typed(datatype: str, shape: list[int], **contents: list[Any]) -> ModelInferRequest:
    request = ModelInferRequest(model_name="risk")
    tensor = request.inputs.add(name="x", datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(tensor.contents, field).extend(values)
    return request


def raw(datatype: str, shape: list[int], blob: bytes) -> ModelInferRequest:
    request = typed(datatype, shape)
    request.raw_input_contents.append(blob)
    return request


def refusal(message: ModelInferRequest, limits: WireLimits | None = None) -> RequestRejectedError:
    with pytest.raises(RequestRejectedError) as caught:
        decode_message(message, limits or WireLimits())
    return caught.value


def reply(*outputs: NamedOutput, is_raw: bool, id: str | None = None) -> ModelInferResponse:
    return ModelInferResponse.FromString(encode_message(TAG, id=id, outputs=outputs, is_raw=is_raw))


def test_every_datatype_has_a_field_but_the_16_bit_floats() -> None:
    assert FIELDS.keys() == DATATYPES.keys() - {"FP16", "BF16"}


@pytest.mark.parametrize(
    ("datatype", "field", "value"),
    [
        ("INT8", "int_contents", 128),
        ("INT8", "int_contents", -129),
        ("INT16", "int_contents", 2**15),
        ("UINT8", "uint_contents", 256),
        ("UINT16", "uint_contents", 2**16),
    ],
)
def test_a_value_beyond_its_datatype_is_refused_and_never_wrapped(
    datatype: str, field: str, value: int
) -> None:
    error = refusal(typed(datatype, [1], **{field: [value]}))
    assert str(error) == f"'x': a value is beyond the range of {datatype}."


@pytest.mark.parametrize(
    "message",
    [
        typed("BYTES", [1], bytes_contents=[b"\xff"]),
        raw("BYTES", [1], b"\x01\0\0\0\xff"),
    ],
    ids=["typed", "raw"],
)
def test_texts_are_utf_8(message: ModelInferRequest) -> None:
    assert "item 0 is no UTF-8 text" in str(refusal(message))


def test_typed_values_are_made_one_by_one_and_not_too_many() -> None:
    limits = WireLimits(items=4)
    error = refusal(typed("FP32", [5], fp32_contents=[0.0] * 5), limits)
    assert error.code == "too_many_elements"
    decode_message(raw("FP32", [5], bytes(20)), limits)


def test_all_inputs_together_are_not_too_many() -> None:
    message = raw("FP32", [3], bytes(12))
    message.inputs.add(name="y", datatype="FP32", shape=[3])
    message.raw_input_contents.append(bytes(12))
    assert refusal(message, WireLimits(request_elements=5)).code == "too_many_elements"


def test_more_inputs_than_allowed_are_refused_before_any_is_read() -> None:
    message = ModelInferRequest()
    for number in range(3):
        message.inputs.add(name=f"x{number}")
    assert "has 3 inputs" in str(refusal(message, WireLimits(tensors=2)))


def test_a_raw_tensor_is_a_view_of_its_bytes() -> None:
    array = decode_message(raw("FP32", [2], bytes(8))).inputs["x"]
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_raw_contents_belong_to_the_inputs_in_their_order() -> None:
    message = raw("INT64", [1], b"\x07" + bytes(7))
    message.inputs.add(name="y", datatype="FP32", shape=[1, 1])
    message.raw_input_contents.append(b"\0\0\x80\x3f")
    inputs = decode_message(message).inputs
    assert {name: values.tolist() for name, values in inputs.items()} == {"x": [7], "y": [[1.0]]}


def test_the_length_that_kserves_client_repeats_is_no_objection() -> None:
    message = raw("FP32", [1], bytes(4))
    message.inputs[0].parameters["binary_data_size"].int64_param = 4
    assert decode_message(message).rows == 1


def test_an_empty_id_is_none() -> None:
    assert decode_message(raw("FP32", [1], bytes(4))).id is None


def test_parameters_keep_their_type() -> None:
    given: dict[str, Parameter] = {"a": True, "b": 1, "c": 0.5, "d": "text", "e": 0}
    wire = ModelInferRequest().parameters
    write_parameters(given, wire)
    read = read_parameters(wire)
    assert read == given
    assert {name: type(value) for name, value in read.items()} == {
        name: type(value) for name, value in given.items()
    }


def test_a_reply_says_who_made_it_and_repeats_the_id() -> None:
    output = NamedOutput("y", "FP32", np.array([[1, 2]], np.float32))
    message = reply(output, is_raw=False, id="mine")
    assert (message.model_name, message.model_version, message.id) == ("risk", "7", "mine")
    assert read_parameters(message.parameters) == TAG.parameters
    assert list(message.outputs[0].shape) == [1, 2]
    assert list(message.outputs[0].contents.fp32_contents) == [1, 2]
    assert reply(output, is_raw=True).id == ""


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_a_16_bit_float_makes_a_typed_reply_raw(kind: type) -> None:
    name = "FP16" if kind is np.float16 else "BF16"
    half = NamedOutput("h", name, np.array([[1]], kind))
    message = reply(NamedOutput("y", "BYTES", np.array([["a"]], object)), half, is_raw=False)
    assert len(message.raw_output_contents) == 2
    assert message.raw_output_contents[0] == b"\x01\0\0\0a"
    assert not any(output.HasField("contents") for output in message.outputs)


def test_a_reply_that_would_be_too_long_is_refused_before_it_is_written() -> None:
    output = NamedOutput("y", "FP32", np.zeros((1, 100), np.float32))
    limits = WireLimits(reply_bytes=9)
    with pytest.raises(ReplyTooLargeError):
        encode_message(TAG, id=None, outputs=[output], is_raw=True, limits=limits)


names = st.sampled_from(["x", "y", ""])
sizes = st.one_of(st.integers(-2, 3), st.sampled_from([2**31, 2**62, -(2**63)]))
numbers = st.lists(st.integers(-200, 200), max_size=3)


@st.composite
def messages(draw: st.DrawFn) -> ModelInferRequest:
    """Make a message that is anything but sure to make sense."""
    message = ModelInferRequest(model_name=draw(names))
    for _ in range(draw(st.integers(0, 2))):
        datatype = draw(st.sampled_from([*DATATYPES, "FP8", ""]))
        shape = draw(st.lists(sizes, max_size=3))
        tensor = message.inputs.add(name=draw(names), datatype=datatype, shape=shape)
        if draw(st.booleans()):
            tensor.contents.int_contents.extend(draw(numbers))
        if draw(st.booleans()):
            tensor.contents.fp32_contents.extend(draw(numbers))
        if draw(st.booleans()):
            tensor.parameters[draw(names)].bool_param = True
    message.raw_input_contents.extend(draw(st.lists(st.binary(max_size=12), max_size=2)))
    for _ in range(draw(st.integers(0, 2))):
        message.outputs.add(name=draw(names)).parameters["classification"].int64_param = draw(sizes)
    return message


@given(messages())
def test_any_message_is_a_request_or_refused(message: ModelInferRequest) -> None:
    try:
        request = decode_message(message)
    except RequestRejectedError as error:
        assert 0 < len(str(error)) < 500  # noqa: PT017 - both ends are looked at
    else:
        assert isinstance(request, InferRequest)
        assert all(array.shape[0] == request.rows for array in request.inputs.values())
