"""``/v1/jobs``: the same answers as the commands', for whoever may ask."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from tests.fixtures.batch_jobs import (
    Place,
    abandon,
    assert_each_row_once,
    drive,
    new_place,
    parts_with,
    stopped_job,
)
from tests.fixtures.jobs_api import record_of, stored_jobs, talk, wanted
from tidegate.errors import JobError
from tidegate_batch.core.errors import CommittedDataMissingError
from tidegate_batch.core.states import Event
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.seat import take_seat

ROWS = 40


@pytest.fixture(autouse=True)
def cache_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, ROWS, row_group_rows=10)


@pytest.fixture
def client(place: Place) -> TestClient:
    return talk(stored_jobs(place))


def test_a_job_is_submitted_looked_at_and_listed(
    place: Place, client: TestClient, tmp_path: Path
) -> None:
    made = client.post("/v1/jobs", json=wanted(place, priority=1, chunk_rows=10))
    assert made.status_code == 201
    job = made.json()["job"]
    assert made.headers["location"] == f"/v1/jobs/{job}"
    assert made.json()["state"] == "submitted"
    record = record_of(place, job)
    assert (record.spec().wishes.priority, record.spec().request.chunk_rows) == (1, 10)
    drive(record, parts_with(), tmp_path / "cache")
    done = (client.get(f"/v1/jobs/{job}")).json()
    assert (done["state"], done["rows_committed"], done["pace"]) == ("published", ROWS, None)
    listed = (client.get("/v1/jobs?state=published&limit=5")).json()
    assert [entry["job"] for entry in listed["jobs"]] == [job]
    assert (client.get("/v1/jobs?state=failed")).json() == {"jobs": [], "known": 0}
    letters = (client.get(f"/v1/jobs/{job}/dead-letters")).json()
    assert letters == {"job": job, "rows": 0, "reasons": [], "first": []}


def test_the_same_token_finds_the_same_job_and_another_spec_is_a_conflict(
    place: Place, client: TestClient
) -> None:
    first = client.post("/v1/jobs", json=wanted(place, client_token="nightly"))
    again = client.post("/v1/jobs", json=wanted(place, client_token="nightly"))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["job"] == again.json()["job"]
    other = client.post("/v1/jobs", json=wanted(place, client_token="nightly", chunk_rows=7))
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    assert "chunk_rows 20000, not 7" in other.json()["error"]


def test_a_job_is_cancelled_and_resumed(place: Place, client: TestClient) -> None:
    job = (client.post("/v1/jobs", json=wanted(place))).json()["job"]
    cancelled = client.post(f"/v1/jobs/{job}/cancel", json={})
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert cancelled.json()["failure"]["message"] == "cancelled by anybody, over HTTP"
    resumed = client.post(f"/v1/jobs/{job}/resume", json={})
    assert resumed.status_code == 202


def test_a_job_whose_driver_is_dead_is_resumed(place: Place, client: TestClient) -> None:
    job = client.post("/v1/jobs", json=wanted(place)).json()["job"]
    abandon(take_seat(record_of(place, job), this_process(), parts_with()))
    assert client.post(f"/v1/jobs/{job}/resume", json={}).status_code == 202


def test_a_job_that_lost_committed_rows_is_not_queued(
    place: Place, client: TestClient, tmp_path: Path
) -> None:
    record = stopped_job(place, tmp_path / "cache", JobError("failed on purpose"))
    for attempt in Path(place.output).glob("**/*.attempt"):
        attempt.unlink()
    with pytest.raises(CommittedDataMissingError):
        drive(record, parts_with(), tmp_path / "cache")
    reply = client.post(f"/v1/jobs/{record.job}/resume", json={})
    assert (reply.status_code, reply.json()["code"]) == (409, "conflict")
    assert "cannot be resumed" in reply.json()["error"]


def test_a_job_at_work_tells_speed_and_time_left_with_a_range(
    place: Place, client: TestClient, tmp_path: Path
) -> None:
    record = stopped_job(place, tmp_path / "cache", JobError("failed on purpose"))
    record.change_state(lambda now: replace(now.moved(Event.RESUMED, "t"), driver=this_process()))
    pace = (client.get(f"/v1/jobs/{record.job}")).json()["pace"]
    assert pace["outlook"]["rows_per_s"] > 0
    assert pace["outlook"].keys() == {"rows_per_s", "eta_s", "eta_low_s", "eta_high_s"}


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ({"modell": "x"}, 400, "modell: no such option; did you mean model?"),
        ({"store": "elsewhere"}, 400, "store: no such option"),
        ({"wait": True}, 400, "wait: no such option"),
        ({"chunk_rows": "7"}, 400, "expected a whole number"),
        ({"chunk_rows": 0}, 400, "0 is not in the range"),
        ({"priority": 9}, 400, "9 is not in the range"),
        ({"finish_by": "tomorrow"}, 400, "is no time"),
        ({"notify": "https://example.com"}, 400, "needs a secret"),
        ({"output": "out/{dat}"}, 400, "Did you mean {date}?"),
        ({"model": "nobody"}, 404, "nobody"),
        ({"model": "../x"}, 400, "../x"),
        ({"input": "in/a\\b.parquet"}, 400, "names nothing that a store can hold"),
        ({"input": "s3://b/a//x.parquet"}, 400, "names nothing that a store can hold"),
    ],
)
def test_what_cannot_be_meant_is_told(
    place: Place,
    client: TestClient,
    changes: dict[str, object],
    status: int,
    told: str,
) -> None:
    reply = client.post("/v1/jobs", json=wanted(place, **changes))
    assert (reply.status_code, told in reply.json()["error"]) == (status, True), reply.text
    assert reply.json().keys() == {"error", "code", "request_id", "details"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"input": ' + b"[" * 100_000,
        b'{"model": ' * 20_000,
        b'{"client_token": "\\ud800"}',
        b'{"chunk_rows": ' + b"9" * 5_000 + b"}",
        b'{"chunk_rows": NaN}',
    ],
    ids=lambda body: body[:20],
)
def test_a_body_that_is_no_object_is_told(client: TestClient, body: bytes) -> None:
    reply = client.post("/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["code"]) == (400, "malformed_request")


@pytest.mark.parametrize("name", ["input", "output"])
def test_a_path_that_no_system_has_is_told(place: Place, client: TestClient, name: str) -> None:
    reply = client.post("/v1/jobs", json=wanted(place, **{name: "rows\0"}))
    assert (reply.status_code, reply.json()["code"]) == (400, "setting_invalid")


def test_a_fault_of_the_service_is_told_without_what_is_inside(place: Place) -> None:
    client, inside = talk(stored_jobs(place)), Path(place.store)
    job = client.post("/v1/jobs", json=wanted(place)).json()["job"]
    (inside / "jobs" / job / "spec.json").write_bytes(b"{")
    broken = client.get(f"/v1/jobs/{job}")
    assert (broken.status_code, broken.json()["code"]) == (500, "job_record_invalid")
    lost = client.get("/v1/jobs/0123456789abcdef")
    missing = client.post("/v1/jobs", json=wanted(place, model="nobody"))
    outside = talk(stored_jobs(place, place.input)).post("/v1/jobs", json=wanted(place))
    assert (lost.status_code, missing.status_code, outside.status_code) == (404, 404, 400)
    for reply in (broken, lost, missing, outside):
        assert str(inside) not in reply.text
        assert place.input not in reply.text


def test_a_body_has_a_limit(client: TestClient) -> None:
    reply = client.post("/v1/jobs", json={"model": "x" * 300_000})
    assert (reply.status_code, reply.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/jobs/0123456789abcdef", 404, "job_not_found"),
        ("POST", "/v1/jobs/0123456789abcdef/cancel", 404, "job_not_found"),
        ("POST", "/v1/jobs/0123456789abcdef/resume", 404, "job_not_found"),
        ("GET", "/v1/jobs/0123456789abcdef/dead-letters", 404, "job_not_found"),
        ("GET", "/v1/jobs/..%2f..%2fetc", 404, "route_not_found"),
        ("GET", "/v1/jobs?limit=0", 400, "malformed_request"),
        ("DELETE", "/v1/jobs/0123456789abcdef", 405, "method_not_allowed"),
        ("GET", "/nothing", 404, "route_not_found"),
    ],
)
def test_what_is_not_there_is_told(
    client: TestClient, method: str, path: str, status: int, code: str
) -> None:
    reply = client.request(method, path, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["code"]) == (status, code)


@contextmanager
def service(place: Place) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a service of this store, and say where its jobs are."""
    command = [sys.executable, "-c", "from tidegate.cli import main; main()"]
    command += ["jobs", "serve", "--port", "0", "--store", place.store, "--engine", "local"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r'"port": (\d+)', process.stderr.readline())
            assert found is not None
            yield process, f"http://127.0.0.1:{found[1]}/v1/jobs"
        finally:
            process.kill()


