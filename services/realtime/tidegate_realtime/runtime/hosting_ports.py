"""The ports of ``ModelHost``: where versions come from, and what callers find."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tidegate.ids import ModelName, ModelRef, Version
from tidegate.units import Nanoseconds
from tidegate_realtime.core.asked import Pointed
from tidegate_realtime.core.lifecycle_commands import Show


class Fetched(Protocol):
    """The files of one version, on this machine and sound."""

    @property
    def size_bytes(self) -> int:
        """Of all of them."""
        ...


class Hosted(Protocol):
    """A version in memory."""

    @property
    def used_at_ns(self) -> Nanoseconds:
        """When a request last asked it, or when it was loaded."""
        ...


FilesT = TypeVar("FilesT", bound=Fetched)
HostedT = TypeVar("HostedT", bound=Hosted)
_Shown_contra = TypeVar("_Shown_contra", contravariant=True)


class VersionSource(Protocol[FilesT, HostedT]):
    """The port to where versions come from; each call may take long and never blocks the loop.

    A step fails with any exception, and then leaves nothing behind.
    """

    async def pointed(self, name: ModelName) -> Pointed:
        """Read where the aliases of a model point; none for a model that does not exist."""
        ...

    async def resolve(self, ref: ModelRef) -> Pointed:
        """Read them, and raise ``ModelNotFoundError`` if a reference names nothing now."""
        ...

    async def fetch(self, name: ModelName, version: Version) -> FilesT:
        """Bring a version's files to this machine and check every digest."""
        ...

    async def load(self, files: FilesT) -> HostedT:
        """Bring it into memory."""
        ...

    async def warm_up(self, hosted: HostedT) -> None:
        """Pay every first-use cost, and refuse what cannot keep its objective.

        Cancelled if nobody wants it any more; ``close`` follows.
        """
        ...

    async def close(self, hosted: HostedT) -> None:
        """Wait until nothing is bound to it, then release its threads and memory."""
        ...


class Shelf(Protocol[_Shown_contra]):
    """The port to what callers find; called on the loop, and in force when it returns."""

    def show(self, show: Show, hosted: Sequence[_Shown_contra]) -> None:
        """Let callers find just this of one model.

        Args:
            show: What is to be seen.
            hosted: The ready copies, in the order of ``show.copies``.
        """
        ...
