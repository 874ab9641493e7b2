"""What is said of JSON that is none, and of values that are of another kind: exactly what it is."""

import pytest

from tidegate.oip.errors import MalformedJsonError, MalformedRequestError
from tidegate.oip.request import decode_request


def body(data: bytes, datatype: bytes = b"FP32") -> bytes:
    start = b'{"inputs":[{"name":"x","shape":[1,2],"datatype":"'
    return start + datatype + b'","data":' + data + b"}]}"


def refused(text: bytes) -> str:
    with pytest.raises(MalformedJsonError) as error:
        decode_request(text)
    return str(error.value)


@pytest.mark.parametrize(
    "half", [rb"\ud800", rb"\uDFFF", rb"\ud800x", rb"\ud800A", rb"\ud83d\ude00\ud83d"]
)
@pytest.mark.parametrize("before", [b"", b"\\\\", rb"\ud83d\ude00", rb"\u00e4\n", b"a" * 9_000])
def test_half_a_surrogate_pair_is_named_with_its_place(half: bytes, before: bytes) -> None:
    text = body(b'["' + before + half + b'","b"]', b"BYTES")
    lone = half[-6:] if half.endswith(rb"\ud83d") else half[:6]
    at = text.index(before + half) + len(before) + half.rindex(lone)
    assert refused(text) == (
        f"The body is no JSON: byte {at} begins {lone.decode()}, half of a surrogate pair without "
        "the other half, which is no character; write both, or the character itself."
    )


def test_an_escaped_backslash_before_a_u_is_no_half_of_anything() -> None:
    assert "surrogate" not in refused(body(rb'["\\ud800", nothing]', b"BYTES"))
    request = decode_request(body(rb'["\\ud800", "\ud83d\ude00"]', b"BYTES"))
    assert request.inputs["x"].tolist() == [["\\ud800", "\U0001f600"]]


def test_a_half_far_behind_costs_no_time_and_is_still_refused() -> None:
    far = b'["' + b"a" * (300 << 10) + rb'\ud800","b"]'
    assert "begins" not in refused(body(far, b"BYTES"))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_number_that_json_cannot_say_is_named(number: bytes) -> None:
    name = number.removeprefix(b"-")
    text = body(b"[1," + number + b"]")
    assert refused(text) == (
        f"The body is no JSON: byte {text.index(name)} begins {name.decode()}, which JSON cannot "
        "say; send the tensor as bytes, where the model takes it."
    )


def test_other_json_that_is_none_keeps_the_parsers_sentence() -> None:
    assert refused(b"{") == "The body is no JSON: Input data was truncated."
    assert "invalid character (byte 0)" in refused(b"hello")


@pytest.mark.parametrize(
    ("datatype", "value", "said"),
    [
        (b"FP32", b"true", "is true, but FP32 takes numbers."),
        (b"INT32", b"false", "is false, but INT32 takes integers."),
        (b"FP64", b'"2"', 'is "2", but FP64 takes numbers.'),
        (b"FP32", b"null", "is null, but FP32 takes numbers."),
        (b"INT8", b"128", "is 128, but INT8 takes integers within its range."),
        (b"BYTES", b"true", "is true, but BYTES takes strings."),
    ],
)
def test_a_range_is_spoken_of_only_where_there_is_a_number(
    datatype: bytes, value: bytes, said: str
) -> None:
    first = b'"a"' if datatype == b"BYTES" else b"1"
    with pytest.raises(MalformedRequestError) as error:
        decode_request(body(b"[" + first + b"," + value + b"]", datatype))
    assert str(error.value) == f"'x': value 1 of data {said}"
