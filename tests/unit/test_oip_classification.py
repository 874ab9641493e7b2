"""The highest values of an output, as strings."""

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tidegate.errors import BackendError, RequestRejectedError
from tidegate.oip.classification import check_classified, classify
from tidegate.oip.limits import WireLimits


def ranked(
    values: object,
    classes: int,
    dtype: npt.DTypeLike = np.float32,
    *,
    labels: tuple[str, ...] = (),
    limits: WireLimits | None = None,
) -> list[list[str]]:
    array = np.array(values, dtype)
    limits = limits or WireLimits()
    ranked: list[list[str]] = classify(
        array, classes, name="p", labels=labels, limits=limits
    ).tolist()
    return ranked


def test_each_row_has_its_own_order_and_the_labels_of_the_model() -> None:
    labels = ("benign", "malignant")
    assert ranked([[0.25, 0.75], [0.9, 0.1]], 2, labels=labels) == [
        ["0.75:1:malignant", "0.25:0:benign"],
        ["0.9:0:benign", "0.1:1:malignant"],
    ]


def test_a_value_keeps_the_digits_that_name_it() -> None:
    assert ranked([[1e-8, 0.1, 16777216]], 3) == [["16777216.0:2", "0.1:1", "1e-8:0"]]


def test_fewer_values_than_classes_are_all_of_them() -> None:
    assert ranked([[1, 2]], 99) == [["2.0:1", "1.0:0"]]
    assert ranked([1, 2], 99) == [["1.0:0"], ["2.0:0"]]
    assert ranked(np.zeros((2, 0)), 3) == [[], []]


def test_of_equal_values_the_first_comes_first() -> None:
    assert ranked([[1, 3, 3, 1]], 4, np.uint8) == [["3:1", "3:2", "1:0", "1:3"]]


def test_further_dimensions_are_counted_through() -> None:
    assert ranked([[[1, 2], [4, 3]]], 2, np.int32, labels=("a", "b")) == [["4:2", "3:3"]]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_any_float_is_ranked(dtype: npt.DTypeLike) -> None:
    assert ranked([[0.5, 1.5]], 1, dtype) == [["1.5:1"]]


def test_truth_is_above_untruth_and_whole_numbers_are_exact() -> None:
    assert ranked([[False, True]], 1, np.bool_) == [["1:1"]]
    assert ranked([[2**63 - 1, -(2**63)]], 2, np.int64) == [
        ["9223372036854775807:0", "-9223372036854775808:1"]
    ]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nothing_ranks_what_is_not_finite(value: float) -> None:
    with pytest.raises(BackendError, match="nothing can rank") as caught:
        ranked([[value, 1]], 1)
    assert caught.value.code == "non_finite_output"


@pytest.mark.field_fault("P-43")
def test_a_datatype_without_order_is_refused_and_so_are_too_many_strings() -> None:
    with pytest.raises(RequestRejectedError, match="BYTES") as caught:
        check_classified("p", "BYTES")
    assert caught.value.code == "unsupported_parameter"
    with pytest.raises(RequestRejectedError, match="4 values in 'p'"):
        ranked([[1, 2], [3, 4]], 10**9, limits=WireLimits(texts=3))
    with pytest.raises(RequestRejectedError, match="4 values in 'p'"):
        ranked([[1, 2], [3, 4]], 1, limits=WireLimits(items=3))
