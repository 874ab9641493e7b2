"""What the commits of a job say of its speed, its workers and its bad rows.

Commits never change, so each is read once, however often somebody looks.
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from tidegate.units import ms_to_ns, ns_to_seconds
from tidegate_batch.core.names import ChunkId
from tidegate_batch.core.outlook import Outlook, outlook
from tidegate_batch.core.wishes import Timeliness, timeliness
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord

_CONCURRENT_READS: Final = 16
_RECENT_S: Final = 120.0
"""A worker that has committed nothing for so long, a chunk's lease, does not count as one."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How a job goes, as its commits tell."""

    outlook: Outlook | None
    """``None`` until the present driver's workers have committed a chunk."""
    workers: int
    """That have committed a chunk lately."""
    rows_dlq: int
    """Bad rows so far, over all drivers."""
    finish_by: str | None
    """When it should be done."""
    timeliness: Timeliness | None
    """Whether it will be; ``None`` without a time, or before anything can be foretold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What is kept of a commit."""

    at_s: float
    took_s: float
    rows: int
    rows_dlq: int
    epoch: int
    worker: str


class PaceWatch:
    """Follows one job; for one thread."""

    def __init__(self, record: JobRecord, parts: Parts, *, finish_by: str | None = None) -> None:
        self._finish_by = finish_by
        self._record = record
        self._parts = parts
        self._seen: dict[str, _Seen] = {}

    def look(self, committed: Collection[str], *, rows: int, epoch: int) -> Pace:
        """Read the commits that are new, and sum up.

        Args:
            committed: The chunks whose commits stand.
            rows: Of the whole job.
            epoch: Of the present driver; what others committed says nothing of its speed.
        """
        new = [ChunkId(chunk) for chunk in committed if chunk not in self._seen]
        if new:
            with ThreadPoolExecutor(_CONCURRENT_READS) as threads:
                for commit in threads.map(self._record.commit, new):
                    if commit is not None:
                        at_s = datetime.fromisoformat(commit.committed_at).timestamp()
                        self._seen[commit.chunk] = _Seen(
                            at_s=at_s,
                            took_s=ns_to_seconds(ms_to_ns(commit.timings.total_ms)),
                            rows=commit.rows_in,
                            rows_dlq=commit.rows_dlq,
                            epoch=commit.epoch,
                            worker=commit.worker,
                        )
        return self._pace(rows, epoch)

    def _pace(self, rows: int, epoch: int) -> Pace:
        seen = self._seen.values()
        present = [commit for commit in seen if commit.epoch == epoch]
        now = self._parts.wall.utc_now()
        now_s = now.timestamp()
        last_s = max((commit.at_s for commit in present), default=now_s)
        foretold = outlook(
            [(commit.at_s, commit.rows) for commit in present],
            began_s=min((commit.at_s - commit.took_s for commit in present), default=now_s),
            now_s=max(now_s, last_s),
            rows_left=rows - sum(commit.rows for commit in seen),
        )
        return Pace(
            outlook=foretold,
            finish_by=self._finish_by,
            timeliness=self._timeliness(foretold, now),
            workers=len({c.worker for c in present if c.at_s >= last_s - _RECENT_S}),
            rows_dlq=sum(commit.rows_dlq for commit in seen),
        )

    def _timeliness(self, foretold: Outlook | None, now: datetime) -> Timeliness | None:
        if foretold is None or self._finish_by is None:
            return None
        return timeliness(foretold, now=now, finish_by=datetime.fromisoformat(self._finish_by))
