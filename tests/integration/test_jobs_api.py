"""``/v1/jobs``: the same answers as the commands', for whoever may ask."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    drive,
    new_place,
    parts_with,
    stopped_job,
)
from tidegate.cli import run
from tidegate.clock.system import SystemClock
from tidegate.errors import JobError
from tidegate.keys.access import Access
from tidegate.keys.file import add_key
from tidegate.keys.key import Key, Scope, Token
from tidegate.keys.ring import Keyring
from tidegate_batch.api.app import build_app
from tidegate_batch.main.session import Session
from tidegate_batch.main.stored_jobs import StoredJobs
from tidegate_batch.pipeline.record import JobRecord

ROWS = 40
URL = "http://127.0.0.1:8003"


@pytest.fixture(autouse=True)
def cache_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, ROWS, row_group_rows=10)


def stored_jobs(place: Place, *roots: str) -> StoredJobs:
    return StoredJobs(Session({"store": place.store}, config=None), roots=roots)


def talk(jobs: StoredJobs, access: Access | None = None) -> TestClient:
    """Return a client whose application runs on a loop of its own, as it does when it serves."""
    app = build_app(jobs, access or Access())
    return TestClient(app, base_url=URL, raise_server_exceptions=False)


@pytest.fixture
def client(place: Place) -> TestClient:
    return talk(stored_jobs(place))


def wanted(place: Place, **changes: object) -> dict[str, object]:
    asked = {"model": "double@stable", "input": place.input, "output": place.output, "key": "id"}
    return {**asked, **changes}


def record_of(place: Place, job: str) -> JobRecord:
    return Session({"store": place.store}, config=None).record(job)


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


def test_a_job_at_work_tells_speed_and_time_left_with_a_range(
    place: Place, client: TestClient, tmp_path: Path
) -> None:
    record = stopped_job(place, tmp_path / "cache", JobError("failed on purpose"))
    record.change_state(lambda now: now.moved("resumed", "t"))  # type: ignore[arg-type] # its name
    pace = (client.get(f"/v1/jobs/{record.job}")).json()["pace"]
    assert pace["outlook"]["rows_per_s"] > 0
    assert pace["outlook"].keys() == {"rows_per_s", "eta_s", "eta_low_s", "eta_high_s"}


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ({"modell": "x"}, 400, "modell: no such option; did you mean model?"),
        ({"engine": "ray"}, 400, "engine: no such option"),
        ({"chunk_rows": "7"}, 400, "expected a whole number"),
        ({"chunk_rows": 0}, 400, "0 is not in the range"),
        ({"priority": 9}, 400, "9 is not in the range"),
        ({"finish_by": "tomorrow"}, 400, "is no time"),
        ({"notify": "https://example.com"}, 400, "needs a secret"),
        ({"output": "out/{dat}"}, 400, "Did you mean {date}?"),
        ({"model": "nobody"}, 404, "nobody"),
        ({"model": "../x"}, 400, "../x"),
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


def test_a_page_of_another_site_is_not_obeyed(place: Place, client: TestClient) -> None:
    asked = wanted(place)
    for headers, code in (
        ({"origin": "https://evil.example"}, "cross_site"),
        ({"host": "evil.example"}, "host_not_allowed"),
        ({"content-type": "text/plain"}, "cross_site"),
    ):
        reply = client.post("/v1/jobs", json=asked, headers=headers)
        assert (reply.status_code >= 400, reply.json()["code"]) == (True, code)
    assert (client.get("/v1/jobs")).json()["known"] == 0


def test_jobs_may_only_read_and_write_below_the_roots(place: Place, tmp_path: Path) -> None:
    (tmp_path / "in-secret").mkdir()
    (Path(place.output) / "[x]").mkdir(parents=True)
    (Path(place.output) / "[x]/leads-out").symlink_to(tmp_path)
    client = talk(stored_jobs(place, place.input, place.output))
    assert (client.post("/v1/jobs", json=wanted(place))).status_code == 201
    for changes in (
        {"input": str(tmp_path / "in-secret")},
        {"input": f"{place.input}/../in-secret/*.parquet"},
        {"input": [place.input, "/etc/passwd"]},
        {"output": f"{place.output}/../elsewhere"},
        {"output": f"{place.output}/[x]/../../elsewhere"},
        {"output": f"{place.output}/[x]/leads-out"},
        {"output": f"{place.output}/{{date}}/../../elsewhere"},
        {"output": "s3://scores"},
    ):
        reply = client.post("/v1/jobs", json=wanted(place, **changes))
        assert reply.status_code == 400, changes
        assert "lies outside" in reply.json()["error"]
    for pattern in ("[x]/../../in-secret/*.parquet", "*/../../in-secret/a.parquet"):
        reply = client.post("/v1/jobs", json=wanted(place, input=f"{place.input}/{pattern}"))
        assert reply.status_code == 400, pattern
        assert "it could lead out of the store" in reply.json()["error"]
    assert not (tmp_path / "elsewhere").exists()


def test_only_a_key_of_scope_jobs_may_ask(place: Place, tmp_path: Path) -> None:
    tokens = {scope: Token.new() for scope in Scope}
    for scope, token in tokens.items():
        key = Key(
            id=token.id,
            secret_sha256=token.secret_sha256,
            scopes=(scope,),
            tenant="a",
            created_at=datetime.now(UTC),
        )
        add_key(tmp_path / "keys.json", key)
    ring = Keyring(tmp_path / "keys.json", SystemClock())
    client = talk(stored_jobs(place), Access(ring))
    assert (client.get("/v1/jobs")).status_code == 401
    assert (client.get("/openapi.json")).status_code == 401
    assert (client.get("/v2/health/ready")).status_code == 200
    for scope, token in tokens.items():
        headers = {"authorization": f"Bearer {token.reveal()}"}
        reply = client.get("/v1/jobs", headers=headers)
        assert reply.status_code == (200 if scope is Scope.JOBS else 403)
    headers = {"authorization": f"Bearer {tokens[Scope.JOBS].reveal()}"}
    job = (client.post("/v1/jobs", json=wanted(place), headers=headers)).json()["job"]
    reply = client.post(f"/v1/jobs/{job}/cancel", json={}, headers=headers)
    assert reply.json()["failure"]["message"] == f"cancelled by key {tokens[Scope.JOBS].id}"


def test_a_key_reaches_only_the_jobs_of_its_models_and_its_best_priority(
    place: Place, tmp_path: Path
) -> None:
    tokens = [Token.new(), Token.new()]
    for token, models in zip(tokens, ("double", "other"), strict=True):
        key = Key(
            id=token.id,
            secret_sha256=token.secret_sha256,
            scopes=(Scope.JOBS,),
            tenant="a",
            models=(models,),
            best_priority=2,
            created_at=datetime.now(UTC),
        )
        add_key(tmp_path / "keys.json", key)
    client = talk(stored_jobs(place), Access(Keyring(tmp_path / "keys.json", SystemClock())))
    own, foreign = ({"authorization": f"Bearer {token.reveal()}"} for token in tokens)
    asked = wanted(place, priority=1)
    assert client.post("/v1/jobs", json=asked, headers=foreign).status_code == 403
    job = client.post("/v1/jobs", json=asked, headers=own).json()["job"]
    assert record_of(place, job).spec().wishes.priority == 2
    assert client.get("/v1/jobs", headers=own).json()["known"] == 1
    assert client.get("/v1/jobs", headers=foreign).json() == {"jobs": [], "known": 0}
    for method, path in (
        ("GET", ""),
        ("GET", "/dead-letters"),
        ("POST", "/cancel"),
        ("POST", "/resume"),
    ):
        reply = client.request(method, f"/v1/jobs/{job}{path}", json={}, headers=foreign)
        assert (reply.status_code, reply.json()["code"]) == (403, "forbidden")
    assert client.get(f"/v1/jobs/{job}", headers=own).json()["state"] == "submitted"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "can be reached from outside"),
        (["--host", "0.0.0.0", "--keys-file", "keys.json"], "can be reached from outside"),
        (["--host", "example.com"], "is no address"),
        (["--keys-file", "no-such-file"], "there is no such file"),
    ],
)
def test_a_service_that_anybody_could_use_does_not_start(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["jobs", "serve", "--store", str(tmp_path / "store"), *options]) == 2
    assert message in capsys.readouterr().err


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
