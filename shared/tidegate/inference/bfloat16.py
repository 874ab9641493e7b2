"""Runs a session whose tensors include BF16, which onnxruntime's arrays cannot hold.

It takes and gives such tensors as values of its own only; every other model goes the quick way.
Strings have no such values, so that a model which reads both cannot be run.
"""

import ctypes
from collections.abc import Sequence
from typing import Final

import ml_dtypes
import numpy as np
import onnxruntime as ort

from tidegate.inference.arrays import Array, Tensors
from tidegate.tensors.signature import Signature

BF16: Final = np.dtype(ml_dtypes.bfloat16)
_ORT_NAME: Final = "tensor(bfloat16)"
_ONNX_NUMBER: Final = 16
"""``onnx.TensorProto.BFLOAT16``; onnx takes a while to import, and nothing else here needs it."""


def has_bfloat16(signature: Signature) -> bool:
    """Whether a model reads or writes such a tensor."""
    return any(spec.datatype == "BF16" for spec in (*signature.inputs, *signature.outputs))


def widened(values: Array) -> Array:
    """Return what people and their formats can read of a tensor: FP32 in place of BF16."""
    return values.astype(np.float32) if values.dtype == BF16 else values


def run_with_values(
    session: ort.InferenceSession,
    names: Sequence[str],
    inputs: Tensors,
    options: ort.RunOptions | None = None,
) -> list[Array]:
    """Do what ``session.run`` does; the outputs are copies."""
    values = {name: _value(array) for name, array in inputs.items()}
    return [_array(value) for value in session.run_with_ort_values(names, values, options)]


def _value(array: Array) -> ort.OrtValue:
    if array.dtype != BF16:
        return ort.OrtValue.ortvalue_from_numpy(array)
    bits = np.ascontiguousarray(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _ONNX_NUMBER)


def _array(value: ort.OrtValue) -> Array:
    if value.data_type() != _ORT_NAME:
        array: Array = value.numpy()
        return array
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(content, BF16).reshape(value.shape())
