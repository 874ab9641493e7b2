"""A call of the model that fails: what memory and the device have to do with it."""

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from tests.fixtures import onnx_models
from tidegate.errors import BackendError
from tidegate.inference.runner import DeviceLostError, ModelRunner, OutOfMemoryError

TWO_ROWS = {"input": np.zeros((2, 2), np.float32)}


def test_a_batch_for_which_memory_does_not_suffice_says_so_and_a_smaller_one_is_answered(
    tmp_path: Path,
) -> None:
    runner = ModelRunner.load(onnx_models.hungry(tmp_path / "m.onnx", rows=2), threads=1)
    with pytest.raises(OutOfMemoryError, match="a batch of 3 rows"):
        runner.run({"input": np.zeros((3, 2), np.float32)})
    assert runner.run(TWO_ROWS)["output"].shape == (2, 2)


class FailingSession:
    """Looks like the real one, and its device, or its memory, is gone."""

    def __init__(self, real: ort.InferenceSession, error: BaseException) -> None:
        self.get_inputs = real.get_inputs
        self.get_outputs = real.get_outputs
        self._error = error

    def run(self, *_: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            ort_errors.Fail(
                "[ONNXRuntimeError] : 1 : FAIL : CUDA failure 700: an illegal memory access was "
                "encountered ; GPU=0 ; hostname=x ; expr=cudaStreamSynchronize(stream);"
            ),
            DeviceLostError,
        ),
        (ort_errors.EPFail("CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED"), DeviceLostError),
        (ort_errors.Fail("CUDA failure 2: out of memory ; GPU=0"), OutOfMemoryError),
        (ort_errors.RuntimeException("Exception during run: std::bad_alloc"), OutOfMemoryError),
        (MemoryError(), OutOfMemoryError),
        (ort_errors.InvalidArgument("indices element out of data bounds"), BackendError),
    ],
)
def test_a_lost_device_and_want_of_memory_are_told_from_a_row_that_the_model_cannot_bear(
    tmp_path: Path, error: BaseException, told: type[BackendError]
) -> None:
    real = ort.InferenceSession(onnx_models.echo(tmp_path / "m.onnx"))
    runner = ModelRunner(FailingSession(real, error))
    with pytest.raises(BackendError) as raised:
        runner.run(TWO_ROWS)
    assert type(raised.value) is told
