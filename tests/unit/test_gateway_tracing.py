"""The time of a request, stage by stage."""

from tidegate.settings import LatencyObjective
from tidegate.units import NS_PER_MS, Nanoseconds
from tidegate_realtime.api.metrics import GatewayMetrics
from tidegate_realtime.api.tracing import STAGES, StageTimes, Took


def took(arrived_ms: int) -> Took:
    return Took(
        arrived_at_ns=Nanoseconds(arrived_ms * NS_PER_MS),
        decode_ns=1 * NS_PER_MS,
        queue_ns=2 * NS_PER_MS,
        execute_ns=10 * NS_PER_MS,
        encode_ns=5 * NS_PER_MS,
    )


def totals_ms(times: StageTimes) -> dict[str, float]:
    return {stage: round(times.by_stage[stage].total * 1_000, 6) for stage in STAGES}


def test_a_request_is_divided_where_the_call_of_its_own_batch_began() -> None:
    times = StageTimes()
    for begun_ms in (7, 17, 40):  # of the batch before, its own, and the one after
        times.on_begin(begun_ms * NS_PER_MS)
    times.on_answer(took(arrived_ms=10))  # so that its batch was chosen at 13 ms
    assert totals_ms(times) == {"decode": 1, "queue": 2, "batch": 4, "run": 6, "encode": 5}


def test_a_call_that_nobody_has_seen_begin_is_all_run() -> None:
    times = StageTimes()
    times.on_answer(took(arrived_ms=10))
    assert totals_ms(times) == {"decode": 1, "queue": 2, "batch": 0, "run": 10, "encode": 5}


def test_the_stages_of_many_requests_add_up_to_their_whole_time() -> None:
    times = StageTimes()
    for second in range(200):  # more than are remembered
        times.on_begin((second * 1_000 + 4) * NS_PER_MS)
        times.on_answer(took(arrived_ms=second * 1_000))
    assert sum(totals_ms(times).values()) == 200 * 18
    assert times.in_one_line() == {
        "answered": 200,
        "decode_us": 1_000,
        "queue_us": 2_000,
        "batch_us": 1_000,
        "run_us": 9_000,
        "encode_us": 5_000,
    }


def test_a_version_without_an_answer_has_no_means() -> None:
    assert StageTimes().in_one_line() == {"answered": 0}


def test_nothing_is_timed_unless_somebody_asks() -> None:
    quiet, asked = GatewayMetrics(), GatewayMetrics(traces_stages=True)
    for metrics in (quiet, asked):
        metrics.add_version("risk", "1", LatencyObjective())
    assert not quiet.stage_times
    assert list(asked.stage_times) == [("risk", "1")]
