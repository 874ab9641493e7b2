"""Tensors as raw bytes: known bytes in, known bytes out, and every contradiction refused."""

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tidegate.errors import RequestRejectedError
from tidegate.oip.binary import array_from_bytes, bytes_from_array
from tidegate.oip.limits import WireLimits


def read(
    blob: bytes, datatype: str, shape: list[int], limits: WireLimits | None = None
) -> np.ndarray[Any, Any]:
    return array_from_bytes(
        blob, name="x", datatype=datatype, shape=shape, limits=limits or WireLimits()
    )


def refusal(
    blob: bytes, datatype: str, shape: list[int], limits: WireLimits | None = None
) -> RequestRejectedError:
    with pytest.raises(RequestRejectedError) as caught:
        read(blob, datatype, shape, limits)
    return caught.value


def item(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text


@pytest.mark.parametrize(
    ("datatype", "blob", "values"),
    [
        ("BOOL", b"\x01\x00", [True, False]),
        ("UINT8", b"\x00\xff", [0, 255]),
        ("UINT16", b"\x01\x00\xff\xff", [1, 65535]),
        ("UINT32", b"\x01\x00\x00\x00\xff\xff\xff\xff", [1, 2**32 - 1]),
        ("UINT64", struct.pack("<QQ", 1, 2**64 - 1), [1, 2**64 - 1]),
        ("INT8", b"\x7f\x80", [127, -128]),
        ("INT16", struct.pack("<hh", -(2**15), 5), [-(2**15), 5]),
        ("INT32", struct.pack("<ii", -(2**31), 5), [-(2**31), 5]),
        ("INT64", struct.pack("<qq", -(2**63), 2**63 - 1), [-(2**63), 2**63 - 1]),
        ("FP16", b"\x00\x3c\x00\xc0", [1.0, -2.0]),
        ("BF16", b"\x80\x3f\x00\xc0", [1.0, -2.0]),
        ("FP32", struct.pack("<ff", 1.5, -0.25), [1.5, -0.25]),
        ("FP64", struct.pack("<dd", 0.1, -1e300), [0.1, -1e300]),
        ("BYTES", item("é".encode()) + item(b""), ["é", ""]),
    ],
)
def test_each_datatype_has_exactly_these_bytes(
    datatype: str, blob: bytes, values: list[object]
) -> None:
    array = read(blob, datatype, [2])
    assert array.tolist() == values
    assert bytes(bytes_from_array(array)) == blob


def test_what_is_read_is_a_view_of_the_body_at_any_place() -> None:
    body = b"{}" + struct.pack("<fff", 1, 2, 3) + b"rest"
    blob = memoryview(body)[2:14]
    array = array_from_bytes(blob, name="x", datatype="FP32", shape=[1, 3])
    assert array.tolist() == [[1, 2, 3]]
    assert np.shares_memory(array, np.frombuffer(body, np.uint8))
    assert not array.flags.writeable


def test_infinity_and_nan_pass_with_their_bits() -> None:
    blob = b"\x01\x00\xc0\x7f\x00\x00\x80\xff"  # a NaN with a payload, and -inf
    assert bytes(bytes_from_array(read(blob, "FP32", [2]))) == blob


def test_a_dimension_may_be_empty() -> None:
    for datatype in ("FP32", "BYTES", "BOOL"):
        assert read(b"", datatype, [3, 0]).shape == (3, 0)
        assert len(bytes_from_array(read(b"", datatype, [3, 0]))) == 0


def test_a_column_of_a_larger_array_is_written_row_by_row() -> None:
    values = np.arange(6, dtype=np.int16).reshape(2, 3)[:, 1:]
    assert bytes(bytes_from_array(values)) == struct.pack("<hhhh", 1, 2, 4, 5)
    bf16 = np.array([[1, 2], [3, 4]], ml_dtypes.bfloat16)[:, 1:]
    assert bytes(bytes_from_array(bf16)) == b"\x00\x40\x80\x40"


@pytest.mark.field_fault("P-07")
@pytest.mark.parametrize(
    ("blob", "datatype", "shape", "hint"),
    [
        (b"\0" * 7, "FP32", [2], "2 of FP32 are 8 bytes, and it has 7"),
        (b"\0" * 9, "FP32", [2], "and it has 9"),
        (b"", "FP32", [2], "and it has 0"),
        (b"\x02", "BOOL", [1], "neither 0 nor 1"),
        (item(b"ab") + b"\0", "BYTES", [1], "end 1 bytes before"),
        (item(b"ab")[:-1], "BYTES", [1], "item 0 goes beyond"),
        (item(b"a") + b"\0\0\0", "BYTES", [2], "item 1 goes beyond"),
        (item(b"a") + b"\xff\xff\xff\xff", "BYTES", [2], "item 1 goes beyond"),
        (item(b"a"), "BYTES", [2], "4 bytes each"),
        (item(b"aaaaaaaa") + b"\0", "BYTES", [3], "item 1 goes beyond"),
    ],
)
def test_sizes_that_contradict_the_shape_are_refused(
    blob: bytes, datatype: str, shape: list[int], hint: str
) -> None:
    error = refusal(blob, datatype, shape)
    assert error.code == "binary_layout"
    assert hint in str(error)


@pytest.mark.field_fault("P-18")
@pytest.mark.parametrize("datatype", ["UINT8", "FP64", "BYTES"])
@pytest.mark.parametrize(
    "shape", [[2**4, 2**60 + 2], [2**2, 2**60 + 2], [2**40, 2**40], [10**100, 1]]
)
def test_a_product_that_would_wrap_is_no_small_number_here(datatype: str, shape: list[int]) -> None:
    error = refusal(b"\0" * 32, datatype, shape)
    assert error.code == "binary_layout"
    assert len(str(error)) < 200


def test_a_sound_tensor_may_be_too_large() -> None:
    limits = WireLimits(elements=3, texts=2, item_bytes=4)
    assert refusal(b"\0" * 4, "INT8", [4], limits).code == "too_many_elements"
    assert refusal(item(b"") * 3, "BYTES", [3], limits).code == "too_many_elements"
    assert refusal(item(b"12345"), "BYTES", [1], limits).code == "malformed_request"
    assert read(b"\0" * 3, "INT8", [3], limits).size == 3


def test_bytes_that_are_no_text_are_told_by_their_place() -> None:
    error = refusal(item(b"a") + item(b"\xff"), "BYTES", [2])
    assert "item 1 is no UTF-8" in str(error)


def test_an_unknown_datatype_is_refused_before_its_size_is_looked_at() -> None:
    assert "'FP8' is no datatype" in str(refusal(b"\0", "FP8", [1]))
