"""The two limits that the batcher keeps, in rows."""

from dataclasses import dataclass, replace
from typing import Self

from tidegate.errors import SettingError


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large a batch may be and how much may wait for one."""

    cap_rows: int = 32
    """Most rows in one model call, at least 1; a larger request runs in pieces."""
    queue_limit_rows: int = 4_096
    """Most rows waiting, at least ``cap_rows``. The default is the largest request that the
    protocol accepts, so that an idle model can always take one."""

    def __post_init__(self) -> None:
        """Refuse limits under which no batch could ever be full."""
        if not 1 <= self.cap_rows <= self.queue_limit_rows:
            raise SettingError(
                f"cap_rows={self.cap_rows}, queue_limit_rows={self.queue_limit_rows}: the cap must "
                "be at least 1 and the queue must have room for one full batch."
            )

    def lowered_to(self, fixed_rows: int | None) -> Self:
        """Keep the cap within what a backend takes; ``None``: it takes any number of rows."""
        if fixed_rows is None:
            return self
        return replace(self, cap_rows=min(self.cap_rows, fixed_rows))
