"""How many rows may fail before the job does: ``--max-bad-rows``."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias

from tidegate.errors import SettingError
from tidegate_batch.core.errors import TooManyBadRowsError
from tidegate_batch.core.wording import counted

DEFAULT_MAX_BAD_ROWS: Final = "1%"
"""A few broken rows in a hundred mean that something is wrong with all of them."""
SHARE_CHECKED_FROM_ROWS: Final = 1000
"""A share of fewer rows says little; at the end of the job it is checked, however few there are."""
_ALL_PERCENT: Final = 100
_LISTED_REASONS: Final = 5
_WRITTEN: Final = re.compile(r"([0-9]{1,18})|([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?%")


@dataclass(frozen=True, slots=True)
class MostRows:
    """So many rows, whatever the input's size."""

    rows: int

    def is_exceeded(self, bad: int, *, seen: int) -> bool:
        """Say whether ``bad`` of ``seen`` rows are too many; they can only become more."""
        return bad > self.rows

    def __str__(self) -> str:
        return str(self.rows)


@dataclass(frozen=True, slots=True)
class MostPercent:
    """So many rows of each hundred."""

    percent: Decimal
    """From 0 to 100."""

    def is_exceeded(self, bad: int, *, seen: int) -> bool:
        """Say whether ``bad`` of ``seen`` rows are a larger share."""
        return bad * 100 > self.percent * seen

    def __str__(self) -> str:
        return f"{self.percent.normalize():f}%"


Limit: TypeAlias = MostRows | MostPercent


def parse_limit(text: str) -> Limit:
    """Read ``100`` as a number of rows, ``1%`` or ``0.5%`` as a share.

    Raises:
        SettingError: It is neither.
    """
    found = _WRITTEN.fullmatch(text.strip())
    if found is not None and found[1] is not None:
        return MostRows(int(found[1]))
    if found is not None and (percent := Decimal(found[2])) <= _ALL_PERCENT:
        return MostPercent(percent)
    raise SettingError(
        f"--max-bad-rows {text[:80]!r} is neither a number of rows, such as 100, nor a share from "
        "0% to 100%, such as 0.5%."
    )


class BadRowWatch:
    """Counts the rows of one job's commits, each chunk once, and says when too many failed."""

    def __init__(self, limit: Limit, *, job: str, rows: int) -> None:
        """Begin with nothing seen.

        Args:
            limit: How many may fail.
            job: For the error.
            rows: All rows of the job.
        """
        self._limit = limit
        self._job = job
        self._rows = rows
        self._chunks: set[str] = set()
        self._seen = 0
        self._reasons = Counter[str]()

    def on_committed(self, chunk: str, *, rows: int, reasons: Mapping[str, int]) -> None:
        """Count a chunk that is committed; a second time changes nothing.

        Args:
            chunk: Its name.
            rows: All rows of it, good and bad.
            reasons: How many failed, by the code of the error.
        """
        if chunk in self._chunks:
            return
        self._chunks.add(chunk)
        self._seen += rows
        self._reasons.update(reasons)

    @property
    def bad(self) -> int:
        """How many rows failed so far."""
        return self._reasons.total()

    def check(self) -> None:
        """Make sure that not too many rows failed, as far as that can be told by now.

        Raises:
            TooManyBadRowsError: They did; the message names counts, limit and reasons.
        """
        is_telling = (
            isinstance(self._limit, MostRows)
            or self._seen >= SHARE_CHECKED_FROM_ROWS
            or self._seen == self._rows
        )
        if is_telling and self._limit.is_exceeded(self.bad, seen=self._seen):
            raise TooManyBadRowsError(
                f"job {self._job}: {self.bad} of the {counted(self._seen, 'row')} seen so far "
                f"cannot be scored, more than --max-bad-rows {self._limit} allows: "
                f"{self._told()}. See which with 'tidegate batch dead-letters {self._job}'; then "
                "correct the input, or submit it again with a higher limit."
            )

    def _told(self) -> str:
        told = [f"{code} {rows}" for code, rows in self._reasons.most_common(_LISTED_REASONS)]
        more = len(self._reasons) - len(told)
        return ", ".join(told) + (f" and {counted(more, 'more reason')}" if more else "")
