"""Bodies of JSON and bytes: how known ones are divided, and every way to divide them wrong."""

import struct

import numpy as np
import orjson
import pytest

from tidegate.errors import RequestRejectedError
from tidegate.oip import NamedOutput, ResponseTag, WireLimits, decode_request, encode_response
from tidegate.oip.layout import json_length
from tidegate.oip.raw import decode_raw_request
from tidegate.oip.request import HEADS
from tidegate.tensors.signature import Signature, TensorSpec

TAG = ResponseTag(model_name="risk", model_version="7", parameters={"tidegate_digest": "sha256:ab"})
NO_OUTPUTS: tuple[TensorSpec, ...] = ()


def tensor(name: str, datatype: str, shape: list[int], size: object = None) -> dict[str, object]:
    described: dict[str, object] = {"name": name, "datatype": datatype, "shape": shape}
    return described if size is None else {**described, "parameters": {"binary_data_size": size}}


def refusal(tensors: list[dict[str, object]], blob: bytes, **outside: object) -> str:
    text = orjson.dumps({"inputs": tensors, **outside})
    with pytest.raises(RequestRejectedError) as caught:
        decode_request(text + blob, json_bytes=len(text))
    return f"{caught.value.code}: {caught.value}"


def test_json_and_bytes_may_stand_side_by_side_in_one_request() -> None:
    body = (
        b'{"id":"1","inputs":['
        b'{"name":"a","shape":[1,2],"datatype":"INT16","parameters":{"binary_data_size":4}},'
        b'{"name":"j","shape":[1],"datatype":"INT64","data":[9223372036854775807]},'
        b'{"name":"t","shape":[1,2],"datatype":"BYTES","parameters":{"binary_data_size":11}}],'
        b'"outputs":[{"name":"p","parameters":{"binary_data":true}},{"name":"q"}]}'
        b"\x01\x00\xff\xff"
        b"\x03\x00\x00\x00abc\x00\x00\x00\x00"
    )
    read = decode_request(body, json_bytes=len(body) - 15)
    assert read.inputs["a"].tolist() == [[1, -1]]
    assert read.inputs["j"].tolist() == [2**63 - 1]
    assert read.inputs["t"].tolist() == [["abc", ""]]
    assert [(o.name, o.binary) for o in read.outputs or ()] == [("p", True), ("q", False)]
    assert np.shares_memory(read.inputs["a"], np.frombuffer(body, np.uint8))


def test_one_parameter_asks_for_all_outputs_as_bytes_and_each_may_say_otherwise() -> None:
    body = orjson.dumps(
        {
            "inputs": [{**tensor("a", "INT8", [1]), "data": [1]}],
            "outputs": [{"name": "p"}, {"name": "q", "parameters": {"binary_data": False}}],
            "parameters": {"binary_data_output": True},
        }
    )
    read = decode_request(body)
    assert [(o.name, o.binary) for o in read.outputs or ()] == [("p", True), ("q", False)]
    assert read.binary


def test_a_reply_of_json_and_bytes_has_exactly_these_bytes() -> None:
    reply = encode_response(
        TAG,
        id="1",
        outputs=[
            NamedOutput("p", "FP32", np.array([[0.5, -1]], np.float32), binary=True),
            NamedOutput("n", "INT64", np.array([7], np.int64)),
            NamedOutput("t", "BYTES", np.array(["é"], object), binary=True),
        ],
    )
    text = (
        b'{"model_name":"risk","model_version":"7","id":"1",'
        b'"parameters":{"tidegate_digest":"sha256:ab"},"outputs":['
        b'{"name":"p","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}},'
        b'{"name":"n","datatype":"INT64","shape":[1],"data":[7]},'
        b'{"name":"t","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":6}}]}'
    )
    assert reply.json_bytes == len(text)
    assert reply.body == text + struct.pack("<ff", 0.5, -1) + b"\x02\x00\x00\x00\xc3\xa9"


@pytest.mark.field_fault("P-12")
def test_what_json_cannot_say_passes_as_bytes() -> None:
    values = np.array([[np.nan, np.inf]], np.float32)
    reply = encode_response(TAG, id="null", outputs=[NamedOutput("p", "FP32", values, binary=True)])
    assert reply.body.endswith(values.tobytes())


