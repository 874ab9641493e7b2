"""Counting the rows of a job that failed, from the commits in its record."""

from collections.abc import Collection, Iterable

from tidegate_batch.core.bad_rows import BadRowWatch, parse_limit
from tidegate_batch.core.records import Commit, Plan
from tidegate_batch.pipeline.publishing import accounted_commits
from tidegate_batch.pipeline.record import JobRecord


def bad_rows_so_far(record: JobRecord, plan: Plan, committed: Collection[str]) -> BadRowWatch:
    """Count the failed rows of the chunks that earlier drivers committed."""
    chunks = [chunk.id for chunk in plan.chunks if chunk.chunk in committed]
    return _counted(record, plan, record.commits_of(chunks))


def refuse_too_many_bad_rows(record: JobRecord, plan: Plan) -> None:
    """Account for every row of a job whose chunks are all committed.

    Raises:
        RowsMismatchError: They do not add up to the plan.
        TooManyBadRowsError: More failed than the job allows.
    """
    _counted(record, plan, accounted_commits(record, plan)).check()


def _counted(record: JobRecord, plan: Plan, commits: Iterable[Commit | None]) -> BadRowWatch:
    limit = parse_limit(record.spec().request.max_bad_rows)
    watch = BadRowWatch(limit, job=plan.job, rows=plan.rows)
    for commit in commits:
        if commit is not None:
            reasons = commit.dead_letters.reasons if commit.dead_letters else {}
            watch.on_committed(commit.chunk, rows=commit.rows_in, reasons=reasons)
    return watch
