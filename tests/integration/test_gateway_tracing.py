"""``tidegate serve --trace-stages``: where the time of each request goes."""

import json
from pathlib import Path

import httpx
import pytest

from tests.fixtures.gateways import publish_models, running_gateway
from tidegate_realtime.api.tracing import STAGES

ASKED = 5
REQUEST = {"instances": [[1, 2, 3]]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_models(tmp_path_factory.mktemp("traced"))


def test_the_stages_of_each_request_add_up_to_the_sums_that_are_always_counted(
    store: Path,
) -> None:
    with running_gateway(store, "--model", "echo", "--trace-stages") as gateway:
        for _ in range(ASKED):
            assert httpx.post(f"{gateway.url}/v1/models/echo:predict", json=REQUEST).is_success
        spent_s = {
            stage: gateway.metric("tidegate_stage_duration_seconds_sum", stage=stage)
            for stage in STAGES
        }
        summed_s = {
            stage: gateway.metric("tidegate_stage_seconds_total", stage=stage)
            for stage in ("decode", "queue", "execute", "encode")
        }
        for stage in STAGES:
            assert gateway.metric("tidegate_stage_duration_seconds_count", stage=stage) == ASKED
        assert min(spent_s.values()) > 0
        assert spent_s["batch"] + spent_s["run"] == pytest.approx(summed_s["execute"])
        for stage in ("decode", "queue", "encode"):
            assert spent_s[stage] == pytest.approx(summed_s[stage])
        gateway.terminate()
        (line,) = [
            json.loads(line)
            for line in gateway.log.read_text().splitlines()
            if "stages_timed" in line
        ]
    assert line["model"] == "echo@1"
    assert line["answered"] == ASKED
    assert line["run_us"] > 0


def test_without_the_flag_there_is_no_such_series(store: Path) -> None:
    with running_gateway(store, "--model", "echo") as gateway:
        httpx.post(f"{gateway.url}/v1/models/echo:predict", json=REQUEST)
        assert "tidegate_stage_duration" not in httpx.get(f"{gateway.admin_url}/metrics").text
