"""Columns become arrays and answers become columns, with nothing lost on the way."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.tensors.signature import SignatureMismatchError
from tidegate_batch.pipeline.arrays import arrow_type, to_arrow, to_numpy


@pytest.mark.parametrize(
    ("column", "dtype", "values"),
    [
        (pa.array([1, 2]), np.int64, [1, 2]),
        (pa.array([1, 2], type=pa.uint8()), np.uint8, [1, 2]),
        (pa.array([1, None]), object, [1, None]),
        (pa.array([2**62 + 1, None]), object, [2**62 + 1, None]),
        (pa.array([True, False]), np.bool_, [True, False]),
        (pa.array([True, None]), object, [True, None]),
        (pa.array(["x", None]), object, ["x", None]),
        (pa.array(["x", "y"], type=pa.large_string()), object, ["x", "y"]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), object, ["x", "y", "x"]),
        (pa.array([[1, 2], [3, 4]]), np.int64, [[1, 2], [3, 4]]),
        (pa.array([[1, 2], [3, 4], [5, 6]]).slice(1, 1), np.int64, [[3, 4]]),
        (pa.array([[[1], [2]]], type=pa.list_(pa.list_(pa.int8(), 1))), np.int8, [[[1], [2]]]),
    ],
    ids=str,
)
def test_a_column_becomes_an_array(
    column: "pa.Array[Any]", dtype: type, values: list[object]
) -> None:
    array = to_numpy(column, name="c")
    assert array.dtype == dtype
    assert array.tolist() == values


def test_missing_floats_are_nan() -> None:
    array = to_numpy(pa.array([1.5, None]), name="c")
    assert array.dtype == np.float64
    assert array[0] == 1.5
    assert np.isnan(array[1])


def test_numbers_without_missing_values_are_not_copied() -> None:
    column = pa.array([1.0, 2.0])
    data = column.buffers()[1]
    assert data is not None
    assert to_numpy(column, name="c").__array_interface__["data"][0] == data.address


@pytest.mark.parametrize("rows", [[[1, 2], [3]], [[1], None]])
def test_lists_of_several_lengths_are_refused_by_name(rows: list[list[int] | None]) -> None:
    with pytest.raises(SignatureMismatchError, match=r"Input 'c': .*all of one length"):
        to_numpy(pa.array(rows), name="c")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.array([1.5, 2.5], dtype=np.float32), "float"),
        (np.array([[1, 2], [3, 4]], dtype=np.int64), "list<element: int64>"),
        (np.zeros((3, 2, 1), dtype=np.float32), "list<element: list<element: float>>"),
        (np.zeros((3, 0), dtype=np.float32), "list<element: float>"),
        (np.array([0.5], dtype=np.float16), "float"),
        (np.array([True]), "bool"),
        (np.array(["x", "y"], dtype=object), "string"),
    ],
    ids=str,
)
def test_an_answer_becomes_a_column_with_the_same_values(
    values: "np.ndarray[Any, Any]", kind: str
) -> None:
    assert str(arrow_type(values)) == kind
    assert to_arrow(values, arrow_type(values)).to_pylist() == values.tolist()


def test_a_batch_without_rows_is_a_column_without_rows() -> None:
    empty = np.zeros((0, 3), dtype=np.float32)
    assert to_arrow(empty, arrow_type(np.zeros((1, 3), dtype=np.float32))).to_pylist() == []
