"""What ``/metrics`` says of promises: kept, refused, stood by for, and of calls that had to end.

One row of the model takes 3 ms, and each further one 1 ms.
"""

import asyncio
from pathlib import Path

import orjson
import pytest

from tests.driver.test_gateway_series import ask, series, serving
from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tests.project import ROOT
from tidegate.errors import BackendError
from tidegate.inference.arrays import Tensors
from tidegate.inference.model import Model
from tidegate_realtime.api.admin.exposition import GatewayCollector
from tidegate_realtime.runtime.ports import BatchResult

pytestmark = pytest.mark.looptime

SLO_MS = 16
POISON = 13.0


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


def took_s(rows: int) -> float:
    return 0.002 + 0.001 * rows


def backend(**how: object) -> FakeBackend:
    return FakeBackend(took_s=took_s, **how)  # type: ignore[arg-type] # whatever it takes


def slo(collector: GatewayCollector) -> tuple[float, float]:
    """Return how many counted for the objective, and how many of them kept it."""
    found = series(collector)
    return found["tidegate_slo_requests_total", ""], found["tidegate_slo_good_total", ""]


async def test_each_answer_is_compared_with_what_was_foretold_for_it(echo: Model) -> None:
    async with serving(echo, slo_ms=SLO_MS, fake=backend()) as (edge, collector, _):
        await asyncio.gather(*(ask(edge, 1) for _ in range(5)))
        found = series(collector)
        assert found["tidegate_forecast_ratio_count", ""] == 5
        assert found["tidegate_forecast_ratio_bucket", "1.0"] == 5  # each promise was kept
        assert 0 < found["tidegate_forecast_ratio_sum", ""] <= 5


@pytest.mark.field_fault("S-22")
async def test_the_objective_runs_from_the_last_byte_in_as_a_client_measures_it(
    echo: Model,
) -> None:
    async with serving(echo, slo_ms=SLO_MS, fake=backend()) as (edge, collector, _):
        exchange = FakeExchange.uploading(
            "/v1/models/echo:predict", began_at_ns=LoopClock().now_ns()
        )
        loop = asyncio.get_running_loop()
        reply = loop.create_task(edge.endpoint.answer(exchange))
        await asyncio.sleep(10)  # a slow upload is not the model's fault
        sent_s = loop.time()
        exchange.body.set_result(orjson.dumps({"instances": [[1, 2]]}))
        assert (await reply).status == 200
        took_s = loop.time() - sent_s
        assert took_s == pytest.approx(0.003)
        found = series(collector)
        assert found["tidegate_request_duration_seconds_sum", ""] == pytest.approx(took_s)
        assert slo(collector) == (1, 1)
        help_text = {family.name: family.documentation for family in collector.collect()}
    for text in (
        help_text["tidegate_request_duration_seconds"],
        (ROOT / "docs/settings.md").read_text(),
    ):
        assert "last byte of a request" in text
    assert (found["tidegate_slo_seconds", ""], found["tidegate_slo_target_ratio", ""]) == (
        SLO_MS / 1_000,
        0.99,
    )


@pytest.mark.field_fault("S-22", "S-55")
async def test_what_kept_the_objective_is_the_histogram_up_to_it(echo: Model) -> None:
    async with serving(echo, slo_ms=SLO_MS, fake=backend()) as (edge, collector, _):
        asked = []
        for _ in range(200):  # more than it can answer
            asked.append(ask(edge, 1))
            await asyncio.sleep(0.0002)
        await asyncio.gather(*asked)
        found = series(collector)
        good = found["tidegate_request_duration_seconds_bucket", "0.016"]
        assert slo(collector) == (200, good)
        assert 0 < good < 200


async def test_who_allows_less_than_the_objective_does_not_count_and_more_is_judged_by_it(
    echo: Model,
) -> None:
    async with serving(echo, slo_ms=SLO_MS, fake=backend()) as (edge, collector, _):
        await ask(edge, 1, timeout=10_000)
        assert slo(collector) == (0, 0)
        running = ask(edge, 1)
        await asyncio.sleep(0.001)
        await asyncio.gather(ask(edge, 20, timeout=60_000), running)  # takes 24 ms
        assert slo(collector) == (2, 2)


