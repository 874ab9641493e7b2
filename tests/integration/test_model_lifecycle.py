"""Versions change while a real gateway answers over real sockets."""

import json
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.fixtures.clients import run_client
from tests.fixtures.gateways import Gateway, command, free_port, running_gateway
from tests.fixtures.switching import (
    CORRUPT,
    RISK,
    STABLE,
    Callers,
    factor,
    proc_status,
    publish_versions,
    until,
)
from tidegate.artifacts.store import ArtifactStore
from tidegate.cli import run
from tidegate.ids import Version
from tidegate.objects.local import LocalObjectStore

FOLLOWING = {"TIDEGATE_SERVE__FOLLOW_ALIASES_MS": "40", "TIDEGATE_SERVE__WARM_UP_BUDGET_MS": "20"}
ARGUMENTS = ("--model", "risk", "--slo-ms", "20000", "--grpc-port", "0")
SWITCHES = 12
POOL_THREADS = 3
"""That the pool for slow steps may still begin; one thread a load would be as many as loads."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_versions(tmp_path_factory.mktemp("versions"))


@pytest.fixture(scope="module")
def started(store: Path) -> Iterator[Gateway]:
    with running_gateway(store, *ARGUMENTS, environment=FOLLOWING) as running:
        yield running
        assert running.terminate() == 0
        assert "Traceback" not in running.log.read_text()
        assert "totals_differ" not in running.log.read_text()


@pytest.fixture
def gateway(store: Path, started: Gateway) -> Iterator[Gateway]:
    """A gateway that serves version 1 alone, before and after."""
    yield started
    point(store, 1)
    until(lambda: answers(started, 1))
    for version, what in listed(started).items():
        if f"risk@{version}" in cast("list[str]", what["asked_by"]):
            assert operate(started, f"/admin/v1/models/risk@{version}/unload").status_code == 200
    until(lambda: set(listed(started)) == {1})


def point(store: Path, version: int) -> None:
    ArtifactStore(LocalObjectStore(store)).move_alias(RISK, STABLE, Version(version))


def ask(gateway: Gateway, path: str = "/v1/models/risk:predict") -> httpx.Response:
    return httpx.post(f"{gateway.url}{path}", json={"instances": [[1.0, 1.0]]})


def answers(gateway: Gateway, version: int) -> bool:
    return ask(gateway).headers["x-tidegate-version"] == str(version)


def operate(gateway: Gateway, path: str, **more: object) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.post(f"{gateway.admin_url}{path}", headers=headers, timeout=30, **more)  # type: ignore[arg-type] # httpx's


def listed(gateway: Gateway) -> dict[int, dict[str, object]]:
    reply = httpx.get(f"{gateway.admin_url}/admin/v1/models/risk").json()
    return {version["version"]: version for version in reply["versions"]}


def loaded(gateway: Gateway) -> float:
    return gateway.metric("tidegate_model_loads_total", model="risk", outcome="ready")


@pytest.mark.field_fault("S-47", "S-51", "S-52", "P-03")
def test_versions_switch_under_load_and_every_answer_is_of_the_version_that_signs_it(
    store: Path, gateway: Gateway
) -> None:
    """With a corrupt version in between, half of the time."""
    loads = loaded(gateway)
    point(store, 2)
    until(lambda: set(listed(gateway)) == {2})
    with Callers(gateway.url, number=3).asking() as callers:
        for number in range(SWITCHES):
            if number == 4:
                threads = proc_status(gateway.process.pid, "Threads")
                rss_kib = proc_status(gateway.process.pid, "VmRSS")
            if number % 2:
                point(store, CORRUPT)
                until(lambda: listed(gateway).get(CORRUPT, {}).get("state") == "failed")
            wanted = 1 + number % 2
            point(store, wanted)
            until(lambda wanted=wanted: answers(gateway, wanted))  # type: ignore[misc] # a default
            until(lambda wanted=wanted: set(listed(gateway)) == {wanted})  # type: ignore[misc] # likewise
    assert callers.faults == []
    assert min(callers.answers["1"], callers.answers["2"]) > SWITCHES
    assert proc_status(gateway.process.pid, "Threads") <= threads + POOL_THREADS
    assert proc_status(gateway.process.pid, "VmRSS") - rss_kib < 16 * 1024
    assert loaded(gateway) - loads == SWITCHES + 1


@pytest.mark.field_fault("S-52")
def test_a_corrupt_version_says_why_and_everything_goes_on(store: Path, gateway: Gateway) -> None:
    point(store, CORRUPT)
    until(lambda: listed(gateway).get(CORRUPT, {}).get("state") == "failed")
    failure = listed(gateway)[CORRUPT]["failure"]
    assert isinstance(failure, dict)
    assert failure["code"] == "digest_mismatch"
    assert "model.onnx is not the file that was published" in failure["message"]
    assert 0 < failure["retry_in_seconds"] <= 10
    parameters = httpx.get(f"{gateway.url}/v2/models/risk").json()["parameters"]
    assert parameters["tidegate_failed_versions"] == "3 (digest_mismatch)"
    assert "/" not in parameters["tidegate_failed_versions"]
    assert gateway.metric("tidegate_model_state", version="3", state="failed") == 1
    assert gateway.metric("tidegate_model_loads_total", outcome="digest_mismatch") >= 1
    assert '"event": "model_not_loaded"' in gateway.log.read_text()
    assert factor(ask(gateway)) == 2
    for path in ("/v2/health/ready", "/v2/models/risk/ready"):
        assert httpx.get(f"{gateway.url}{path}").status_code == 200
    index = operate(gateway, "/v2/repository/index").json()
    assert {(each["version"], each["state"]) for each in index} == {
        ("1", "READY"),
        ("3", "UNAVAILABLE"),
    }
    assert "digest_mismatch" in next(each["reason"] for each in index if each["version"] == "3")


@pytest.mark.field_fault("S-49")
def test_a_load_is_proved_by_the_next_reply(
    store: Path, gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = operate(gateway, "/admin/v1/models/risk@2/load")
    assert loaded.json().items() >= {"version": 2, "aliases": [], "is_default": False}.items()
    pinned = ask(gateway, "/v1/models/risk/versions/2:predict")
    assert (factor(pinned), pinned.json()["model_digest"]) == (3, loaded.json()["digest"])
    assert factor(ask(gateway)) == 2
    assert run(["model", "load", "other@1", "--url", gateway.admin_url, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    reply = ask(gateway, "/v1/models/other:predict")
    assert (factor(reply), reply.json()["model_digest"]) == (10, told["digest"])
    assert run(["model", "unload", "other", "--url", gateway.admin_url]) == 0
    assert capsys.readouterr().out == "unloaded other@1; versions that answer: none\n"
    assert ask(gateway, "/v1/models/other:predict").status_code == 404
    assert httpx.get(f"{gateway.url}/v1/models").json() == {"models": ["risk"]}
    point(store, 2)
    loaded = operate(gateway, "/v2/repository/models/risk/load")
    assert loaded.json().items() >= {"version": 2, "is_default": True}.items()
    assert ask(gateway).json()["model_digest"] == loaded.json()["digest"]


def test_what_cannot_be_loaded_or_must_stay_is_refused_with_the_reason(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    url = ("--url", gateway.admin_url)
    refusals = {
        ("load", "risk@9"): (1, "risk@9 is not in"),
        ("load", "risk@3"): (1, "is not the file that was published"),
        ("load", "risk@candidate"): (1, "risk@candidate is not in"),
        ("load", "nothing"): (1, "no model 'nothing' in"),
        ("load", "../risk"): (2, "is no model name"),
        ("unload", "risk"): (1, "was asked for when the server was started"),
        ("unload", "risk@1"): (1, "answers as stable"),
        ("unload", "risk@2"): (1, "risk@2 is not loaded here"),
        ("unload", "nothing"): (1, "nothing is not loaded here"),
    }
    for (verb, ref), (exit_code, hint) in refusals.items():
        assert run(["model", verb, ref, *url]) == exit_code, (verb, ref)
        last = capsys.readouterr().err.strip().splitlines()[-1]
        assert last.startswith("error: ")
        assert hint in last
    assert run(["model", "load", "risk", "--url", "risk"]) == 2
    assert run(["model", "load", "risk", "--url", gateway.url]) == 1
    assert "is no listener for operators" in capsys.readouterr().err
    assert run(["model", "load", "risk", "--url", f"http://127.0.0.1:{free_port()}"]) == 1
    assert "no gateway answers" in capsys.readouterr().err
    assert set(listed(gateway)) == {1}


@pytest.mark.field_fault("P-28")
def test_model_files_never_come_by_http(gateway: Gateway) -> None:
    for name in ("config", "file:1/model.onnx"):
        reply = operate(
            gateway, "/v2/repository/models/risk/load", json={"parameters": {name: "x"}}
        )
        assert (reply.status_code, reply.json()["code"]) == (400, "unsupported_parameter")
    big = operate(gateway, "/v2/repository/models/risk/load", content=b"{" + b" " * 70_000)
    assert (big.status_code, big.json()["code"]) == (413, "body_too_large")
    broken = operate(gateway, "/v2/repository/models/risk/load", content=b"{")
    assert (broken.status_code, broken.json()["code"]) == (400, "malformed_json")
    for path in ("/admin/v1/models/..%2Frisk/load", "/v2/repository/models/RISK/load"):
        assert operate(gateway, path).status_code == 404


def test_a_client_of_triton_controls_what_is_loaded(gateway: Gateway) -> None:
    operators = gateway.admin_url.removeprefix("http://")
    assert run_client("tritonclient", "triton_repository.py", operators) == "ok\n"


def test_an_alias_moves_from_the_state_that_was_seen_or_not_at_all(gateway: Gateway) -> None:
    url = f"{gateway.admin_url}/admin/v1/models/risk/aliases"
    seen = httpx.get(url)
    assert seen.json()["aliases"] == {"stable": 1}

    def move(version: int, **headers: str) -> httpx.Response:
        return httpx.put(f"{url}/stable", json={"version": version}, headers=headers)

    assert (move(2).status_code, move(2).json()["code"]) == (400, "malformed_request")
    etag = seen.headers["etag"]
    assert move(9, **{"If-Match": etag}).json()["code"] == "model_not_found"
    moved = move(2, **{"If-Match": etag})
    assert moved.json()["aliases"] == {"stable": 2}
    late = move(1, **{"If-Match": etag})
    assert (late.status_code, late.json()["code"]) == (412, "alias_moved")
    until(lambda: answers(gateway, 2))
    assert move(1, **{"If-Match": moved.headers["etag"]}).status_code == 200
    until(lambda: answers(gateway, 1))


def test_what_an_operator_loaded_makes_room_and_what_the_start_asked_for_stays(
    store: Path,
) -> None:
    size_mb = (store / "models/risk/1/model.onnx").stat().st_size / 1_000_000
    limit = {**FOLLOWING, "TIDEGATE_SERVE__MEMORY_LIMIT_MB": f"{2.5 * size_mb}"}
    with running_gateway(store, *ARGUMENTS, environment=limit) as gateway:
        assert operate(gateway, "/admin/v1/models/risk@2/load").status_code == 200
        assert operate(gateway, "/admin/v1/models/other@1/load").status_code == 200
        assert set(listed(gateway)) == {1}
        assert ask(gateway, "/v1/models/other:predict").status_code == 200
    limit["TIDEGATE_SERVE__MEMORY_LIMIT_MB"] = f"{1.5 * size_mb}"
    with running_gateway(store, *ARGUMENTS, environment=limit) as gateway:
        refused = operate(gateway, "/admin/v1/models/other@1/load")
        assert (refused.status_code, refused.json()["code"]) == (409, "memory_limit")
        assert factor(ask(gateway)) == 2


def test_until_the_first_versions_are_warm_operators_are_told_not_ready(store: Path) -> None:
    """An emulated second per row makes the start long enough to be seen."""
    port, admin_port = free_port(), free_port()
    slow = ("--backend", "emulated:linear:1:300", "--slo-ms", "20000", "--grpc-port", "0")
    with subprocess.Popen(
        command(store, port, admin_port, "--model", "risk", *slow), stdout=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: is_open(admin_port), tries=1_000_000)
            ready = httpx.get(f"http://127.0.0.1:{admin_port}/v2/health/ready")
            assert (ready.status_code, ready.json()["code"]) == (503, "not_ready")
            assert httpx.get(f"http://127.0.0.1:{admin_port}/v2/health/live").status_code == 200
            (model,) = httpx.get(f"http://127.0.0.1:{admin_port}/admin/v1/models").json()["models"]
            assert model["versions"][0]["state"] in {"fetching", "loading", "warming"}
            assert not is_open(port)
        finally:
            process.kill()


def test_a_stop_does_not_wait_for_whoever_waits_for_a_load(store: Path) -> None:
    """An emulated tenth of a second a call makes the load long enough to be stopped in."""
    slow = ("--backend", "emulated:linear:1:100", "--slo-ms", "60000")
    limits = {**FOLLOWING, "TIDEGATE_SERVE__DRAIN_LIMIT_MS": "60000"}
    arguments = ("--model", "risk", "--grpc-port", "0", *slow)
    with (
        running_gateway(store, *arguments, environment=limits) as gateway,
        ThreadPoolExecutor(max_workers=1) as operators,
    ):
        loading = operators.submit(operate, gateway, "/admin/v1/models/risk@2/load")
        until(lambda: listed(gateway).get(2, {}).get("state") == "warming")
        assert gateway.terminate() == 0
        refused = loading.result()
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
