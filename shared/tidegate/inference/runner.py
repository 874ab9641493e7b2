"""One ONNX model in one onnxruntime session on the CPU."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Self

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors

from tidegate.errors import ArtifactError, BackendError
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.bfloat16 import has_bfloat16, run_with_values
from tidegate.tensors.datatypes import FROM_ONNX
from tidegate.tensors.signature import VARIABLE, Signature, TensorSpec

RUNTIME_VERSION: Final[str] = ort.__version__
"""Of onnxruntime."""
PROVIDER: Final = "CPUExecutionProvider"
_FATAL: Final = 4
_RUN_ERRORS: Final = (
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.RuntimeException,
    ort_errors.EPFail,
)
_LOAD_ERRORS: Final = (
    *_RUN_ERRORS,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NoSuchFile,
    ort_errors.NotImplemented,
)


_OUT_OF_MEMORY: Final = re.compile(r"failed to allocate memory|out of memory|bad_alloc", re.I)
"""What onnxruntime's arenas, CUDA and C++ say; onnxruntime has no class of its own for it."""
_DEVICE_FAILURE: Final = re.compile(r"\b(CUDA|CUDNN|CUBLAS|HIP|MIOPEN) (failure|error)\b", re.I)
"""As onnxruntime reports what a device's own library says of it."""


class OutOfMemoryError(BackendError):
    """Memory did not suffice for this batch; a smaller one may fit, the same one will not."""

    code = "out_of_memory"
    may_blame_row = False


class DeviceLostError(BackendError):
    """The device failed in a way that leaves this process unable to use it ever again."""

    code = "device_lost"
    may_blame_row = False


class RunControl:
    """Ends one call of ``ModelRunner.run`` early, from another thread."""

    __slots__ = ("options",)

    def __init__(self) -> None:
        self.options = ort.RunOptions()
        self.options.log_severity_level = _FATAL  # every error is raised, and needs no line besides

    def terminate(self) -> None:
        """Let the call raise before its next node, or at once if it has not begun."""
        self.options.terminate = True


class ModelRunner:
    """A loaded model; ``run`` may be called from any thread, one call at a time.

    onnxruntime reads the input arrays until the call returns, so they belong to the call:
    nobody may write to them meanwhile.
    """

    def __init__(
        self, session: ort.InferenceSession, *, reopen: Callable[[], "ModelRunner"] | None = None
    ) -> None:
        """Take over a session.

        Args:
            session: Loaded.
            reopen: Loads the same model into another session, if that can be done.
        """
        self._session = session
        self._reopen = reopen
        self.signature = signature_of(session)
        self._output_names = [spec.name for spec in self.signature.outputs]
        self._has_bfloat16 = has_bfloat16(self.signature)

    @classmethod
    def load(cls, file: Path, *, threads: int) -> Self:
        """Load a model file.

        Args:
            file: An ONNX model.
            threads: Cores that one call may use, at least 1. Stated, because onnxruntime's own
                choice is all of them, for every session again.

        Raises:
            ArtifactError: onnxruntime cannot load it, or would run it on something else.
        """
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        try:
            session = ort.InferenceSession(file, options, providers=[PROVIDER])
        except _LOAD_ERRORS as error:
            raise ArtifactError(
                f"onnxruntime {RUNTIME_VERSION} cannot load {file.name}: {error}"
            ) from error
        if session.get_providers() != [PROVIDER]:
            raise ArtifactError(
                f"{file.name} would run on {session.get_providers()}, not on {PROVIDER} as asked"
            )
        return cls(session, reopen=partial(cls.load, file, threads=threads))

    def reopened(self) -> "ModelRunner":
        """Load the same file again, into a session that shares nothing with this one.

        Raises:
            ArtifactError: It cannot be loaded any more.
        """
        if self._reopen is None:
            raise ArtifactError("this session was not loaded from a file, so that none is like it")
        return self._reopen()

    def run(self, inputs: Tensors, control: RunControl | None = None) -> dict[str, Array]:
        """Score one batch.

        Args:
            inputs: What the signature asks for, contiguous; the caller has checked it.
            control: To end this call early; then it raises, unless it was too late.

        Returns:
            One array ``(rows, …)`` per output, in the signature's order.

        Raises:
            BackendError: The model raised, or answered with another number of rows.
            OutOfMemoryError: The batch was too large for what memory is left.
            DeviceLostError: Only a new process can go on.
        """
        rows = next(iter(inputs.values())).shape[0]
        options = None if control is None else control.options
        try:
            if self._has_bfloat16:
                values = run_with_values(self._session, self._output_names, inputs, options)
            else:
                values = self._session.run(self._output_names, inputs, options)
        except _RUN_ERRORS as error:
            raise _failure(f"the model raised on a batch of {rows} rows: {error}") from error
        except MemoryError as error:
            raise OutOfMemoryError(f"no memory is left for a batch of {rows} rows") from error
        outputs = dict(zip(self._output_names, map(np.asarray, values), strict=True))
        for name, array in outputs.items():
            if array.ndim == 0 or array.shape[0] != rows:
                raise BackendError(
                    f"output {name!r} has shape {list(array.shape)} for a batch of {rows} rows; "
                    "its leading dimension must be the rows"
                )
        return outputs


def _failure(told: str) -> BackendError:
    """Tell by its words what kind of failure onnxruntime reports."""
    if _OUT_OF_MEMORY.search(told):
        return OutOfMemoryError(told)
    return DeviceLostError(told) if _DEVICE_FAILURE.search(told) else BackendError(told)


def signature_of(session: ort.InferenceSession) -> Signature:
    """Read the signature out of a loaded session.

    Raises:
        ArtifactError: An input or output is no tensor of a datatype that can be served.
    """
    return Signature(
        inputs=tuple(map(_spec_of, session.get_inputs())),
        outputs=tuple(map(_spec_of, session.get_outputs())),
    )


def _spec_of(node: ort.NodeArg) -> TensorSpec:
    datatype = FROM_ONNX.get(node.type)
    if datatype is None:
        raise ArtifactError(
            f"{node.name!r} is a {node.type}, which cannot be served; tensors of "
            f"{', '.join(FROM_ONNX)} can. A converter's option, such as zipmap=False, may help."
        )
    shape = tuple(size if isinstance(size, int) else VARIABLE for size in node.shape)
    return TensorSpec(name=node.name, datatype=datatype.name, shape=shape)