def test_a_job_that_was_sent_is_run_and_the_service_ends_when_it_is_told_to(place: Place) -> None:
    with service(place) as (process, url):
        job = httpx.post(url, json=wanted(place, chunk_rows=10)).json()["job"]
        assert wait_for_end(f"{url}/{job}") == "published"
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == 0
    assert_each_row_once(place.output, ROWS)


@pytest.mark.field_fault("B-14", "B-15")
def test_another_service_goes_on_when_one_and_its_driver_are_killed(tmp_path: Path) -> None:
    place = new_place(tmp_path / "large", 400)
    with service(place) as (process, url):
        job = httpx.post(url, json=wanted(place, chunk_rows=1)).json()["job"]
        seen = wait_for(f"{url}/{job}", lambda seen: seen["chunks_committed"] > 0)
        process.kill()
        process.wait()
        os.kill(seen["driver"]["pid"], signal.SIGKILL)
    with service(place) as (_, url):
        assert wait_for_end(f"{url}/{job}") == "published"
    assert_each_row_once(place.output, 400)


def wait_for_end(url: str) -> str:
    ended = {"published", "failed", "cancelled"}
    return str(wait_for(url, lambda seen: seen["state"] in ended)["state"])


def wait_for(url: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask again and again; nobody tells a client."""
    pause = threading.Event()
    for _ in range(600):
        seen: dict[str, Any] = httpx.get(url).json()
        if is_so(seen):
            return seen
        pause.wait(0.1)
    pytest.fail("it did not happen within a minute")
