"""What is left of a version once it is closed."""

import gc
import weakref
from pathlib import Path

import numpy as np

from tests.fixtures import edges, onnx_models
from tidegate.clock.system import SystemClock
from tidegate.units import NS_PER_SECOND, Nanoseconds
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.served import Offer
from tidegate_realtime.backends.onnx import OnnxBackend
from tidegate_realtime.runtime.outcomes import Answered


async def test_a_closed_model_is_freed_at_once_and_not_when_the_collector_finds_it(
    tmp_path: Path,
) -> None:
    """What lives at the start is kept from the collector for ever, and later ones wait long."""
    clock = SystemClock()
    gc.disable()
    try:
        model = edges.load(onnx_models.echo(tmp_path / "echo.onnx"))
        freed = weakref.ref(model)
        edge = edges.serve(
            [model],
            clock=clock,
            backend=lambda each: MeasuredBackend(OnnxBackend(each), clock),
            promised=edges.promise(slo_ms=20_000, budget_ms=5),
        )
        (driver,) = (served.driver for served in edge.catalogue.versions)
        del model
        await driver.warm_up()
        rows = {"input": np.ones((1, 2), np.float32)}
        deadline_at_ns = Nanoseconds(clock.now_ns() + 20 * NS_PER_SECOND)
        outcome = await driver.submit(rows, rows=1, deadline_at_ns=deadline_at_ns)
        assert isinstance(outcome, Answered)
        edge.catalogue.show("echo", Offer())
        await driver.aclose()
        assert freed() is None
    finally:
        gc.enable()
