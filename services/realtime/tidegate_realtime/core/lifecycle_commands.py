"""What the lifecycle asks of whoever drives it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.ids import Alias, ModelName, Version
from tidegate.units import Nanoseconds
from tidegate_realtime.core.hosting import Copy


@dataclass(frozen=True, slots=True)
class Fetch:
    """Bring the files of a copy to this machine, and check them."""

    copy: Copy


@dataclass(frozen=True, slots=True)
class Load:
    """There is room: load the copy and warm it up."""

    copy: Copy


@dataclass(frozen=True, slots=True)
class Leave:
    """Let a copy end what is bound to it, then close it; or let go of it when it comes."""

    copy: Copy


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """From now on this is what callers find of one model."""

    name: ModelName
    copies: tuple[Copy, ...] = ()
    """Ready, in the order of their versions."""
    aliases: Mapping[Alias, Version] = field(default_factory=dict)
    preferred: Version | None = None
    """For callers who name no version."""
    coming: frozenset[Version] = frozenset()
    failed: Mapping[Version, str] = field(default_factory=dict)
    """Code of the failure by version."""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Call ``on_tick`` then; ``None``: not before something else happens."""

    at_ns: Nanoseconds | None


Command: TypeAlias = Fetch | Load | Leave | Show | WakeAt
