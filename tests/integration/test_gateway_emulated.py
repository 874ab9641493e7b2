"""The scheduler behind real listeners, on a model of which only the time is true.

One row takes 30 ms, each further one 10: with 100 ms promised, batches hold two rows.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import httpx
import pytest

from tests.fixtures.gateways import SERVERS, Gateway, publish_models, running_gateway
from tidegate.cli import run

PROFILE = "linear:10:20"
PREDICT = "/v1/models/echo:predict"
CALLERS = 24


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_models(tmp_path_factory.mktemp("emulated"))


@pytest.fixture(scope="module", params=SERVERS)
def emulated(store: Path, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    settings = {"TIDEGATE_SERVE__MAX_DEADLINE_MS": "2000"}
    arguments = ("--server", request.param, "--model", "echo", "--backend", f"emulated:{PROFILE}")
    with running_gateway(store, *arguments, environment=settings) as running:
        yield running
        assert running.terminate() == 0
        assert "Traceback" not in running.log.read_text()


def ask(
    gateway: Gateway,
    *rows: list[float],
    headers: Mapping[str, str] | None = None,
    parameters: Mapping[str, object] | None = None,
) -> httpx.Response:
    content = {"instances": [*rows] or [[1, 2, 3]], "parameters": parameters or {}}
    return httpx.post(f"{gateway.url}{PREDICT}", json=content, headers=headers, timeout=30)


def test_its_answers_are_marked_as_placeholders_everywhere(emulated: Gateway) -> None:
    assert "answers are placeholders" in emulated.announcement
    parameters = httpx.get(f"{emulated.url}/v2/models/echo").json()["parameters"]
    assert parameters["backend"] == "emulated"
    tensor = {"name": "input", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
    reply = httpx.post(f"{emulated.url}/v2/models/echo/infer", json={"inputs": [tensor]})
    assert reply.json()["parameters"]["tidegate_variant"] == "emulated"
    assert reply.json()["outputs"][0]["data"] == [1, 2, 3]


@pytest.mark.field_fault("S-16")
def test_the_metadata_say_which_cap_is_in_force_and_why(emulated: Gateway) -> None:
    parameters = httpx.get(f"{emulated.url}/v2/models/echo").json()["parameters"]
    assert parameters["slo_ms"] == 100
    assert parameters["max_deadline_ms"] == 2_000
    assert parameters["cap_limited_by"] == "slo"
    assert parameters["cap_slo_rows"] in {1, 2}  # two, if this machine keeps time
    assert emulated.metric("tidegate_cap_rows", limit="slo") in {1, 2}


@pytest.mark.field_fault("S-21", "S-41", "S-42")
def test_under_overload_everybody_is_answered_in_time_or_refused_with_figures(
    emulated: Gateway,
) -> None:
    with ThreadPoolExecutor(CALLERS) as callers:
        replies = list(callers.map(lambda _: ask(emulated), range(5 * CALLERS)))
    codes = Counter(reply.json().get("code", "answered") for reply in replies)
    assert codes["answered"] >= 5
    assert codes["deadline_unreachable"] >= 5
    assert codes.keys() <= {"answered", "deadline_unreachable", "deadline_expired"}
    refused = next(r for r in replies if r.json().get("code") == "deadline_unreachable")
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) >= 1
    details = refused.json()["details"]
    assert details.keys() == {"predicted_ms", "slo_ms", "rows_ahead", "retry_after_ms"}
    assert details["predicted_ms"] > details["slo_ms"] == 100
    counted = emulated.metric("tidegate_requests_total", reason="deadline_unreachable")
    assert counted == codes["deadline_unreachable"]


@pytest.mark.field_fault("S-23", "S-25", "S-27")
def test_deadlines_and_priorities_reach_the_scheduler_by_every_way(emulated: Gateway) -> None:
    for wish in (
        {"headers": {"Tidegate-Deadline-Ms": "20"}},
        {"parameters": {"timeout": 20_000}},
        {"parameters": {"timeout": 20_000}, "headers": {"Tidegate-Deadline-Ms": "90"}},
    ):
        reply = ask(emulated, **wish)
        assert (reply.status_code, reply.json()["code"]) == (422, "deadline_too_short")
        assert reply.json()["details"]["asked_ms"] == 20
        assert reply.json()["details"]["needed_ms"] >= 29
    for bad in ("0", "1.5", "x"):
        reply = ask(emulated, headers={"Tidegate-Deadline-Ms": bad})
        assert (reply.status_code, reply.json()["code"]) == (400, "bad_option")
    reply = ask(emulated, parameters={"priority": "high"})
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_option")
    # More rows than fit into the objective; who allows a minute is given no more than 2 s.
    many = [[float(number), 0, 0] for number in range(10)]
    assert ask(emulated, *many).json()["code"] == "deadline_unreachable"
    reply = ask(emulated, *many, parameters={"timeout": 60_000_000, "priority": 1})
    assert reply.status_code == 200
    assert reply.json()["predictions"] == many
    reply = ask(emulated, *many * 24, headers={"Tidegate-Deadline-Ms": "60000"})
    assert reply.json()["code"] == "deadline_unreachable"
    assert reply.json()["details"]["slo_ms"] <= 2_000


@pytest.mark.field_fault("S-57", "S-54")
def test_the_series_of_the_scheduler_say_what_was_executed(emulated: Gateway) -> None:
    for _ in range(1_000):  # what the other tests were refused may still run, as a probe
        if ask(emulated).status_code == 200:
            break
    else:
        raise AssertionError("never again did anybody get an answer")
    batches = emulated.metric("tidegate_batches_total")
    answered = emulated.metric("tidegate_requests_total", outcome="answered")
    assert 0 < emulated.metric("tidegate_forecast_ratio_count") <= answered
    assert emulated.metric("tidegate_slo_good_total") <= answered
    assert emulated.metric("tidegate_executors") == 1
    assert emulated.metric("tidegate_executor_busy_seconds_total") >= 0.02 * batches
    for still in ("tidegate_queue_rows", "tidegate_queue_oldest_age_seconds"):
        assert emulated.metric(still) == 0
    assert emulated.metric("tidegate_predicted_drain_seconds") == 0
    capacity = emulated.metric("tidegate_capacity_rows_per_second")
    rows = max(1, emulated.metric("tidegate_cap_rows", limit="slo"))
    assert capacity == pytest.approx(rows / (0.020 + 0.010 * rows), rel=0.3)


@pytest.mark.field_fault("S-10")
def test_explain_names_the_one_caller_who_cannot_fill_a_batch(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopping = Event()

    def ask_again_and_again(gateway: Gateway) -> None:
        with httpx.Client(base_url=gateway.url) as client:
            while not stopping.is_set():
                client.post(PREDICT, json={"instances": [[1, 2, 3]]})

    arguments = ("--model", "echo", "--backend", f"emulated:{PROFILE}", "--slo-ms", "1000")
    with running_gateway(store, *arguments) as gateway, ThreadPoolExecutor() as callers:
        asking = callers.submit(ask_again_and_again, gateway)
        try:
            assert run(["explain", gateway.admin_url, "echo", "--window-s", "2", "--json"]) == 0
        finally:
            stopping.set()
        asking.result()
    answer = json.loads(capsys.readouterr().out)
    assert answer["batches"] > 5
    assert answer["mean_batch_rows"] == 1
    found = {finding["kind"]: finding["said"] for finding in answer["findings"]}
    assert re.search(r"at [12] connections? and", found["few_callers"])
    assert re.search(r"a batch holds at most [12] \(now 1\.0\)", found["few_callers"])
    assert list(found)[-1].startswith("cap_")


def test_explain_is_a_page_for_a_person_who_asks_without_json(
    emulated: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", emulated.admin_url + "/", "echo@1", "--window-s", "0.1"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("echo@1 over 0.")
    assert "Nobody has asked echo@1" in told
    assert "A batch may hold" in told


@pytest.mark.parametrize(
    ("url", "model", "exit_code", "hint"),
    [
        ("{admin}", "nothing", 1, "'nothing' is not served here"),
        ("{admin}", "echo@7", 1, "not served at '7'"),
        ("{admin}", "ECHO", 2, "is no model name"),
        ("{public}", "echo", 1, "no listener for operators"),
        ("http://127.0.0.1:9", "echo", 1, "no gateway answers at http://127.0.0.1:9"),
        ("127.0.0.1:8002", "echo", 2, "write it as http://127.0.0.1:8002"),
        ("file:///etc/passwd", "echo", 2, "is no address of a gateway"),
    ],
)
def test_explain_says_what_is_wrong_with_the_question(
    emulated: Gateway,
    capsys: pytest.CaptureFixture[str],
    url: str,
    model: str,
    exit_code: int,
    hint: str,
) -> None:
    address = url.format(admin=emulated.admin_url, public=emulated.url)
    assert run(["explain", address, model, "--window-s", "0.1"]) == exit_code
    assert hint in capsys.readouterr().err