async def test_what_the_caller_ends_does_not_count(echo: Model) -> None:
    async with serving(echo, slo_ms=SLO_MS, fake=backend()) as (edge, collector, _):
        unreadable = FakeExchange("POST", "/v1/models/echo:predict", b"no JSON")
        assert (await edge.endpoint.answer(unreadable)).status == 400
        left = ask(edge, 1)
        await asyncio.sleep(0.001)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        assert slo(collector) == (0, 0)


async def test_rows_that_make_the_model_fail_count_as_not_answered(echo: Model) -> None:
    def fail_on_poison(inputs: Tensors) -> BatchResult:
        if (inputs["input"] == POISON).any():
            raise BackendError("division by zero")
        return {"output": inputs["input"]}

    fake = backend(model=fail_on_poison)
    async with serving(echo, slo_ms=1_000, fake=fake) as (edge, collector, _):
        body = orjson.dumps({"instances": [[1, 2], [POISON, 2]]})
        exchange = FakeExchange(
            "POST", "/v1/models/echo:predict", body, began_at_ns=LoopClock().now_ns()
        )
        assert (await edge.endpoint.answer(exchange)).status == 422
        assert slo(collector) == (1, 0)


@pytest.mark.field_fault("S-38")
async def test_a_refusal_takes_no_time_unless_the_request_stood_by(echo: Model) -> None:
    async with serving(echo, slo_ms=SLO_MS, fake=backend()) as (edge, collector, _):
        asked, most = [], 0.0
        driver = edge.catalogue.versions[0].driver
        for _ in range(1_000):
            asked.append(ask(edge, 1))
            await asyncio.sleep(0.0002)
            standing_by = series(collector)["tidegate_standby_requests", ""]
            assert standing_by == driver.statistics().standby
            most = max(most, standing_by)
        await asyncio.gather(*asked)
        found = series(collector)
    assert most > 0
    assert found["tidegate_standby_requests", ""] == 0
    stood_by, in_vain = (found[f"tidegate_stood_by{which}_total", ""] for which in ("", "_in_vain"))
    refused = found["tidegate_requests_total", "rejecteddeadline_unreachable"]
    assert 0 < in_vain < stood_by
    assert found["tidegate_refusal_seconds_count", ""] == refused
    assert found["tidegate_refusal_seconds_bucket", "0.0005"] == pytest.approx(
        refused - in_vain, abs=0.1 * in_vain
    )
    assert found["tidegate_refusal_seconds_bucket", "0.025"] == refused  # none after its deadline


@pytest.mark.field_fault("S-38")
async def test_what_is_refused_before_it_is_read_is_counted_by_itself(echo: Model) -> None:
    async with serving(echo, slo_ms=SLO_MS, fake=backend()) as (edge, collector, _):

        def post() -> FakeExchange:
            now_ns = LoopClock().now_ns()
            body = orjson.dumps({"instances": [[1, 2]]})
            return FakeExchange("POST", "/v1/models/echo:predict", body, began_at_ns=now_ns)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(100):
                tasks.create_task(edge.endpoint.answer(post()))
        found = series(collector)
    refused = found["tidegate_requests_total", "rejecteddeadline_unreachable"]
    assert 0 < found["tidegate_unread_refusals_total", ""] <= refused


@pytest.mark.field_fault("S-35")
async def test_a_call_that_nobody_waits_for_is_counted_as_terminated(echo: Model) -> None:
    async with serving(echo, fake=backend()) as (edge, collector, _):
        left = ask(edge, 1)
        await asyncio.sleep(0.001)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        assert series(collector)["tidegate_terminated_calls_total", ""] == 1


@pytest.mark.field_fault("S-31")
async def test_an_executor_that_hangs_is_missing_until_another_is_there(echo: Model) -> None:
    fake = backend(can_terminate=False, replacing_takes_s=2.0)
    async with serving(echo, fake=fake) as (edge, collector, _):
        assert series(collector)["tidegate_executors", ""] == 1
        fake.took_s = 1_000_000.0
        stalled = ask(edge, 1)
        await asyncio.sleep(6)
        found = series(collector)
        assert found["tidegate_executors", ""] == 0
        assert found["tidegate_executors_given_up_total", ""] == 1
        await asyncio.sleep(2)
        assert series(collector)["tidegate_executors", ""] == 1
        await stalled
        for batch in fake.replaced:
            fake.finish(batch, BackendError("after all"))