@pytest.mark.field_fault("P-06", "P-42")
@pytest.mark.parametrize(
    ("said", "length"), [([], 100), (["100"], 100), (["0"], 0), (["99"], 99), (["1"], 1)]
)
def test_the_header_divides_the_body(said: list[str], length: int) -> None:
    assert json_length(said, 100) == length


@pytest.mark.field_fault("P-42")
@pytest.mark.parametrize(
    "said",
    [
        ["101"],
        ["99999999999"],
        ["-1"],
        ["+1"],
        ["0x10"],
        ["1e1"],
        ["1.0"],
        ["abc"],
        [""],
        [" "],
        [" 1"],
        ["1 "],
        ["007"],
        ["1,1"],
        ["\u0661"],
        ["9" * 5_000],
        ["50", "50"],
        ["50", "60"],
    ],
)
def test_a_header_that_is_no_plain_number_of_the_bodys_bytes_is_refused(said: list[str]) -> None:
    with pytest.raises(RequestRejectedError, match="from 0 to the length") as caught:
        json_length(said, 100)
    assert caught.value.code == "binary_layout"
    assert len(str(caught.value)) < 250


@pytest.mark.field_fault("P-07")
@pytest.mark.parametrize(
    ("tensors", "blob", "hint"),
    [
        ([tensor("a", "INT8", [2], 2)], b"123", "1 bytes follow"),
        ([tensor("a", "INT8", [2], 2)], b"1", "1 bytes are left"),
        ([tensor("a", "INT8", [2], 3)], b"12", "2 bytes are left"),
        ([tensor("a", "INT8", [2], 3)], b"123", "2 of INT8 are 2 bytes, and it has 3"),
        ([tensor("a", "INT8", [1], 1), tensor("b", "INT8", [1], 2)], b"123", "and it has 2"),
        ([tensor("a", "INT8", [1], -1)], b"1", "'-1'"),
        ([tensor("a", "INT8", [1], True)], b"1", "'True'"),
        ([tensor("a", "INT8", [1], "1")], b"1", "'1'"),
        ([tensor("a", "INT8", [1], 1.0)], b"1", "'1.0'"),
        ([tensor("a", "INT8", [1], 2**63)], b"1", "1 bytes are left"),
        ([{**tensor("a", "INT8", [1]), "data": [1]}], b"1", "1 bytes follow"),
    ],
)
def test_sizes_that_do_not_add_up_to_the_body_are_refused(
    tensors: list[dict[str, object]], blob: bytes, hint: str
) -> None:
    said = refusal(tensors, blob)
    assert said.startswith("binary_layout: ")
    assert hint in said


@pytest.mark.field_fault("P-07")
def test_a_tensor_has_data_or_bytes_and_never_both_or_neither() -> None:
    assert "neither data nor" in refusal([tensor("a", "INT8", [1])], b"")
    both = {**tensor("a", "INT8", [1], 1), "data": [1]}
    assert "both data and" in refusal([both], b"1")


@pytest.mark.field_fault("P-18")
@pytest.mark.parametrize(
    "shape",
    [[2**4, 2**60 + 2], [2**2, 2**60 + 2], [-1, 4], [1] * 1_000_000, [2**40, 0, 2**40], [0, 2**63]],
)
@pytest.mark.parametrize("size", [0, 8])
def test_a_hostile_shape_is_refused_before_anything_is_made(shape: list[int], size: int) -> None:
    said = refusal([tensor("a", "FP32", shape, size)], b"\0" * size)
    assert said.startswith(("binary_layout: ", "malformed_request: "))
    assert len(said) < 300


def test_the_values_of_all_tensors_together_have_a_limit() -> None:
    text = orjson.dumps({"inputs": [tensor(name, "UINT8", [1, 3], 3) for name in "ab"]})
    limits = WireLimits(elements=3, request_elements=5)
    with pytest.raises(RequestRejectedError, match="all inputs") as caught:
        decode_request(text + bytes(6), json_bytes=len(text), limits=limits)
    assert caught.value.details == {"limit": 5, "found": 6}


def test_a_reply_has_a_limit_that_is_looked_at_before_it_is_written() -> None:
    wide = np.zeros((4, 100_000), np.float32)
    limits = WireLimits(reply_bytes=2_000_000)
    output = NamedOutput("p", "FP32", wide, binary=True)
    assert len(encode_response(TAG, id=None, outputs=[output], limits=limits).body) > 1_600_000
    for too_much in (
        [NamedOutput("p", "FP32", wide)],
        [output, NamedOutput("q", "FP32", wide, binary=True)],
        [NamedOutput("t", "BYTES", np.array(["x" * 2_000_000], object))],
    ):
        with pytest.raises(RequestRejectedError, match="reply") as caught:
            encode_response(TAG, id=None, outputs=too_much, limits=limits)
        assert caught.value.code == "body_too_large"


