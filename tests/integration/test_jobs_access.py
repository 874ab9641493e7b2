"""Who may ask ``/v1/jobs`` for what: keys, models, places and hosts."""

import itertools
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.fixtures import onnx_models
from tests.fixtures.batch_jobs import Place, new_place, publish_as
from tests.fixtures.jobs_api import record_of, shown, stored_jobs, talk, wanted
from tidegate.cli import run
from tidegate.clock.system import SystemClock
from tidegate.keys.access import Access
from tidegate.keys.file import add_key
from tidegate.keys.key import Key, Scope, Token
from tidegate.keys.ring import Keyring
from tidegate_batch.core.names import job_id_of_token

ROWS = 40


@pytest.fixture(autouse=True)
def cache_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, ROWS, row_group_rows=10)


def test_a_page_of_another_site_is_not_obeyed(place: Place) -> None:
    client, asked = talk(stored_jobs(place)), wanted(place)
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


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("https://hooks.example.com/x", 201),
        ("https://HOOKS.example.com:8443/x", 201),
        ("http://127.0.0.1:9000/x", 201),
        ("http://127.0.0.1:8265/api/jobs/", 400),
        ("http://127.0.0.1/x", 400),
        ("http://169.254.169.254/latest/meta-data", 400),
        ("https://hooks.example.com.evil.example/x", 400),
        ("https://evil.example/?hooks.example.com", 400),
        ("https://evil.example#@hooks.example.com", 400),
        ("https://hooks.example.com\\.evil.example/x", 400),
    ],
)
def test_jobs_may_only_tell_hosts_that_are_allowed(
    place: Place, monkeypatch: pytest.MonkeyPatch, url: str, status: int
) -> None:
    monkeypatch.setenv("TIDEGATE_WEBHOOK_SECRET", "hush")
    monkeypatch.setenv("TIDEGATE_BATCH__NOTIFY_HOSTS", '["Hooks.example.com", "127.0.0.1:9000"]')
    reply = talk(stored_jobs(place)).post("/v1/jobs", json=wanted(place, notify=url))
    assert reply.status_code == status, reply.text


def test_where_keys_are_asked_for_nobody_is_told_whom_no_setting_allows(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_WEBHOOK_SECRET", "hush")
    file = tmp_path / "keys.json"
    headers, asked = shown(file, tenant="a"), wanted(place, notify="http://127.0.0.1:8265/")
    guarded = talk(stored_jobs(place), Access(Keyring(file, SystemClock())))
    refused = guarded.post("/v1/jobs", json=asked, headers=headers)
    assert refused.status_code == 400
    assert "batch.notify_hosts" in refused.json()["error"]
    assert talk(stored_jobs(place)).post("/v1/jobs", json=asked).status_code == 201


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
    file = tmp_path / "keys.json"
    own, foreign = (shown(file, tenant="a", model=model) for model in ("double", "other"))
    client = talk(stored_jobs(place), Access(Keyring(file, SystemClock())))
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


ROUTES = (("GET", ""), ("GET", "/dead-letters"), ("POST", "/cancel"), ("POST", "/resume"))


def test_jobs_of_another_tenant_are_as_if_they_were_not_there(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    own, also_own, foreign = (shown(file, tenant=tenant) for tenant in ("a", "a", "b"))
    client = talk(stored_jobs(place), Access(Keyring(file, SystemClock())))
    job = client.post("/v1/jobs", json=wanted(place), headers=own).json()["job"]
    assert record_of(place, job).spec().tenant == "a"
    nobodys = talk(stored_jobs(place)).post("/v1/jobs", json=wanted(place)).json()["job"]
    for (method, path), hidden in itertools.product(ROUTES, (job, nobodys)):
        reply = client.request(method, f"/v1/jobs/{hidden}{path}", json={}, headers=foreign)
        missing = f"/v1/jobs/0123456789abcdef{path}"
        unknown = client.request(method, missing, json={}, headers=foreign)
        assert (reply.status_code, reply.json()["code"]) == (404, "job_not_found")
        assert reply.json()["error"].replace(hidden, "X") == unknown.json()["error"].replace(
            "0123456789abcdef", "X"
        )
    assert client.get("/v1/jobs", headers=foreign).json() == {"jobs": [], "known": 0}
    for headers in (own, also_own):
        assert client.get(f"/v1/jobs/{job}", headers=headers).json()["state"] == "submitted"
        assert client.get("/v1/jobs", headers=headers).json()["known"] == 1
    assert talk(stored_jobs(place)).get("/v1/jobs").json()["known"] == 2, "nobody has a key"


def test_each_tenant_has_client_tokens_of_its_own(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = [shown(file, tenant=tenant) for tenant in ("a", "b")]
    client = talk(stored_jobs(place), Access(Keyring(file, SystemClock())))
    jobs = set()
    for headers, rows in zip(keys, (10, 20), strict=True):
        asked = wanted(place, client_token="nightly", chunk_rows=rows)
        first, again = (client.post("/v1/jobs", json=asked, headers=headers) for _ in range(2))
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["job"] == again.json()["job"]
        jobs.add(first.json()["job"])
    assert len(jobs | {job_id_of_token("nightly")}) == 3


def test_a_token_of_a_model_that_the_key_is_not_for_tells_nothing_of_its_job(
    place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "keys.json"
    own, narrow = shown(file, tenant="a"), shown(file, tenant="a", model="triple")
    publish_as("triple", place.store, onnx_models.scale(tmp_path / "triple.onnx", by=3))
    client = talk(stored_jobs(place), Access(Keyring(file, SystemClock())))
    asked = wanted(place, client_token="nightly")
    assert client.post("/v1/jobs", json=asked, headers=own).status_code == 201
    other = {**asked, "model": "triple@stable", "output": "elsewhere"}
    reply = client.post("/v1/jobs", json=other, headers=narrow)
    assert (reply.status_code, reply.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "can be reached from outside"),
        (["--host", "0.0.0.0", "--keys-file", "keys.json"], "can be reached from outside"),
        (["--host", "0.0.0.0", "--keys-file", "keys.json", "--root", "."], "keys_without_tls"),
        (["--host", "example.com"], "is no address"),
        (["--keys-file", "no-such-file"], "there is no such file"),
    ],
)
def test_a_service_that_anybody_could_use_does_not_start(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["jobs", "serve", "--store", str(tmp_path / "store"), *options]) == 2
    assert message in capsys.readouterr().err
