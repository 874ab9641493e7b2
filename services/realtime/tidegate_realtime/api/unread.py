"""Columns that callers send and the model does not read: ignored, and said once in the log.

They are welcome, since people send whole records. But one that is new may be a misspelt one, whose
default then answers in its stead; so each is named once, and never again.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tidegate.observability import get_logger

_log: Final = get_logger(__name__)
MOST_NAMES: Final = 32
"""Names come from callers: as many as a person would look at, then none."""


class UnreadColumns:
    """Remembers which ignored columns of one model version were named already."""

    def __init__(self) -> None:
        self.named: set[str] = set()

    def notice(self, instances: Sequence[object], columns: Sequence[str], *, model: str) -> None:
        """Name what the first instance has beyond ``columns`` and was not named before."""
        first = instances[0]
        unread = first.keys() - self.named if isinstance(first, Mapping) else set()
        unread.difference_update(columns)
        new = sorted(unread)[: MOST_NAMES - len(self.named)]
        if new:
            self.named.update(new)
            _log.info("columns_ignored", model=model, columns=[f"{name:.64}" for name in new])