def signature(*shapes: tuple[int, ...], datatype: str = "INT16") -> Signature:
    inputs = [
        TensorSpec(name=f"i{place}", datatype=datatype, shape=shape)
        for place, shape in enumerate(shapes)
    ]
    return Signature(inputs=tuple(inputs), outputs=NO_OUTPUTS)


@pytest.mark.parametrize(
    ("shape", "read"),
    [((-1, 2), [[1, 2]]), ((-1, -1), [[1, 2]]), ((-1, 2, -1), [[[1], [2]]])],
)
def test_a_raw_body_is_one_row_whose_open_dimension_is_what_its_length_leaves(
    shape: tuple[int, ...], read: object
) -> None:
    request = decode_raw_request(b"\x01\x00\x02\x00", signature(shape))
    assert request.inputs["i0"].tolist() == read
    assert (request.rows, request.binary, request.id, request.outputs) == (1, True, None, None)


def test_a_raw_text_is_the_whole_body() -> None:
    request = decode_raw_request("é{}".encode(), signature((-1,), datatype="BYTES"))
    assert request.inputs["i0"].tolist() == ["é{}"]


@pytest.mark.parametrize(
    ("asked", "body"),
    [
        (signature((-1, 2), (-1, 2)), b"1234"),
        (signature((-1, -1, -1)), b"1234"),
        (signature((-1, 3)), b"1234"),
        (signature((-1, 2)), b"123456"),
        (signature((-1, 2, -1)), b"12"),
        (signature((-1, 2), datatype="BYTES"), b"12"),
    ],
)
def test_a_raw_body_that_is_no_row_is_refused(asked: Signature, body: bytes) -> None:
    with pytest.raises(RequestRejectedError, match="body without JSON") as caught:
        decode_raw_request(body, asked)
    assert caught.value.code == "binary_layout"


def test_requests_with_the_same_json_have_their_own_bytes() -> None:
    text = orjson.dumps({"inputs": [tensor("a", "INT8", [1, 2], 2)]})
    reads = [decode_request(text + bytes([n, 1]), json_bytes=len(text)) for n in range(3)]
    assert [read.inputs["a"].tolist() for read in reads] == [[[0, 1]], [[1, 1]], [[2, 1]]]
    assert "1 bytes are left" in refusal([tensor("a", "INT8", [1, 2], 2)], b"1")


def test_json_is_remembered_within_bounds_and_never_with_what_callers_send() -> None:
    def remembered(**outside: object) -> bool:
        text = orjson.dumps({"inputs": [tensor("a", "INT8", [1], 1)], **outside})
        decode_request(text + b"1", json_bytes=len(text))
        assert len(HEADS) <= 256
        return text in HEADS

    assert remembered(parameters={"binary_data_output": True})
    assert remembered(id="", outputs=[{"name": "o", "parameters": {"binary_data": True}}])
    assert not remembered(parameters={"user": "of one request"})
    assert not remembered(outputs=[{"name": "o", "parameters": {"user": "of one request"}}])
    size = {"binary_data_size": 1, "user": "of one request"}
    asking = {**tensor("a", "INT8", [1], 1), "parameters": size}
    assert not remembered(inputs=[asking])
    assert not remembered(id="of one request")
    assert not remembered(parameters={"long": "x" * 1_024})
    mixed = [tensor("a", "INT8", [1], 1), {**tensor("b", "INT8", [1]), "data": [7]}]
    assert not remembered(inputs=mixed)
    for number in range(600):
        assert remembered(outputs=[{"name": f"o{number}"}])


def test_what_each_caller_says_differently_pushes_out_nothing_that_all_repeat() -> None:
    repeated = orjson.dumps({"inputs": [tensor("a", "INT8", [1], 1)]})
    decode_request(repeated + b"1", json_bytes=len(repeated))
    for number in range(300):
        text = orjson.dumps(
            {"inputs": [tensor("a", "INT8", [1], 1)], "parameters": {"user": number}}
        )
        decode_request(text + b"1", json_bytes=len(text))
    assert repeated in HEADS
