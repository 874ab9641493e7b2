"""Whom the listeners answer, and how, as the settings say."""

from dataclasses import dataclass, field

from tidegate.keys.access import Access
from tidegate_realtime.runtime.reading import Readers


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The default asks nobody for anything, which is for loopback only."""

    access: Access = field(default_factory=Access)
    """Decides by the key that is shown; REST, gRPC and the admin listener ask the same one."""
    hosts: frozenset[str] = frozenset()
    """In lower case; the only names that the public listener answers to. Empty: any."""
    admin_hosts: frozenset[str] = frozenset()
    """Names that the admin listener answers to besides those of loopback."""
    compresses_replies: bool = False
    """Whether predictions are compressed for callers who offer to unpack them."""
    traces_stages: bool = False
    """Whether each stage of each request is timed, besides adding them up."""
    readers: Readers = field(default_factory=lambda: Readers.of_threads(1))
    """What decodes texts and images."""
