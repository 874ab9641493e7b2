"""A version in the words of Triton's ModelConfig; perf_analyzer stops where there is none.

https://github.com/triton-inference-server/common, ``model_config.proto``. ``dims`` are those of one
row, because ``max_batch_size`` says that rows are added in front.
"""

from typing import Any, Final

from tidegate.oip.limits import DEFAULT_LIMITS
from tidegate.tensors.signature import TensorSpec
from tidegate_realtime.api.served import ServedVersion

PLATFORM: Final = "onnxruntime_onnx"
_DATA_TYPES: Final = {"BYTES": "TYPE_STRING"}


def model_config(served: ServedVersion) -> dict[str, Any]:
    """Describe one version."""
    signature = served.model.signature
    return {
        "name": served.model.tag.name,
        "platform": PLATFORM,
        "backend": served.backend,
        "max_batch_size": DEFAULT_LIMITS.rows,
        "input": [_tensor(spec) for spec in signature.inputs],
        "output": [_tensor(spec) for spec in signature.outputs],
        "dynamic_batching": {},
    }


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    data_type = _DATA_TYPES.get(spec.datatype, f"TYPE_{spec.datatype}")
    return {"name": spec.name, "data_type": data_type, "dims": list(spec.row_shape)}
