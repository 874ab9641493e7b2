"""Keys on every way in: which of them open what, and what becomes of one that is revoked."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from tests.fixtures.gateways import SERVERS, Gateway, running_gateway

INFER = "/v2/models/echo/infer"
PREDICT = "/v1/models/echo:predict"
BODY = {"instances": [[1, 2, 3]]}


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """A gateway with keys, and the header of each of them."""

    gateway: Gateway
    file: Path
    headers: dict[str, dict[str, str]]

    def statuses(self, method: str, path: str, *, admin: bool = False) -> list[int]:
        """Ask without a key, with a wrong one, and with each of ours, in alphabetical order.

        By hand: a client library would tidy the path up.
        """
        port = self.gateway.admin_port if admin else self.gateway.port
        wrong = {"authorization": "Bearer tg_" + "0" * 12 + "_" + "a" * 43}
        ours = [self.headers[name] for name in sorted(self.headers)]
        return [status(port, method, path, shown) for shown in ({}, wrong, *ours)]

    def wait_for(self, status: int, headers: dict[str, str], *, logged: str = "") -> None:
        """Predict until this is the status and the log has this event.

        The file is looked at once a second, and an answer takes milliseconds.
        """
        for _ in range(2_000):
            reply = httpx.post(self.gateway.url + PREDICT, json=BODY, headers=headers)
            if reply.status_code == status and logged in self.gateway.log.read_text():
                return
        raise AssertionError(f"never {status} {logged}")


def status(port: int, method: str, path: str, headers: dict[str, str]) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in {**headers, "content-length": "0"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    with closing(connection), connection.getresponse() as reply:
        return reply.status


def keys(*arguments: str) -> dict[str, str]:
    command = [sys.executable, "-m", "tidegate", "keys", *arguments, "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    made: dict[str, str] = json.loads(done.stdout)
    return made


@pytest.fixture(scope="module", params=SERVERS)
def guarded(
    http_store: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Guarded]:
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    wanted = {
        "admin": ("--scope", "admin"),
        "jobs": ("--scope", "jobs"),
        "only ids": ("--scope", "predict", "--model", "ids"),
        "predict": ("--scope", "predict", "--model", "echo", "--model", "table"),
    }
    tokens = {
        name: keys("create", "--file", str(file), "--tenant", "t", *arguments)["token"]
        for name, arguments in wanted.items()
    }
    headers = {name: {"authorization": f"Bearer {token}"} for name, token in tokens.items()}
    arguments = ("--server", request.param, "--keys-file", str(file), "--slo-ms", "20000")
    models = ("--model", "echo", "--model", "ids")
    with running_gateway(http_store, *arguments, *models) as gateway:
        yield Guarded(gateway=gateway, file=file, headers=headers)
        log = gateway.log.read_text()
        assert "Traceback" not in log
        assert not any(token.split("_", 2)[2] in log for token in tokens.values())


@pytest.mark.field_fault("P-19", "P-39")
def test_every_public_route_asks_for_a_key_for_its_model_or_is_open(guarded: Guarded) -> None:
    for path in ("/v2", "/v2/health/live", "/v2/health/ready"):
        assert guarded.statuses("GET", path) == [200] * 6
    for path in ("/v2/models/echo", "/v2/models/echo/ready", "/v1/models/echo"):
        assert guarded.statuses("GET", path) == [401, 401, 403, 403, 403, 200]
        assert guarded.statuses("GET", path.replace("echo", "none"))[2:] == [403, 403, 403, 403]
    for path in ("/v1/models", "/v2/models/stats"):
        assert guarded.statuses("GET", path) == [401, 401, 403, 403, 200, 200]
    for path in ("/v2/models/echo/config", "/v2/models/echo/versions/1/stats"):
        assert guarded.statuses("GET", path) == [401, 401, 403, 403, 403, 200]
    for path in (INFER, PREDICT, "/v2/models/echo/versions/1/infer"):
        assert guarded.statuses("POST", path) == [401, 401, 403, 403, 403, 400]
        assert guarded.statuses("GET", path) == [405] * 6


@pytest.mark.field_fault("P-19")
def test_a_list_names_the_models_of_its_key_alone(guarded: Guarded) -> None:
    for key, models in (("only ids", ["ids"]), ("predict", ["echo"])):
        with httpx.Client(base_url=guarded.gateway.url, headers=guarded.headers[key]) as client:
            assert client.get("/v1/models").json() == {"models": models}
            statistics = client.get("/v2/models/stats").json()["model_stats"]
            assert [each["name"] for each in statistics] == models


@pytest.mark.field_fault("P-19")
@pytest.mark.parametrize(
    "path",
    [
        "//v2/models/echo/infer",
        "/v2/models/echo/infer/",
        "/V2/models/echo/infer",
        "/v2/models/%65cho/infer/%2e",
        "/v2/./models/echo/infer",
        "/v2/health/../models/echo/infer",
        "/v2/health/live/../../models/echo/infer",
        "/v2/health/live;/v2/models/echo/infer",
    ],
)
def test_no_other_spelling_is_served_to_anybody(guarded: Guarded, path: str) -> None:
    assert guarded.statuses("POST", path) == [404] * 6


def test_an_encoded_letter_is_the_same_route_with_the_same_check(guarded: Guarded) -> None:
    assert guarded.statuses("POST", "/v2/models/%65cho/infer") == [401, 401, 403, 403, 403, 400]


@pytest.mark.field_fault("P-21")
def test_the_admin_listener_asks_for_an_operators_key(guarded: Guarded) -> None:
    for path in ("/metrics", "/v2/health/live", "/v2/health/ready"):
        assert guarded.statuses("GET", path, admin=True) == [200] * 6
    for path in ("/docs", "/openapi.json"):
        assert guarded.statuses("GET", path, admin=True) == [401, 401, 200, 403, 403, 403]
    explain = "/admin/v1/models/echo/explain?window_s=0.1"
    assert guarded.statuses("GET", explain, admin=True) == [401, 401, 200, 403, 403, 403]
    assert guarded.statuses("GET", "/nowhere", admin=True) == [401, 401, 404, 403, 403, 403]


def test_a_refusal_says_what_is_missing_and_is_counted(guarded: Guarded) -> None:
    refused = {"outcome": "rejected", "reason": "unauthenticated"}
    before = guarded.gateway.metric("tidegate_requests_total", **refused)
    reply = httpx.post(guarded.gateway.url + PREDICT, json=BODY)
    assert (reply.status_code, reply.json()["code"]) == (401, "unauthenticated")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert guarded.gateway.metric("tidegate_requests_total", **refused) == before + 1
    forbidden = httpx.post(
        guarded.gateway.url + PREDICT, json=BODY, headers=guarded.headers["jobs"]
    )
    assert (forbidden.status_code, forbidden.json()["code"]) == (403, "forbidden")
    answered = httpx.post(
        guarded.gateway.url + PREDICT, json=BODY, headers=guarded.headers["predict"]
    )
    assert answered.json()["predictions"] == [[1.0, 2.0, 3.0]]


def test_what_the_guards_refuse_is_counted_on_both_listeners(guarded: Guarded) -> None:
    gateway = guarded.gateway

    def counted(guard: str) -> float:
        return gateway.metric("tidegate_guard_refusals_total", guard=guard)

    before = {guard: counted(guard) for guard in ("unauthenticated", "route_not_found")}
    httpx.get(f"{gateway.url}/v2/models/echo")
    httpx.get(f"{gateway.admin_url}/docs")
    httpx.get(f"{gateway.url}/{'x' * 100}")
    assert counted("unauthenticated") - before["unauthenticated"] == 2
    assert counted("route_not_found") - before["route_not_found"] == 1


def test_a_body_is_not_waited_for_from_who_has_no_key(guarded: Guarded) -> None:
    with guarded.gateway.connect() as connection:
        connection.sendall(
            f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n".encode()
        )
        assert b" 401 " in connection.recv(65_536).partition(b"\r\n")[0]


def test_a_key_works_from_its_creation_to_its_end_without_a_restart(guarded: Guarded) -> None:
    create = ("create", "--file", str(guarded.file), "--tenant", "t", "--scope", "predict")
    made = keys(*create)
    header = {"authorization": f"Bearer {made['token']}"}
    guarded.wait_for(200, header)
    sound = guarded.file.read_bytes()
    guarded.file.write_text("{broken")
    guarded.wait_for(200, header, logged="keys_unreadable")
    guarded.file.write_bytes(sound)
    keys("revoke", made["id"], "--file", str(guarded.file))
    guarded.wait_for(401, header)
    assert guarded.statuses("POST", PREDICT)[-1] == 400


def test_a_tenant_beyond_its_rate_is_told_when_to_come_back_and_no_other_is(
    guarded: Guarded,
) -> None:
    create = ("create", "--file", str(guarded.file), "--tenant", "lab", "--scope", "predict")
    made = keys(*create, "--rate", "0.01")
    header = {"authorization": f"Bearer {made['token']}"}
    url = guarded.gateway.url + PREDICT
    guarded.wait_for(200, header)
    refused = httpx.post(url, json=BODY, headers=header)
    assert (refused.status_code, refused.json()["code"]) == (429, "quota_exceeded")
    assert 90 < int(refused.headers["retry-after"]) <= 100
    assert httpx.post(url, json=BODY, headers=guarded.headers["predict"]).status_code == 200


def test_explain_shows_its_key(guarded: Guarded) -> None:
    url = guarded.gateway.admin_url
    command = [sys.executable, "-m", "tidegate", "explain", url, "echo", "--window-s", "0.1"]
    without = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (without.returncode, "set TIDEGATE_KEY" in without.stderr) == (1, True)
    assert "(code: unauthenticated)" in without.stderr
    key = guarded.headers["admin"]["authorization"].removeprefix("Bearer ")
    told = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={"TIDEGATE_KEY": key}
    )
    assert (told.returncode, "echo@1 over" in told.stdout) == (0, True), told.stderr


@pytest.mark.parametrize("server", SERVERS)
def test_callers_may_use_only_the_names_that_are_allowed(http_store: Path, server: str) -> None:
    variables = {"TIDEGATE_SERVE__HOSTS": '["api.example", "127.0.0.1"]'}
    arguments = ("--server", server, "--model", "echo")
    with running_gateway(http_store, *arguments, environment=variables) as gateway:
        for host, status in (
            ("api.example", 200),
            ("API.example:8000", 200),
            ("evil.example", 400),
            ("api.example.evil", 400),
            ("", 400),
        ):
            reply = httpx.get(f"{gateway.url}/v2/health/live", headers={"host": host})
            assert reply.status_code == status, host
        assert reply.json()["code"] == "host_not_allowed"
        with gateway.connect() as twice:
            named = b"Host: api.example\r\n"
            twice.sendall(b"GET /v2 HTTP/1.1\r\n" + named * 2 + b"Connection: close\r\n\r\n")
            assert b" 400 " in twice.recv(65_536).partition(b"\r\n")[0]
