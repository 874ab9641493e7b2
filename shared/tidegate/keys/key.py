"""One key: what its holder says, what is stored of it, and whether the two belong together.

A holder says ``tg_<id>_<secret>``. Stored is the SHA-256 of the secret and never the secret: it
has 256 random bits, so that no slower hash would protect it better.
"""

import hashlib
import hmac
import re
import secrets
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, NamedTuple, Self

import msgspec

_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32
_TOKEN: Final = re.compile(r"tg_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")
_NOBODYS_DIGEST: Final = "0" * 64
"""Compared for an id that nobody has, so that the answer takes as long as for one that is there."""

KeyId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{12}\Z")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
Tenant = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._-]{1,64}\Z")]
ModelPattern = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}\Z")]


class Scope(StrEnum):
    """What a key is good for; none of them includes another."""

    PREDICT = "predict"
    ADMIN = "admin"
    JOBS = "jobs"


class Quota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a tenant may ask for with a key."""

    rows_per_second: Annotated[float, msgspec.Meta(ge=1e-3, le=1e6)]
    """On average. More than a gateway answers, and no less than a row in a quarter of an hour."""
    burst_rows: Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]
    """At once, after a while without any."""


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the file says of one key."""

    id: KeyId
    """12 hex digits; public, and what logs may name."""
    secret_sha256: Sha256
    """64 hex digits."""
    scopes: tuple[Scope, ...]
    tenant: Tenant
    """Whom its requests are counted for."""
    models: tuple[ModelPattern, ...] | None = None
    """The only models that it may be used for; ``None``: all."""
    best_priority: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1
    """The best class that it may ask for: 1 highest, 2 normal, 3 bulk."""
    quota: Quota | None = None
    """For all requests of the tenant together; ``None``: any number of rows."""
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """From this instant on it opens nothing; ``None``: never."""

    def is_expired(self, now: datetime) -> bool:
        """Say whether its time is over."""
        return self.expires_at is not None and now >= self.expires_at


class Token(NamedTuple):
    """What its holder says; it is shown once and kept nowhere."""

    id: str
    secret: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read ``tg_<id>_<secret>``; ``None`` for anything else."""
        found = _TOKEN.fullmatch(text)
        return cls(found["id"], found["secret"]) if found else None

    @classmethod
    def new(cls) -> Self:
        """Make one that nobody can guess."""
        return cls(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))

    @property
    def secret_sha256(self) -> str:
        """What is stored of it, in hex."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def opens(self, key: Key | None) -> bool:
        """Compare with what is stored; ``None`` takes as long and is never right."""
        stored = _NOBODYS_DIGEST if key is None else key.secret_sha256
        return hmac.compare_digest(self.secret_sha256, stored) and key is not None

    def reveal(self) -> str:
        """Write it out, for its holder alone."""
        return f"tg_{self.id}_{self.secret}"

    def __repr__(self) -> str:
        """Name it without its secret: this is what a log or a trace would show."""
        return f"Token(id={self.id!r})"
