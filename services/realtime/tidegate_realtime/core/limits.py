"""What the batcher keeps to whatever the objective says, in rows and bytes."""

from dataclasses import dataclass, replace
from typing import Self

from tidegate.errors import SettingError


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How large a batch may be and how much may wait for one."""

    cap_rows: int = 32
    """Most rows in one model call where no latency model derives it, at least 1; a larger request
    runs in pieces."""
    memory_rows: int | None = None
    """Most rows that fit in memory, which the derived cap keeps to; ``None``: any number."""
    queue_limit_rows: int = 4_096
    """Most rows waiting, at least ``cap_rows``. The default is the largest request that the
    protocol accepts, so that an idle model can always take one."""
    queue_limit_bytes: int = 512 * 1024 * 1024
    """Most bytes of inputs waiting. The default is what the process may hold of bodies."""

    def __post_init__(self) -> None:
        """Refuse limits under which no batch could ever be full."""
        if not 1 <= self.cap_rows <= self.queue_limit_rows:
            raise SettingError(
                f"cap_rows={self.cap_rows}, queue_limit_rows={self.queue_limit_rows}: the cap must "
                "be at least 1 and the queue must have room for one full batch."
            )

    def lowered_to(self, fixed_rows: int | None) -> Self:
        """Keep the caps within what a backend takes; ``None``: it takes any number of rows."""
        if fixed_rows is None:
            return self
        return replace(
            self,
            cap_rows=min(self.cap_rows, fixed_rows),
            memory_rows=min(self.memory_rows or fixed_rows, fixed_rows),
        )
