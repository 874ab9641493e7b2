"""``Client`` and ``AsyncClient``: the same calls, with and without ``await``."""

import random
import secrets
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from tidegate.client.answers import ModelMetadata, Prediction
from tidegate.client.calling import AsyncCaller, Caller, Retries
from tidegate.client.calls import Arrays, Calls, Columns, Instances, Rows
from tidegate.client.checks import check_address, check_count
from tidegate.client.http import AsyncPoolTransport, PoolTransport
from tidegate.client.questions import Version, Wishes
from tidegate.client.retrying import RetryPolicy
from tidegate.clock.system import SystemClock, sleep_ns

_TIMEOUT_MS: Final = 30_000.0
_CONNECTIONS: Final = 100
"""Open at once; a gateway takes 512 from one address."""
_TRIES: Final = 3
_ID_BYTES: Final = 8


class Client:
    """Asks one gateway, from any number of threads at once; keeps its connections open.

    Do not carry one over a fork: make a new one in each process.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout_ms: float = _TIMEOUT_MS,
        tries: int = _TRIES,
        connections: int = _CONNECTIONS,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            url: The public listener: ``http://127.0.0.1:8000``.
            key: As ``tidegate keys create`` printed it.
            timeout_ms: For each call without a deadline of its own, all its tries together.
            tries: How often one call is sent at most; 1 never tries again.
            connections: How many there are at most; a call that finds none free waits for one.
            ssl_context: For https; without it whom this system trusts.

        Raises:
            BadRequestError: One of these cannot be meant.
        """
        self._calls = Calls.of(key, timeout_ms)
        retries = _retries(tries)
        self._transport = PoolTransport(
            check_address(url),
            connections=check_count("connections", connections),
            ssl_context=ssl_context,
            clock=retries.clock,
        )
        self._caller = Caller(self._transport, retries, sleep_ns=sleep_ns)

    def predict(  # noqa: PLR0913 - each is an option of its own, and named at every call
        self,
        model: str,
        *,
        columns: Columns | None = None,
        instances: Instances | None = None,
        arrays: Arrays | None = None,
        version: Version | None = None,
        deadline_ms: float | None = None,
        priority: int | None = None,
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Prediction:
        """Ask a model, by exactly one of columns, instances and arrays.

        Args:
            model: Its name.
            columns: ``{"age": [31, 52]}``: one value per row in each.
            instances: ``[{"age": 31}, {"age": 52}]``: rows as objects, lists or bare values.
            arrays: ``{"input": x}``: the model's tensors, ``(rows, …)`` each; sent as bytes.
            version: A number or an alias; without it the gateway chooses.
            deadline_ms: When the answer is no use any more, all tries together. The gateway is
                told, and refuses at once what it cannot do by then.
            priority: 1 highest, 2 normal, 3 bulk.
            request_id: Names the request in the gateway's log; made here if not given.
            headers: Further ones, such as ``traceparent``.

        Raises:
            ClientError: There is no answer; the class says whose fault that is.
        """
        rows = Rows(columns=columns, instances=instances, arrays=arrays)
        wishes = Wishes(
            version=version,
            deadline_ms=deadline_ms,
            priority=priority,
            request_id=_new_id() if request_id is None else request_id,
            headers=headers or {},
        )
        return self._caller.call(self._calls.predict(model, rows, wishes))

    def metadata(self, model: str, *, version: Version | None = None) -> ModelMetadata:
        """Return what a model reads, answers and promises; raises as ``predict`` does."""
        return self._caller.call(self._calls.metadata(model, version))

    def models(self) -> list[str]:
        """Return the names of what is served; raises as ``predict`` does."""
        return self._caller.call(self._calls.models())

    def ready(self, model: str | None = None) -> bool:
        """Say whether work is taken, at all or by one model; raises where nobody answers."""
        return self._caller.call(self._calls.ready(model))

    def close(self) -> None:
        """Close the connections; calls in progress fail."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient:
    """Asks one gateway from the tasks of one asyncio loop; otherwise as ``Client``.

    Cancelling a call closes its connection: what still waits at the gateway is not executed.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout_ms: float = _TIMEOUT_MS,
        tries: int = _TRIES,
        connections: int = _CONNECTIONS,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet; takes and raises what ``Client`` does."""
        self._calls = Calls.of(key, timeout_ms)
        self._transport = AsyncPoolTransport(
            check_address(url),
            connections=check_count("connections", connections),
            ssl_context=ssl_context,
        )
        self._caller = AsyncCaller(self._transport, _retries(tries))

    async def predict(  # noqa: PLR0913 - as Client.predict
        self,
        model: str,
        *,
        columns: Columns | None = None,
        instances: Instances | None = None,
        arrays: Arrays | None = None,
        version: Version | None = None,
        deadline_ms: float | None = None,
        priority: int | None = None,
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Prediction:
        """Ask a model; takes and raises what ``Client.predict`` does."""
        rows = Rows(columns=columns, instances=instances, arrays=arrays)
        wishes = Wishes(
            version=version,
            deadline_ms=deadline_ms,
            priority=priority,
            request_id=_new_id() if request_id is None else request_id,
            headers=headers or {},
        )
        return await self._caller.call(self._calls.predict(model, rows, wishes))

    async def metadata(self, model: str, *, version: Version | None = None) -> ModelMetadata:
        """Return what a model reads, answers and promises; raises as ``predict`` does."""
        return await self._caller.call(self._calls.metadata(model, version))

    async def models(self) -> list[str]:
        """Return the names of what is served; raises as ``predict`` does."""
        return await self._caller.call(self._calls.models())

    async def ready(self, model: str | None = None) -> bool:
        """Say whether work is taken, at all or by one model; raises where nobody answers."""
        return await self._caller.call(self._calls.ready(model))

    async def close(self) -> None:
        """Close the connections; calls in progress fail."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _new_id() -> str:
    return secrets.token_hex(_ID_BYTES)


def _retries(tries: int) -> Retries:
    policy = RetryPolicy(tries=check_count("tries", tries))
    return Retries(policy=policy, clock=SystemClock(), draw=random.random)
