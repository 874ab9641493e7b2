"""Calling S3: one client from the standard environment, and one way to repeat and to fail."""

import random
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.loaders import Loader

from tidegate.clock.system import SystemClock, sleep_ns
from tidegate.objects.port import StoreUnavailableError
from tidegate.objects.s3_errors import code_of, explain, is_passing
from tidegate.units import NS_PER_MS, NS_PER_SECOND

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_Reply = TypeVar("_Reply")

_CONNECT_TIMEOUT_S: Final = 3
"""Three tries then end after about 10 s: longer nobody wants to wait for a wrong address."""
_CONNECTIONS: Final = 32
"""Kept open at most; more threads than this still work, each on a connection of its own."""
_API_MODELS: Final = Loader()
"""Reading botocore's description of S3 is most of what a client costs: 110 ms of 118."""
_FIRST_PAUSE_NS: Final = 50 * NS_PER_MS
_LONGEST_PAUSE_NS: Final = 5 * NS_PER_SECOND


def connect(url: str, *, read_timeout_s: int) -> "S3Client":
    """Build a client from the standard AWS environment and configuration files.

    A custom endpoint is addressed by path (``host/bucket/key``): hardly any answers to
    ``bucket.host``. botocore makes up to three tries of its own (``AWS_MAX_ATTEMPTS``).

    Args:
        url: The store's, for the error.
        read_timeout_s: How long the server may be silent.

    Raises:
        StoreUnavailableError: The configuration names a profile or an endpoint that cannot be.
    """
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=read_timeout_s,
        max_pool_connections=_CONNECTIONS,
        retries={"mode": "standard"},
    )
    try:
        core = botocore.session.get_session()
        core.register_component("data_loader", _API_MODELS)
        session = boto3.session.Session(botocore_session=core)
        client = session.client("s3", config=config)
        if _is_amazon(client.meta.endpoint_url):
            return client
        client.close()
        return session.client("s3", config=config.merge(Config(s3={"addressing_style": "path"})))
    except (BotoCoreError, ValueError) as error:  # ValueError: "Invalid endpoint"
        raise StoreUnavailableError(
            f"{url}: the AWS configuration cannot be used: {error}. Check AWS_PROFILE, "
            "AWS_ENDPOINT_URL, AWS_REGION and the files under ~/.aws."
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """How one store is asked: how long requests are repeated, and what to call it in errors."""

    url: str
    endpoint: str
    patience_ns: int
    """After this no new try is made; whoever has a longer deadline of its own calls again."""

    def ask(self, call: Callable[[], _Reply], *, key: str = "") -> _Reply:
        """Make a request.

        Raises:
            StoreUnavailableError: It failed, in words for a person.
        """
        with self._explaining(key):
            return self._repeat(call)

    def ask_unless(
        self, call: Callable[[], _Reply], *, key: str = "", unless: Collection[str]
    ) -> _Reply | None:
        """Make a request to which an error code in ``unless`` is an expected answer: ``None``."""
        with self._explaining(key):
            try:
                return self._repeat(call)
            except ClientError as error:
                if code_of(error) in unless:
                    return None
                raise

    def _repeat(self, call: Callable[[], _Reply]) -> _Reply:
        """Repeat what may pass, with pauses that double and are random, so that clients part."""
        give_up_at_ns = SystemClock().now_ns() + self.patience_ns
        pause_ns = _FIRST_PAUSE_NS
        while True:
            try:
                return call()
            except (ClientError, BotoCoreError) as error:
                if not is_passing(error) or SystemClock().now_ns() >= give_up_at_ns:
                    raise
            sleep_ns(random.randrange(pause_ns))
            pause_ns = min(2 * pause_ns, _LONGEST_PAUSE_NS)

    @contextmanager
    def _explaining(self, key: str) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            raise explain(error, url=self.url, endpoint=self.endpoint, key=key) from error


def _is_amazon(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws"))
