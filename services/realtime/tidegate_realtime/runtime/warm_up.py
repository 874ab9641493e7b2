"""Paying first-use costs before the first caller would."""

import asyncio

import numpy as np

from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE, Signature, TensorSpec
from tidegate_realtime.runtime.ports import Backend, BatchResult


async def warm_up(backend: Backend, signature: Signature, *, cap_rows: int) -> None:
    """Run zeros through the model, once as 1 row and once as ``cap_rows``.

    Kernels are chosen, memory arenas grown and pages touched by the first call of a size; here it
    is no caller's. Cancelling leaves the call that is running to end by itself.

    Args:
        backend: Idle.
        signature: What the model reads. Variable dimensions are run at 1, ``BYTES`` as empty
            strings.
        cap_rows: The most rows that a batch will have.

    Raises:
        BackendError: The model does not run on zeros. That need not mean that it never will.
    """
    for rows in sorted({1, cap_rows}):
        result = await _run(backend, zeros(signature, rows), rows)
        if isinstance(result, BackendError):
            raise BackendError(
                f"the warm-up batch of zeros, rows={rows}, failed: {result}"
            ) from result


def zeros(signature: Signature, rows: int) -> Tensors:
    """Make one batch of zeros and empty strings that fits the signature."""
    return {spec.name: _zeros(spec, rows) for spec in signature.inputs}


def _zeros(spec: TensorSpec, rows: int) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    shape = (rows, *(1 if size == VARIABLE else size for size in spec.row_shape))
    if spec.datatype == "BYTES":
        return np.full(shape, "", dtype=np.object_)
    return np.zeros(shape, dtype=DATATYPES[spec.datatype].numpy)


async def _run(backend: Backend, inputs: Tensors, rows: int) -> BatchResult:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[BatchResult] = loop.create_future()

    def settle(result: BatchResult) -> None:
        if not future.done():
            future.set_result(result)

    def done(result: BatchResult) -> None:
        loop.call_soon_threadsafe(settle, result)

    backend.begin(inputs, rows=rows, done=done)
    return await future
