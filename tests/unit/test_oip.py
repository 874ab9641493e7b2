"""The wire codec on known bytes."""

import struct
from typing import Any

import numpy as np
import orjson
import pytest

from tidegate.errors import RequestRejectedError
from tidegate.oip import (
    NamedOutput,
    ResponseTag,
    WantedOutput,
    decode_request,
    encode_response,
)
from tidegate.oip.errors import NonFiniteOutputError
from tidegate.oip.limits import check_raw_json

TAG = ResponseTag(model_name="risk", model_version="7", parameters={"tidegate_digest": "sha256:ab"})


def request(**fields: object) -> bytes:
    """Build a request for one FP32 row of two values; fields given here replace its own."""
    tensor: dict[str, object] = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    outside = {name: fields.pop(name) for name in ("id", "outputs", "parameters") if name in fields}
    return orjson.dumps({"inputs": [tensor | fields], **outside})


def refusal(body: bytes) -> RequestRejectedError:
    with pytest.raises(RequestRejectedError) as caught:
        decode_request(body)
    return caught.value


def test_a_reply_has_exactly_these_bytes() -> None:
    outputs = [
        NamedOutput("p", "FP32", np.array([[0.1, 1.0]], np.float32)),
        NamedOutput("label", "BYTES", np.array(["benign"], object)),
        NamedOutput("n", "INT64", np.array([2**63 - 1], np.int64)),
    ]
    assert encode_response(TAG, id="", outputs=outputs).body == (
        b'{"model_name":"risk","model_version":"7","id":"",'
        b'"parameters":{"tidegate_digest":"sha256:ab"},"outputs":['
        b'{"name":"p","datatype":"FP32","shape":[1,2],"data":[0.1,1.0]},'
        b'{"name":"label","datatype":"BYTES","shape":[1],"data":["benign"]},'
        b'{"name":"n","datatype":"INT64","shape":[1],"data":[9223372036854775807]}]}'
    )


@pytest.mark.field_fault("P-04")
def test_an_output_has_no_parameters() -> None:
    output = NamedOutput("p", "FP32", np.ones((1, 1), np.float32))
    reply = orjson.loads(encode_response(TAG, id=None, outputs=[output]).body)
    assert reply["outputs"][0].keys() == {"name", "datatype", "shape", "data"}
    assert "id" not in reply


def test_an_unknown_datatype_is_told_each_that_there_is_once() -> None:
    told = str(refusal(request(datatype="fp32")))
    known = told.partition("there are ")[2].rstrip(".").split(", ")
    assert len(known) == len(set(known)) == 12
    assert "FP16" not in known  # JSON cannot say it


def test_a_request_is_read() -> None:
    read = decode_request(request(id="a", outputs=[{"name": "p"}], parameters={"unknown": 1}))
    assert (read.id, read.rows, read.outputs) == ("a", 1, (WantedOutput("p", binary=False),))
    assert read.inputs["x"].dtype == np.float32
    assert read.inputs["x"].tolist() == [[1, 2]]


@pytest.mark.parametrize("value", [0.0, -0.0, 5e-324, 0.1, 3.4028235e38, 16777217.0])
def test_a_float_is_the_nearest_fp32(value: float) -> None:
    read = decode_request(request(shape=[1], data=[value])).inputs["x"]
    assert read.tobytes() == struct.pack("<f", value)


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("INT64", 2**63 - 1),
        ("INT64", -(2**63)),
        ("INT64", 2**53 + 1),
        ("UINT64", 2**64 - 1),
        ("UINT64", 2**53 + 1),
    ],
)
def test_integers_are_exact_over_the_whole_range(datatype: str, value: int) -> None:
    read = decode_request(request(datatype=datatype, shape=[1], data=[value]))
    assert read.inputs["x"].tolist() == [value]


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        ("INT64", [2**63]),
        ("INT8", [128]),
        ("UINT8", [-1]),
        ("UINT64", [2**64]),
        ("UINT64", [-1]),
        ("INT32", [1.0]),
        ("INT32", [1.5]),
        ("INT32", [True]),
        ("INT32", ["1"]),
        ("FP32", [True]),
        ("FP32", ["1.5"]),
        ("FP32", [None]),
        ("FP32", [1e39]),
        ("FP32", [10**400]),
        ("FP32", [[1.0]]),
        ("FP64", [{}]),
        ("BOOL", [1]),
        ("BOOL", ["true"]),
        ("BYTES", [1]),
        ("BYTES", [None]),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_place(datatype: str, data: list[Any]) -> None:
    body = request(datatype=datatype, shape=[2], data=[0, 0]).replace(
        b"[0,0]", f"[{valid(datatype)},{json(data[0])}]".encode()
    )
    error = refusal(body)
    assert error.code == "malformed_request"
    assert "value 1 of data" in str(error)
    assert datatype in str(error)


