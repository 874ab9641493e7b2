"""What a load generator measures, and what it says when it cannot."""

import shutil
from typing import Final

import msgspec

_US_PER_S: Final = 1e6
_US_PER_MS: Final = 1e3
_PACKAGES: Final = {"wrk": "wrk", "h2load": "nghttp2-client"}


class LoadError(RuntimeError):
    """A load generator is absent or failed; the message says what to do, or what it wrote."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One run at one number of connections."""

    requests: int
    took_us: int
    p50_us: float
    p99_us: float
    refused: int
    """Replies with another status than 2xx or 3xx."""
    broken: int
    """Connections that failed, or took too long."""

    @property
    def answered_rps(self) -> float:
        """Answers in a second; refusals are none."""
        return (self.requests - self.refused) / self.took_us * _US_PER_S

    @property
    def p50_ms(self) -> float:
        """Median of all replies."""
        return self.p50_us / _US_PER_MS

    @property
    def p99_ms(self) -> float:
        """99th percentile of all replies."""
        return self.p99_us / _US_PER_MS

    @property
    def errors(self) -> int:
        """Whatever was no answer."""
        return self.refused + self.broken


def find(program: str) -> str:
    """Return where a load generator is.

    Raises:
        LoadError: It is not installed.
    """
    path = shutil.which(program)
    if path is None:
        raise LoadError(f"{program} is not here; on Debian: apt install {_PACKAGES[program]}")
    return path
