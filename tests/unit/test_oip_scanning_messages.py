"""What a message would become is counted in its bytes, before anything is made of it."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.grpc_calls import rows_request
from tidegate.errors import RequestRejectedError
from tidegate.oip.limits import WireLimits
from tidegate.oip.protobuf.scanning import check_message, glance
from tidegate.oip.protobuf.v2_pb2 import ModelInferRequest

MANY = 31 << 20
"""As many fields of two bytes as a message can have."""
NAME = b"\x0a\x04echo"


def checked(raw: bytes, limits: WireLimits | None = None) -> None:
    check_message(raw, glance(raw), limits or WireLimits())


def input_of(*fields: bytes) -> bytes:
    tensor = b"".join(fields)
    return NAME + b"\x2a" + varint(len(tensor)) + tensor


def contents(body: bytes) -> bytes:
    return b"\x2a" + varint(len(body)) + body


def varint(number: int) -> bytes:
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(b"\x2a\x00" * MANY, "malformed_request", id="inputs"),
        pytest.param(NAME + b"\x2a\x00" * 65, "malformed_request", id="65 inputs"),
        pytest.param(b"\x32\x00" * MANY, "malformed_request", id="outputs"),
        pytest.param(NAME + b"\x32\x00" * 65, "malformed_request", id="65 outputs"),
        pytest.param(b"\x22\x00" * MANY, "malformed_request", id="parameters"),
        pytest.param(b"\x3a\x00" * MANY, "malformed_request", id="blobs"),
        pytest.param(b"\x48\x01" * MANY, "malformed_request", id="unknown fields"),
        pytest.param(input_of(b"\x22\x00" * MANY), "malformed_request", id="of an input"),
        pytest.param(b"\x32\xe8\x07" + b"\x12\x00" * 500, "malformed_request", id="of an output"),
        pytest.param(
            input_of(b"\x1a" + varint(MANY), b"\1" * MANY), "malformed_request", id="dimensions"
        ),
        pytest.param(
            input_of(contents(b"\x42\x00" * 300_000)), "too_many_elements", id="empty texts"
        ),
        pytest.param(
            input_of(contents(b"\x10\x01" * 300_000)), "malformed_request", id="single numbers"
        ),
        pytest.param(
            input_of(contents(b"\x1a" + varint(MANY) + b"\1" * MANY)),
            "too_many_elements",
            id="packed varints",
        ),
        pytest.param(
            input_of(contents(b"\x3a" + varint(MANY) + b"\1" * MANY)),
            "too_many_elements",
            id="packed doubles",
        ),
        pytest.param(b"\x0b", "malformed_request", id="a group"),
        pytest.param(b"\x0a\x05echo", "malformed_request", id="a name that ends early"),
        pytest.param(b"\x0a" + b"\xff" * 10, "malformed_request", id="an endless length"),
        pytest.param(b"\x02\x00", "malformed_request", id="field 0"),
    ],
)
def test_what_is_too_much_or_nothing_is_refused(raw: bytes, code: str) -> None:
    with pytest.raises(RequestRejectedError) as caught:
        checked(raw)
    assert caught.value.code == code


@pytest.mark.parametrize("raw", [True, False])
def test_a_sound_message_passes_and_is_known_by_its_names(raw: bool) -> None:
    message = rows_request(raw=raw, model_version="stable", outputs={"output": {"a": 1}})
    seen = glance(message.SerializeToString())
    assert (seen.model, seen.version, seen.is_raw) == ("echo", "stable", raw)
    assert (len(seen.inputs), len(seen.outputs)) == (1, 1)
    checked(message.SerializeToString())


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384, 100_000])
def test_texts_of_any_length_are_counted(length: int) -> None:
    message = rows_request(raw=False)
    message.inputs[0].contents.Clear()
    message.inputs[0].contents.bytes_contents.extend([b"x" * length] * 9)
    checked(message.SerializeToString(), WireLimits(items=9))
    with pytest.raises(RequestRejectedError, match="9 typed values"):
        checked(message.SerializeToString(), WireLimits(items=8))


def test_typed_values_are_counted_over_all_inputs() -> None:
    message = rows_request(raw=False)
    message.inputs.append(message.inputs[0])  # 4 values each
    checked(message.SerializeToString(), WireLimits(items=8))
    with pytest.raises(RequestRejectedError, match="8 typed values"):
        checked(message.SerializeToString(), WireLimits(items=7))


@given(st.binary(max_size=60))
def test_whatever_protobuf_reads_has_the_same_names_here(raw: bytes) -> None:
    try:
        seen = glance(raw)
    except RequestRejectedError:
        return
    try:
        message = ModelInferRequest.FromString(raw)
    except DecodeError:  # refused later, by whichever name
        return
    assert (seen.model, seen.version) == (message.model_name, message.model_version)
    assert len(seen.inputs) == len(message.inputs)
    assert len(seen.outputs) == len(message.outputs)
