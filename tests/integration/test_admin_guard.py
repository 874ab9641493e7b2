"""What a page of another site can make a browser send, and what an operator's key is asked for."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from tidegate.clock.system import SystemClock
from tidegate.keys.access import ANYBODY, Access, Principal
from tidegate.keys.file import add_key
from tidegate.keys.key import Key, Token
from tidegate.keys.key import Scope as KeyScope
from tidegate.keys.ring import Keyring
from tidegate_realtime.api.admin.guard import PRINCIPAL, AdminGuard
from tidegate_realtime.api.admin.scopes import ADMIN_SCOPES, check_admin_scopes
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.routing import Action
from tidegate_realtime.api.scopes import SCOPES, check_scopes

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
READING = METHODS[:3]
URL = "http://127.0.0.1:8002"
JSON = {"content-type": "application/json"}


class Behind:
    """The application behind the guard: it notes who got through."""

    def __init__(self) -> None:
        self.reached: list[Principal] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reached.append(scope["state"][PRINCIPAL])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def ask(
    method: str,
    headers: Iterable[tuple[str, str]],
    *,
    path: str = "/admin/v1/models",
    policy: Policy | None = None,
) -> tuple[int, str, list[Principal]]:
    """Return status, code and who got through."""
    behind = Behind()
    transport = httpx.ASGITransport(AdminGuard(behind, policy or Policy()))
    async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
        reply = await client.request(method, path, headers=[*headers])
    assert bool(behind.reached) == (reply.status_code == 200)
    if method == "HEAD" or behind.reached:
        return reply.status_code, "", behind.reached
    assert reply.headers["content-type"] == "application/json"
    return reply.status_code, reply.json()["code"], []


@pytest.mark.field_fault("P-24")
@pytest.mark.parametrize("method", METHODS)
async def test_an_operator_on_this_machine_gets_through(method: str) -> None:
    for host in ("127.0.0.1:8002", "localhost:8002", "LOCALHOST", "[::1]:8002"):
        own = [("host", host), *JSON.items()]
        assert await ask(method, own) == (200, "", [ANYBODY])
        page = [*own, ("origin", f"http://{host}"), ("sec-fetch-site", "same-origin")]
        assert await ask(method, page) == (200, "", [ANYBODY])


@pytest.mark.field_fault("P-23", "P-24", "P-36")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1:8002@evil.example",
        "127.0.0.1:8002/x",
        "127.0.0.1:port",
        "127.0.0.1:123456",
        "localhost.",
        "0.0.0.0",
        "",
        "[::1",
        "127.0.0.1, evil.example",
    ],
)
async def test_a_foreign_name_is_refused_whatever_the_method(method: str, host: str) -> None:
    status, code, _ = await ask(method, [("host", host), *JSON.items()])
    assert (status, code) == (400, "host_not_allowed" if method != "HEAD" else "")


async def test_two_hosts_are_none() -> None:
    hosts = [("host", "127.0.0.1"), ("host", "127.0.0.1")]
    assert await ask("GET", hosts) == (400, "host_not_allowed", [])


async def test_a_name_of_a_tunnel_can_be_allowed() -> None:
    policy = Policy(admin_hosts=frozenset({"ops.example"}))
    assert (await ask("GET", [("host", "Ops.Example:443")], policy=policy))[0] == 200
    assert (await ask("GET", [("host", "other.example")], policy=policy))[0] == 400
    own = [("host", "ops.example"), ("origin", "https://ops.example"), *JSON.items()]
    assert (await ask("POST", own, policy=policy))[0] == 200


@pytest.mark.field_fault("P-23", "P-24", "P-39")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "sent",
    [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:9000"),
        ("origin", "http://127.0.0.1:8002.evil.example"),
        ("origin", "http://127.0.0.1:8002, http://evil.example"),
        ("origin", ""),
        ("sec-fetch-site", "cross-site"),
    ],
)
async def test_a_page_of_another_site_is_refused_whatever_the_method(
    method: str, sent: tuple[str, str]
) -> None:
    status, code, _ = await ask(method, [*JSON.items(), sent])
    assert (status, code) == (403, "cross_site" if method != "HEAD" else "")


@pytest.mark.field_fault("P-24", "P-39")
@pytest.mark.parametrize("method", METHODS[3:])
@pytest.mark.parametrize(
    "kind",
    [
        None,
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "application/octet-stream",
        "",
    ],
)
async def test_a_change_without_json_changes_nothing(method: str, kind: str | None) -> None:
    headers = [] if kind is None else [("content-type", kind)]
    assert await ask(method, headers) == (403, "cross_site", [])


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8"])
async def test_a_change_with_json_gets_through_but_not_from_the_next_port(kind: str) -> None:
    headers = [("content-type", kind)]
    assert (await ask("POST", headers))[0] == 200
    assert (await ask("POST", [*headers, ("sec-fetch-site", "same-site")]))[0] == 403
    assert (await ask("GET", [("sec-fetch-site", "same-site")]))[0] == 200


async def test_clients_of_triton_may_load_models_and_pages_may_not() -> None:
    path = "/v2/repository/models/risk/load"
    for headers in ([], [("content-type", "application/octet-stream")]):
        assert (await ask("POST", headers, path=path))[0] == 200
        page = [*headers, ("origin", URL)]
        assert (await ask("POST", page, path=path))[0] == 403
    assert (await ask("POST", [("content-type", "text/plain")], path=path))[0] == 403


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Policy, dict[KeyScope, str]]:
    """A policy that asks for keys, and a header for each scope."""
    file, shown = tmp_path / "keys.json", {}
    for scope in KeyScope:
        token = Token.new()
        key = Key(
            id=token.id,
            secret_sha256=token.secret_sha256,
            scopes=(scope,),
            tenant=f"{scope}-team",
            created_at=datetime(2026, 12, 1, tzinfo=UTC),
        )
        add_key(file, key)
        shown[scope] = f"Bearer {token.reveal()}"
    return Policy(access=Access(Keyring(file, SystemClock()))), shown


@pytest.mark.field_fault("P-19", "P-21")
async def test_every_route_asks_for_an_operators_key_or_is_open(
    keys: tuple[Policy, dict[KeyScope, str]],
) -> None:
    policy, shown = keys
    routes = {path.replace("{ref}", "risk"): scope for path, scope in ADMIN_SCOPES.items()}
    others = ("/metrics/", "//metrics", "/Metrics", "/%256detrics", "/admin/v1/none", "/")
    for path, scope in {**routes, **dict.fromkeys(others, KeyScope.ADMIN)}.items():
        without, *statuses = [
            (await ask("GET", headers, path=path, policy=policy))[0]
            for headers in ([], *([("authorization", header)] for header in shown.values()))
        ]
        expected = [200] * 3 if scope is None else [403, 200, 403]
        assert (without, statuses) == (200 if scope is None else 401, expected), path


async def test_who_asked_is_known_behind_the_guard(
    keys: tuple[Policy, dict[KeyScope, str]],
) -> None:
    policy, shown = keys
    headers = [("authorization", shown[KeyScope.ADMIN]), *JSON.items()]
    _, _, (principal,) = await ask("POST", headers, policy=policy)
    assert principal.tenant == "admin-team"


@pytest.mark.parametrize("name", ["Authorization", "X-Request-Id", "Tidegate-Deadline-Ms"])
async def test_what_stands_for_one_value_is_taken_once_as_callers_are_told(
    keys: tuple[Policy, dict[KeyScope, str]], name: str
) -> None:
    policy, shown = keys
    sound = shown[KeyScope.ADMIN]
    twice = [("authorization", sound), (name, sound), (name.lower(), sound)]
    assert await ask("GET", twice, policy=policy) == (400, "malformed_request", [])
    assert await ask("GET", twice, path="/metrics", policy=policy) == (400, "malformed_request", [])


def test_a_route_without_a_row_stops_the_start() -> None:
    check_scopes()
    assert set(SCOPES) == set(Action)
    with pytest.raises(LookupError, match="infer"):
        check_scopes({action: None for action in Action if action is not Action.INFER})
    with pytest.raises(LookupError, match="/admin/v1/new"):
        check_admin_scopes(["/metrics", "/admin/v1/new"])