def valid(datatype: str) -> str:
    return {"BOOL": "false", "BYTES": '"a"'}.get(datatype, "0")


def json(value: object) -> str:
    """Write JSON whose integers may have any size."""
    return str(value) if type(value) is int else orjson.dumps(value).decode()


@pytest.mark.field_fault("P-12")
@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_a_sixteen_bit_float_has_no_json_form(datatype: str) -> None:
    error = refusal(request(datatype=datatype))
    assert error.code == "needs_binary"
    assert datatype in str(error)


@pytest.mark.parametrize("literal", [b"NaN", b"Infinity", b"-Infinity", b"nan"])
def test_what_is_no_number_is_no_json(literal: bytes) -> None:
    body = request().replace(b'"data":[1,2]', b'"data":[' + literal + b",2]")
    assert refusal(body).code == "malformed_json"


@pytest.mark.field_fault("P-18")
@pytest.mark.parametrize(
    "shape",
    [
        [2**4, 2**60 + 2],
        [2**2, 2**60 + 2],
        [-1, 2],
        [1, -2],
        [3],
        [1, 1, 3],
        [1] * 1_000_000,
        [1] * 9,
        [],
        [2**400],
        [10**2999, 10**2999],
    ],
)
def test_a_shape_that_its_data_does_not_have_is_refused_before_anything_is_allocated(
    shape: list[int],
) -> None:
    text = "[" + ",".join(map(str, shape)) + "]"
    error = refusal(request().replace(b'"shape":[1,2]', f'"shape":{text}'.encode()))
    assert error.code == "malformed_request"


@pytest.mark.parametrize(
    ("data", "fits"),
    [
        ([[1, 2], [3, 4]], True),
        ([1, 2, 3, 4], True),
        ([[1, 2, 3, 4]], False),
        ([[1, 2], [3]], False),
        ([[1, 2], 3], False),
        ([[[1, 2], [3, 4]]], False),
        ([[1], [2], [3], [4]], False),
        ([], False),
    ],
)
def test_nested_data_must_have_the_shape(data: list[Any], fits: bool) -> None:
    body = request(shape=[2, 2], data=data)
    if fits:
        assert decode_request(body).inputs["x"].tolist() == [[1, 2], [3, 4]]
    else:
        assert refusal(body).code == "malformed_request"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"shape": [0, 2], "data": []}, "malformed_request"),
        ({"shape": [4097, 1], "data": [0] * 4097}, "too_many_rows"),
        ({"datatype": "FP8"}, "malformed_request"),
        ({"name": 5}, "malformed_request"),
        ({"id": 5}, "malformed_request"),
        ({"outputs": []}, "malformed_request"),
        ({"outputs": [{"name": "p"}, {"name": "p"}]}, "malformed_request"),
        ({"outputs": [{"name": str(n)} for n in range(65)]}, "malformed_request"),
        ({"outputs": [{"name": "p", "parameters": {"classification": -3}}]}, "malformed_request"),
        ({"outputs": [{"name": "p", "parameters": {"classification": True}}]}, "malformed_request"),
        ({"outputs": [{"name": "p", "parameters": {"binary_data": 1}}]}, "malformed_request"),
        ({"parameters": {"binary_data_output": "yes"}}, "malformed_request"),
        ({"parameters": {"classification": 3}}, "unsupported_parameter"),
        ({"parameters": {"tidegate_allow_degraded": "no"}}, "bad_option"),
        ({"parameters": {"shared_memory_region": "r"}}, "unsupported_parameter"),
        ({"parameters": {"sequence_id": 3}}, "unsupported_parameter"),
        ({"parameters": {"tidegate_alow_degraded": True}}, "bad_option"),
        ({"parameters": {"nested": {}}}, "malformed_request"),
        ({"parameters": {"binary_data_size": 8}}, "unsupported_parameter"),
    ],
)
def test_a_request_that_contradicts_the_protocol_is_refused(
    change: dict[str, object], code: str
) -> None:
    assert refusal(request(**change)).code == code


def test_inputs_must_be_named_once_and_have_the_same_rows() -> None:
    tensor = {"name": "x", "shape": [1], "datatype": "INT8", "data": [1]}
    other = {"name": "y", "shape": [2], "datatype": "INT8", "data": [1, 2]}
    assert "twice" in str(refusal(orjson.dumps({"inputs": [tensor, tensor]})))
    assert "same number of rows" in str(refusal(orjson.dumps({"inputs": [tensor, other]})))
    assert "0 inputs" in str(refusal(orjson.dumps({"inputs": []})))
    assert "65 inputs" in str(refusal(orjson.dumps({"inputs": [tensor] * 65})))


