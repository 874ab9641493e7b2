"""What can be wrong with a job; each says whether and how it can be resumed or repaired."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from tidegate.errors import JobError, PartUnavailableError
from tidegate.objects.port import ObjectChangedError

LISTED_PROBLEMS: Final = 50
"""One wrong column in 10,000 files must not fill a terminal, or the job's state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that validation found, for the person who submitted the job."""

    where: str
    """The file, or the option that named it."""
    column: str | None
    expected: str
    found: str

    def __str__(self) -> str:
        place = f"{self.where}: column {self.column!r}" if self.column else self.where
        return f"{place}: expected {self.expected}, found {self.found}"


class InputInvalidError(JobError):
    """The inputs do not fit the model or the options; nothing was scored."""

    code = "input_invalid"
    problems: tuple[Problem, ...]

    @classmethod
    def of_problems(cls, problems: Sequence[Problem]) -> Self:
        """List the problems, one a line; ``problems`` has all of them."""
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"{count} with the input, nothing was scored:"]
        lines += [str(problem) for problem in problems[:LISTED_PROBLEMS]]
        if problems[LISTED_PROBLEMS:]:
            lines.append(f"… and {len(problems) - LISTED_PROBLEMS} more")
        error = cls("\n  ".join(lines))
        error.problems = tuple(problems)
        return error


class OutputTakenError(JobError):
    """The output prefix belongs to another job, nests with one's, or already holds data."""

    code = "output_taken"


class JobNotFoundError(JobError):
    """The store holds no such job."""

    code = "job_not_found"


class JobNotDrivenError(JobError):
    """Nobody moves the job on: its driver is dead, or was never started."""

    code = "job_not_driven"


class JobConflictError(JobError):
    """What is asked for contradicts what the job already is."""

    code = "conflict"


class JobDrivenError(JobConflictError):
    """The job's driver is alive; a second one would only waste work."""


class JobPublishedError(JobConflictError):
    """The job is published: nothing is left to do for anybody."""


class JobRecordError(JobError):
    """A record of the job in the store is not what Tidegate writes."""

    code = "job_record_invalid"


class ChunkFailedError(JobError):
    """A worker could not score a chunk; the message names the file and the rows."""

    code: str = "chunk_failed"  # type: ignore[misc] # each may bear the code of its own cause

    @classmethod
    def of_worker(cls, message: str, *, code: str) -> Self:
        """Pass on what a worker reported, under the code of what went wrong there."""
        error = cls(message)
        error.code = code
        return error


class NoCommitError(JobError):
    """No chunk was committed for too long, although work is left."""

    code = "no_commit"


class WorkersFailedError(PartUnavailableError):
    """Worker after worker died before it was ready for work."""

    code = "workers_failed"


class DriverReplacedError(JobError):
    """Another driver took the job over, or somebody moved it on; this one stops."""

    code = "driver_replaced"


class JobCancelledError(DriverReplacedError):
    """Somebody cancelled the job; its driver stops, and it can be resumed."""

    code = "cancelled"


class RowsMismatchError(JobError):
    """Row counts do not add up; nothing is published over a doubt."""

    code = "rows_mismatch"


class TooManyBadRowsError(JobError):
    """More rows failed than ``--max-bad-rows`` allows; a resume would only find them again."""

    code = "too_many_bad_rows"


class CommittedDataMissingError(JobError):
    """Committed rows were deleted or replaced from outside; the job cannot be repaired."""

    code = "committed_data_missing"


MENDED_BY_NO_RESUME: Final = frozenset(
    {
        ObjectChangedError.code,
        JobConflictError.code,
        TooManyBadRowsError.code,
        CommittedDataMissingError.code,
    }
)
"""Codes of failed jobs that would fail again: what they were planned on is not there any more."""
