"""What batches the requests of a version: one queue, or one for each length of its texts."""

from dataclasses import replace

from tidegate.clock import Clock
from tidegate.inference.model import Model
from tidegate.units import Nanoseconds
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.runtime.buckets import BucketedDriver, Driver
from tidegate_realtime.runtime.driver import BatchDriver
from tidegate_realtime.runtime.ports import Backend
from tidegate_realtime.runtime.promise import Promise


def build_driver(
    backend: Backend, model: Model, limits: BatchLimits, clock: Clock, promise: Promise
) -> Driver:
    """Take over an idle backend.

    The lengths share the time for warming up, and the memory for what waits. Rows may wait for each
    as many as for a whole model: an idle one must be able to take the largest request.
    """
    lengths, tag = model.lengths, str(model.tag)
    queue_limit_bytes = limits.queue_limit_bytes // len(lengths)
    limits = replace(limits, queue_limit_bytes=queue_limit_bytes)
    budget_ns = Nanoseconds(promise.warm_up_budget_ns // len(lengths))
    promise = replace(promise, warm_up_budget_ns=budget_ns)

    def build(name: str) -> BatchDriver:
        return BatchDriver(
            backend,
            signature=model.signature,
            limits=limits,
            clock=clock,
            name=name,
            promise=promise,
        )

    if len(lengths) == 1:
        return build(tag)
    return BucketedDriver(
        build,
        signature=model.signature,
        lengths=lengths,
        executors=backend.executors,
        clock=clock,
        name=tag,
    )
