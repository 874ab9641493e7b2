import ml_dtypes
import numpy as np
import pytest

from tidegate.tensors import Signature, SignatureMismatchError, TensorSpec

SIGNATURE = Signature(
    inputs=(
        TensorSpec(name="x", datatype="FP32", shape=(-1, 3)),
        TensorSpec(name="ids", datatype="INT64", shape=(-1,)),
    ),
    outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
)


def batch(rows: int = 2) -> dict[str, np.ndarray]:
    return {"x": np.zeros((rows, 3), np.float32), "ids": np.zeros(rows, np.int64)}


def test_a_fitting_batch_is_accepted_and_its_rows_are_counted() -> None:
    assert SIGNATURE.check(batch(5)) == 5


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"x": np.zeros((2, 3), np.float64)}, "Input 'x': expected FP32, found FP64"),
        ({"x": np.zeros((2, 3), ml_dtypes.bfloat16)}, "expected FP32, found BF16"),
        ({"ids": np.zeros(2, ">i4")}, "expected INT64, found INT32"),
        ({"ids": np.array(["a", "b"])}, "expected INT64, found BYTES"),
        ({"ids": np.zeros(2, "M8[s]")}, r"expected INT64, found datetime64\[s\]"),
        ({"x": np.zeros((2, 4), np.float32)}, r"\[-1, 3\]"),
        ({"x": np.zeros(6, np.float32)}, r"\[-1, 3\]"),
        ({"ids": np.zeros(3, np.int64)}, "same number of rows"),
        ({"surprise": np.zeros(2)}, "the inputs"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_with_what_was_expected(
    change: dict[str, np.ndarray], expected: str
) -> None:
    with pytest.raises(SignatureMismatchError, match=expected):
        SIGNATURE.check({**batch(), **change})


def test_a_missing_input_is_named() -> None:
    with pytest.raises(SignatureMismatchError, match="'ids'") as caught:
        SIGNATURE.check({"x": np.zeros((2, 3), np.float32)})
    assert caught.value.input == "ids"


def test_zero_rows_are_no_batch() -> None:
    with pytest.raises(SignatureMismatchError, match="at least 1"):
        SIGNATURE.check(batch(0))


def test_a_signature_reads_like_a_function() -> None:
    assert str(SIGNATURE) == "x FP32 [-1, 3], ids INT64 [-1] -> y FP32 [-1, 2]"


def test_an_unknown_datatype_is_refused() -> None:
    with pytest.raises(ValueError, match="FP99"):
        TensorSpec(name="x", datatype="FP99", shape=(-1,))
