"""What a key changes about a prediction, on virtual time."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from tests.fakes.backends import FakeBackend
from tests.fakes.exchange import FakeExchange
from tests.fakes.loop_clock import LoopClock
from tests.fixtures import edges, onnx_models
from tidegate.clock.system import SystemClock
from tidegate.inference.model import Model
from tidegate.keys.access import Access
from tidegate.keys.file import add_key
from tidegate.keys.key import Key, Quota, Scope, Token
from tidegate.keys.ring import Keyring
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.predicting import Predictor
from tidegate_realtime.api.replies import Reply
from tidegate_realtime.api.routing import match_route
from tidegate_realtime.api.served import State

pytestmark = pytest.mark.looptime

PATH = "/v1/models/echo:predict"


@pytest.fixture
def echo(tmp_path: Path) -> Model:
    return edges.load(onnx_models.echo(tmp_path / "echo.onnx"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def made(
    file: Path, *, best_priority: int = 1, tenant: str = "shop", quota: Quota | None = None
) -> str:
    """Add a key to the file and return the header of its holder."""
    token = Token.new()
    key = Key(
        id=token.id,
        secret_sha256=token.secret_sha256,
        scopes=(Scope.PREDICT,),
        tenant=tenant,
        best_priority=best_priority,
        quota=quota,
        created_at=datetime(2026, 12, 1, tzinfo=UTC),
    )
    add_key(file, key)
    return f"Bearer {token.reveal()}"


@pytest.fixture
def bulk(file: Path) -> str:
    return made(file, best_priority=3)


@pytest.fixture
def access(file: Path, bulk: str) -> Access:
    return Access(Keyring(file, SystemClock()))


def asked(header: str | None, *, priority: int) -> FakeExchange:
    body = orjson.dumps({"instances": [[1, 2]], "parameters": {"priority": priority}})
    headers = {} if header is None else {"authorization": header}
    return FakeExchange("POST", PATH, body, headers=headers, began_at_ns=LoopClock().now_ns())


async def test_a_key_lowers_a_better_priority_and_never_raises_one(
    echo: Model, access: Access, bulk: str
) -> None:
    edge = edges.serve(
        [echo], clock=LoopClock(), backend=lambda model: FakeBackend(0.05, model=model.run)
    )
    driver, route = edge.catalogue.versions[0].driver, match_route(PATH)
    assert route is not None
    async with asyncio.TaskGroup() as tasks:
        for shown, who in ((bulk, access), (None, Access())):
            for priority in (2, 1, 3):  # of the four pairs one runs, and the others wait
                predictor = Predictor(edge.scorer, Policy(access=who))
                tasks.create_task(predictor.answer(asked(shown, priority=priority), route))
        await asyncio.sleep(0.01)
        assert driver.statistics().queue.rows_by_class[:3] == (1, 1, 3)
    await driver.aclose()


async def test_who_shows_no_key_is_refused_before_its_body_is_read(
    echo: Model, access: Access
) -> None:
    edge = edges.serve([echo], clock=LoopClock())
    route = match_route(PATH)
    assert route is not None
    never_whole = FakeExchange.uploading(PATH)
    reply = await Predictor(edge.scorer, Policy(access=access)).answer(never_whole, route)
    assert reply.status == 401
    assert not never_whole.is_uploading
    assert edge.catalogue.versions[0].driver.statistics().arrived == 0
    await edge.catalogue.versions[0].driver.aclose()


@pytest.fixture
def tenants(file: Path) -> tuple[Access, list[str]]:
    """Two keys of a tenant with few rows, and one of another."""
    few = Quota(rows_per_second=10, burst_rows=4)
    headers = [made(file, tenant="lab", quota=few) for _ in range(2)]
    headers.append(made(file, tenant="shop"))
    return Access(Keyring(file, SystemClock())), headers


async def test_a_tenant_beyond_its_rate_is_told_the_exact_time_and_costs_nobody_else_anything(
    echo: Model, tenants: tuple[Access, list[str]]
) -> None:
    access, (lab, again, others) = tenants
    route = match_route(PATH)
    assert route is not None
    edge = edges.serve([echo], clock=LoopClock(), backend=lambda _: FakeBackend(model=echo.run))
    predictor = Predictor(edge.scorer, Policy(access=access))

    async def ask(header: str, rows: int = 1) -> Reply:
        body, headers = orjson.dumps({"instances": [[1, 2]] * rows}), {"authorization": header}
        now_ns = LoopClock().now_ns()
        exchange = FakeExchange("POST", PATH, body, headers=headers, began_at_ns=now_ns)
        return await predictor.answer(exchange, route)

    assert (await ask(lab, rows=6)).status == 200  # two of them in advance
    refused = await ask(again)  # another key of the same tenant
    assert refused.status == 429
    told = orjson.loads(refused.body)
    assert told["code"] == "quota_exceeded"
    assert told["error"] == (
        "The rows of this key's tenant are used up: 10 rows/s, and 4 at once. Ask again after 300 "
        "ms, or less often."
    )
    assert told["details"] == {"rows_per_second": 10, "burst_rows": 4, "retry_after_ms": 300}
    assert ("retry-after", "1") in refused.headers
    assert (await ask(others)).status == 200
    await asyncio.sleep(0.299)
    assert (await ask(lab)).status == 429
    await asyncio.sleep(0.001)
    assert (await ask(lab)).status == 200
    endings = {(str(key.outcome), key.reason): n for key, n in edge.metrics.ended.items()}
    assert endings["rejected", "quota_exceeded"] == 2
    assert edge.catalogue.versions[0].driver.statistics().arrived == 3


async def test_of_requests_that_are_read_together_those_are_refused_for_which_no_row_is_left(
    echo: Model, tenants: tuple[Access, list[str]]
) -> None:
    access, (lab, *_) = tenants
    route = match_route(PATH)
    assert route is not None
    edge = edges.serve([echo], clock=LoopClock(), backend=lambda _: FakeBackend(model=echo.run))
    predictor = Predictor(edge.scorer, Policy(access=access))
    uploads = [FakeExchange.uploading(PATH, began_at_ns=LoopClock().now_ns()) for _ in range(5)]
    async with asyncio.TaskGroup() as tasks:
        for upload in uploads:
            upload.headers["authorization"] = lab
        asked = [tasks.create_task(predictor.answer(each, route)) for each in uploads]
        await asyncio.sleep(0)
        assert all(each.is_uploading for each in uploads)  # a row is left for each of them
        for upload in uploads:
            upload.body.set_result(orjson.dumps({"instances": [[1, 2]] * 6}))
    replies = [task.result() for task in asked]
    assert [reply.status for reply in replies] == [200, 429, 429, 429, 429]
    details = {"rows_per_second": 10, "burst_rows": 4, "retry_after_ms": 300}
    assert orjson.loads(replies[-1].body)["details"] == details
    assert edge.catalogue.versions[0].driver.statistics().arrived == 1


async def test_what_is_refused_for_another_reason_costs_no_row(
    echo: Model, tenants: tuple[Access, list[str]]
) -> None:
    access, (lab, *_) = tenants
    edge = edges.serve([echo], clock=LoopClock(), backend=lambda _: FakeBackend(model=echo.run))
    predictor = Predictor(edge.scorer, Policy(access=access))

    async def ask(path: str = PATH, body: bytes = b'{"instances": [[1, 2]]}') -> int:
        route = match_route(path)
        assert route is not None
        headers, now_ns = {"authorization": lab}, LoopClock().now_ns()
        exchange = FakeExchange("POST", path, body, headers=headers, began_at_ns=now_ns)
        return (await predictor.answer(exchange, route)).status

    late = b'{"instances": [[1, 2]], "parameters": {"timeout": "soon"}}'
    for _ in range(9):
        assert await ask("/v1/models/nothing:predict") == 404
        assert await ask(body=b"{broken") == 400
        assert await ask(body=late) == 400
        edge.catalogue.readiness.state = State.STARTING
        assert await ask() == 503
        edge.catalogue.readiness.state = State.READY
    assert [await ask() for _ in range(5)] == [200] * 4 + [429]