def test_a_dimension_other_than_the_rows_may_be_empty() -> None:
    assert decode_request(request(shape=[3, 0], data=[])).inputs["x"].shape == (3, 0)


@pytest.mark.parametrize("body", [b"", b"{", b"[1,2", b"\xff\xfe", b'{"inputs":[}', b"1 2", b"nul"])
def test_a_body_that_is_no_json_says_so(body: bytes) -> None:
    assert refusal(body).code == "malformed_json"


@pytest.mark.parametrize(
    "body", [b"null", b"[]", b"{}", b'"x"', b'{"inputs":{}}', b'{"inputs":[3]}']
)
def test_json_that_is_no_request_says_what_was_expected(body: bytes) -> None:
    error = refusal(body)
    assert error.code == "malformed_request"
    assert "xpected" in str(error) or "missing" in str(error)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_json_cannot_say_is_an_error_of_the_model(value: float) -> None:
    outputs = [
        NamedOutput("fine", "FP32", np.ones((1, 2), np.float32)),
        NamedOutput("bad", "FP64", np.array([[1.0, value]])),
    ]
    with pytest.raises(NonFiniteOutputError, match="'bad'"):
        encode_response(TAG, id=None, outputs=outputs)


def test_the_word_null_in_a_text_is_no_error() -> None:
    output = NamedOutput("text", "BYTES", np.array(["null"], object))
    assert b'"null"' in encode_response(TAG, id="null", outputs=[output]).body


@pytest.mark.field_fault("P-38")
@pytest.mark.parametrize(
    "body",
    [
        b"[" * 33 + b"]" * 33,
        b'{"a":' * 33,
        b"[" * 1_000_000,
        b'"\\"' + b"[" * 40 + b'",' + b"[" * 33,
    ],
)
def test_deep_nesting_is_refused_before_parsing(body: bytes) -> None:
    assert refusal(body).code == "malformed_json"


def test_brackets_in_a_string_are_no_nesting() -> None:
    body = request(datatype="BYTES", shape=[1, 2], data=["[" * 40, '{"' * 40])
    assert decode_request(body).inputs["x"].tolist() == [["[" * 40, '{"' * 40]]


def test_a_string_that_never_ends_is_scanned_once() -> None:
    body = b'["' + b'\\"[' * 1_000_000  # quadratic scanning would take hours
    assert refusal(body).code == "malformed_json"


def test_more_commas_than_the_loop_may_be_held_up_by_are_refused_with_both_numbers() -> None:
    error = refusal(b"[" + b"0," * 1_048_577 + b"0]")
    assert error.code == "too_many_elements"
    assert error.details == {"limit": 1_048_576, "found": 1_048_577}
    check_raw_json(b"," * 1_048_576)


MANY = 262_145


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'{"parameters":{' + b'"a":1,' * MANY + b'"a":1}}', "names"),
        (b'{"inputs":[' + b'{"name":"a"},' * MANY + b"{}]}", "names"),
        (b'{"outputs":[' + b"{}," * MANY + b"{}]}", "arrays and objects"),
        (b'{"x\\"":[' + b"[]," * MANY + b"[]]}", "arrays and objects"),
    ],
)
def test_more_objects_than_the_loop_may_be_held_up_by_are_refused_before_parsing(
    body: bytes, what: str
) -> None:
    error = refusal(body)
    assert error.code == "too_many_elements"
    assert error.details["limit"] == MANY - 1
    assert what in str(error)


def test_colons_and_brackets_in_strings_are_no_structure() -> None:
    check_raw_json(b'["' + b":[{" * MANY + b'"]')
    check_raw_json(b'["\\"' + b":[{" * MANY + b'"]')


@pytest.mark.parametrize("place", ["request", "input", "output"])
def test_one_place_takes_64_parameters(place: str) -> None:
    def asked(count: int) -> bytes:
        many = {"parameters": {f"p{number}": number for number in range(count)}}
        tensor = {"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1]}
        of = {"request": {}, "input": {}, "output": {}, place: many}
        body = {"inputs": [tensor | of["input"]], "outputs": [{"name": "y"} | of["output"]]}
        return orjson.dumps(body | of["request"])

    assert decode_request(asked(64)).rows == 1
    assert "65 parameters" in str(refusal(asked(65)))


def test_an_item_of_bytes_has_a_limit() -> None:
    longest = "é" * (8 << 20)
    assert decode_request(request(datatype="BYTES", shape=[1], data=[longest])).rows == 1
    assert "longer than" in str(refusal(request(datatype="BYTES", shape=[1], data=[longest + "a"])))
