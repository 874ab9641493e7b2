"""The datatypes of the Open Inference Protocol, and the numpy types that hold them.

https://github.com/kserve/open-inference-protocol, "Tensor Data Types".
"""

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Datatype:
    """One row of the protocol's table."""

    name: str
    """As on the wire: ``FP32``, ``INT64``, ``BYTES``, …"""
    numpy: npt.DTypeLike
    """The array type inside; ``object`` (of ``str`` or ``bytes``) for ``BYTES``."""
    item_bytes: int | None
    """Bytes of one element in the binary form; ``None`` where items differ in length."""
    onnx: str
    """As onnxruntime names it in a session's inputs and outputs."""

    @property
    def kind(self) -> str:
        """``b``, ``i``, ``u``, ``f`` or ``O``, as numpy; which knows no BF16, and calls it void."""
        return "f" if self.name == "BF16" else np.dtype(self.numpy).kind


DATATYPES: Final[dict[str, Datatype]] = {
    datatype.name: datatype
    for datatype in (
        Datatype("BOOL", np.bool_, 1, "tensor(bool)"),
        Datatype("UINT8", np.uint8, 1, "tensor(uint8)"),
        Datatype("UINT16", np.uint16, 2, "tensor(uint16)"),
        Datatype("UINT32", np.uint32, 4, "tensor(uint32)"),
        Datatype("UINT64", np.uint64, 8, "tensor(uint64)"),
        Datatype("INT8", np.int8, 1, "tensor(int8)"),
        Datatype("INT16", np.int16, 2, "tensor(int16)"),
        Datatype("INT32", np.int32, 4, "tensor(int32)"),
        Datatype("INT64", np.int64, 8, "tensor(int64)"),
        Datatype("FP16", np.float16, 2, "tensor(float16)"),
        Datatype("FP32", np.float32, 4, "tensor(float)"),
        Datatype("FP64", np.float64, 8, "tensor(double)"),
        Datatype("BF16", ml_dtypes.bfloat16, 2, "tensor(bfloat16)"),
        Datatype("BYTES", np.object_, None, "tensor(string)"),
    )
}
FROM_ONNX: Final[dict[str, Datatype]] = {datatype.onnx: datatype for datatype in DATATYPES.values()}
_BY_NUMPY: Final = {np.dtype(datatype.numpy): name for name, datatype in DATATYPES.items()}


def name_of(dtype: np.dtype[Any]) -> str:
    """Name an array's type as the protocol does; as numpy does where the protocol has none."""
    if dtype.kind in "SU":
        return "BYTES"
    return _BY_NUMPY.get(dtype.newbyteorder("="), str(dtype))
