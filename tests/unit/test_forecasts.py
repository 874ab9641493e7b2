from tidegate.units import NS_PER_MS, Nanoseconds, ms_to_ns
from tidegate_realtime.core.commands import StartBatch
from tidegate_realtime.core.forecasts import RATIO_EDGES, Forecasts
from tidegate_realtime.core.latency_model import LatencyModel
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.micro_batcher import MicroBatcher
from tidegate_realtime.core.request import Request

NOW = Nanoseconds(0)


def request(now: int = 0) -> Request:
    return Request(1, (), Nanoseconds(now), Nanoseconds(now + ms_to_ns(100)))


def test_an_answer_at_the_foretold_instant_is_in_time_and_one_after_it_is_not() -> None:
    forecasts = Forecasts()
    assert forecasts.statistics().coverage is None
    for took_ms in (5, 10, 10.001, 41):
        one = request(now=ms_to_ns(1_000))
        one.predicted_at_ns = Nanoseconds(one.arrived_at_ns + ms_to_ns(10))
        forecasts.on_answered([one], ms_to_ns(1_000 + took_ms))
    statistics = forecasts.statistics()
    assert statistics.answered == 4
    assert statistics.coverage == 0.5
    assert statistics.counts[0] == statistics.counts[-1] == 1
    assert statistics.counts[RATIO_EDGES.index(1.0)] == 1
    assert abs(statistics.total - 6.6001) < 1e-9


def test_who_is_admitted_by_a_forecast_is_held_to_it_and_nobody_else() -> None:
    model = LatencyModel(percentile=0.99, sizes=None)
    model.observe(1, 2 * NS_PER_MS, NOW)
    core = MicroBatcher(executors=1, limits=BatchLimits(), model=model, objective_ns=ms_to_ns(100))
    record = Request(1, (), NOW, ms_to_ns(100), sheddable=False)
    (start,) = [c for c in core.on_arrival(record, NOW) if isinstance(c, StartBatch)]
    promised = request()
    core.on_arrival(promised, NOW)
    left = request()
    core.on_arrival(left, NOW)
    core.on_cancel(left, NOW)
    assert promised.predicted_at_ns is not None
    (start,) = [c for c in core.on_batch_end(start.batch, ms_to_ns(2)) if isinstance(c, StartBatch)]
    core.on_batch_end(start.batch, ms_to_ns(3))
    forecasts = core.statistics().forecasts
    assert (forecasts.answered, forecasts.coverage) == (1, 1.0)
