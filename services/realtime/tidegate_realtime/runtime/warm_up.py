"""Paying first-use costs before the first caller would."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from tidegate.clock import Clock
from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE, Signature, TensorSpec
from tidegate.units import Nanoseconds, ns_to_seconds
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.sweep import Sweep, SweepLimits
from tidegate_realtime.runtime.ports import Backend, BatchResult
from tidegate_realtime.runtime.promise import Promise


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


async def measure(
    backend: Backend,
    signature: Signature,
    limits: SweepLimits,
    clock: Clock,
    *,
    rest_ratio: float = 0.0,
) -> Mapping[int, Sequence[int]]:
    """Run zeros in all sizes that may pay, as often as a time budget allows.

    Pays every first-use cost as ``warm_up`` does, and tells how long batches take. Cancelling
    leaves the call that is running to end by itself.

    Args:
        backend: Idle.
        signature: What the model reads.
        limits: The budget, of time that is not rest, and the sizes.
        clock: For the times.
        rest_ratio: How long to leave the machine to others after each run, by the time of the run.

    Returns:
        Times in nanoseconds by rows, the first run of each size left out.

    Raises:
        BackendError: The model does not run the smallest batch of zeros.
    """
    watch = _Watch(clock)
    sweep = Sweep(limits, now_ns=watch.now_ns())
    while (rows := sweep.next_rows(watch.now_ns())) is not None:
        inputs = zeros(signature, rows)
        began_at_ns = watch.now_ns()
        result = await _run(backend, inputs, rows)
        now_ns = watch.now_ns()
        await watch.rest(rest_ratio * (now_ns - began_at_ns))
        if not isinstance(result, BackendError):
            sweep.on_run(rows, now_ns - began_at_ns, now_ns)
        elif sweep.runs:
            sweep.on_failed(rows)
        else:
            raise BackendError(f"warm-up with {rows} rows of zeros: {result}") from result
    return sweep.runs


class _Watch:
    """A clock that stands still while it rests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rested_ns = 0

    def now_ns(self) -> int:
        return self._clock.now_ns() - self._rested_ns

    async def rest(self, duration_ns: float) -> None:
        if duration_ns <= 0:
            return
        began_at_ns = self._clock.now_ns()
        await asyncio.sleep(ns_to_seconds(Nanoseconds(int(duration_ns))))
        self._rested_ns += self._clock.now_ns() - began_at_ns


async def teach(
    model: LatencyModel, promise: Promise, backend: Backend, signature: Signature, clock: Clock
) -> None:
    """Measure a backend, and tell a latency model; see ``measure``."""
    limits = SweepLimits(
        budget_ns=promise.warm_up_budget_ns,
        sizes=tuple(promise.sizes_for(backend.fixed_rows)),
        objective_ns=promise.objective_ns,
    )
    rest_ratio = promise.warm_up_rest_ratio
    runs = await measure(backend, signature, limits, clock, rest_ratio=rest_ratio)
    now_ns = clock.now_ns()
    for rows, times in runs.items():
        for took_ns in times:
            model.observe(rows, took_ns, now_ns)


def at_length(signature: Signature, length: int) -> Signature:
    """Return what the model reads if the variable dimensions of its rows have that length."""
    inputs = tuple(
        replace(
            spec,
            shape=(
                spec.shape[0],
                *(length if size == VARIABLE else size for size in spec.row_shape),
            ),
        )
        for spec in signature.inputs
    )
    return replace(signature, inputs=inputs)


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
