"""Names of things, and the only patterns they may have.

Whatever a client, a manifest or a command line calls a model, version or alias is matched here
before any path is built from it, so that no name can ever lead out of the store.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final, NewType, Self

ModelName = NewType("ModelName", str)
Alias = NewType("Alias", str)
Version = NewType("Version", int)
"""A model's version: an integer above 0, of at most nine digits. Published once, never changed."""
Digest = NewType("Digest", str)
"""``sha256:`` and 64 hex digits; of a version: the digest of the bytes of its manifest.json."""

_MODEL_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_ALIAS: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")
DEFAULT_ALIAS: Final = Alias("stable")


class InvalidIdError(ValueError):
    """A name that does not fit its pattern; the message says which pattern."""


def parse_model_name(text: str) -> ModelName:
    """Check a model's name.

    Raises:
        InvalidIdError: It does not match ``[a-z0-9][a-z0-9._-]{0,63}``.
    """
    if not _MODEL_NAME.fullmatch(text):
        raise InvalidIdError(
            f"{text[:80]!r} is no model name: it must start with a lower-case letter or a digit, "
            "go on with these or '.', '_', '-', and have at most 64 characters."
        )
    return ModelName(text)


def parse_alias(text: str) -> Alias:
    """Check an alias.

    Raises:
        InvalidIdError: It does not match ``[a-z][a-z0-9_-]{0,31}``.
    """
    if not _ALIAS.fullmatch(text):
        raise InvalidIdError(
            f"{text[:80]!r} is no alias: it must start with a lower-case letter, go on with "
            "letters, digits, '_' or '-', and have at most 32 characters."
        )
    return Alias(text)


def parse_version(text: str) -> Version:
    """Check a version number.

    Raises:
        InvalidIdError: It is not an integer above 0 without leading zero, or is too long.
    """
    if not _VERSION.fullmatch(text):
        raise InvalidIdError(
            f"{text[:80]!r} is no version: it must be an integer above 0, without leading zero "
            "and with at most 9 digits."
        )
    return Version(int(text))


@dataclass(frozen=True, slots=True)
class ModelRef:
    """What a person writes to name a model: ``risk``, ``risk@stable`` or ``risk@7``."""

    name: ModelName
    at: Version | Alias
    """A pinned version, or an alias that is looked up when the reference is resolved."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a reference; without ``@`` the alias ``stable`` is meant.

        ``ModelRef.parse(str(ref)) == ref`` for every reference.

        Raises:
            InvalidIdError: The name, alias or version does not fit its pattern.
        """
        name, sign, at = text.partition("@")
        if not sign:
            return cls(parse_model_name(name), DEFAULT_ALIAS)
        if at[:1].isdigit():
            return cls(parse_model_name(name), parse_version(at))
        return cls(parse_model_name(name), parse_alias(at))

    def __str__(self) -> str:
        return f"{self.name}@{self.at}"


@dataclass(frozen=True, slots=True)
class ModelTag:
    """Which model made a prediction; it travels with every one."""

    name: ModelName
    version: Version
    digest: Digest

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def short_digest(self) -> str:
        """Enough of the digest for people to compare: ``sha256:`` and 12 hex digits."""
        return self.digest[:19]


def digest_of(content: bytes) -> Digest:
    """Name these bytes by their SHA-256."""
    return Digest(f"sha256:{hashlib.sha256(content).hexdigest()}")
