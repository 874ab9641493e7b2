"""Rows of several files in one table: no value is lost, whatever the types of its column are."""

from typing import Any

import pyarrow as pa
import pytest

from tidegate_batch.pipeline.fitting import joined


def both(one: "pa.Array[Any]", other: "pa.Array[Any]") -> "pa.ChunkedArray[Any]":
    return joined([pa.table({"x": one}), pa.table({"x": other})]).column("x")


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.uint8(), pa.int8(), pa.int16()),
        (pa.list_(pa.int64()), pa.large_list(pa.float64()), pa.large_list(pa.float64())),
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.string(), pa.string_view(), pa.string()),
        (pa.null(), pa.bool_(), pa.bool_()),
    ],
    ids=str,
)
def test_a_column_has_the_wider_of_two_types(
    one: pa.DataType, other: pa.DataType, together: pa.DataType
) -> None:
    assert both(pa.array([None], type=one), pa.array([None], type=other)).type == together


def test_where_no_type_holds_both_the_values_are_json() -> None:
    found = both(pa.array([2**64 - 1], type=pa.uint64()), pa.array([-1, None], type=pa.int64()))
    assert found.to_pylist() == ["18446744073709551615", "-1", None]
    assert both(pa.array([[1.5]]), pa.array(["a"])).to_pylist() == ["[1.5]", "a"]


def test_an_integer_that_no_float_is_becomes_the_nearest_as_it_does_for_the_model() -> None:
    assert both(pa.array([2**53 + 1]), pa.array([0.5])).to_pylist() == [float(2**53), 0.5]


def test_a_column_that_a_file_does_not_have_is_missing_in_its_rows() -> None:
    found = joined([pa.table({"a": [1], "b": ["x"]}), pa.table({"a": [2]})])
    assert found.to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
