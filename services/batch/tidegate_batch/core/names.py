"""Names of jobs, chunks and attempts, and where their objects lie.

The job's record lives in the store, its rows under the output prefix, so that publishing never
moves bytes from one system to another.
"""

import hashlib
import re
from typing import Final, NewType

from tidegate.ids import InvalidIdError
from tidegate_batch.core.formats import OUTPUT_FORMATS, OutputFormat

JobId = NewType("JobId", str)
"""16 hex digits: of a random number, or of the client token's digest."""
ChunkId = NewType("ChunkId", str)
"""The chunk's place in the plan, six digits: it comes from the input, never from a run."""
AttemptId = NewType("AttemptId", str)
"""128 random bits as 32 hex digits: no two attempts can ever share a file."""

_JOB_ID: Final = re.compile(r"[0-9a-f]{16}")

SIDE_PREFIX: Final = "_tidegate/"
"""Under the output: what no reader looks at."""
OWNER_KEY: Final = f"{SIDE_PREFIX}owner.json"
MANIFEST_KEY: Final = "_MANIFEST.json"
SUCCESS_KEY: Final = "_SUCCESS"
_PART_ENDINGS: Final = tuple(f".{kind}" for kind in OUTPUT_FORMATS)


def parse_job_id(text: str) -> JobId:
    """Check a job's id.

    Raises:
        InvalidIdError: It is not 16 lower-case hex digits.
    """
    if not _JOB_ID.fullmatch(text):
        raise InvalidIdError(
            f"{text[:80]!r} is no job id: it has 16 digits of 0-9 and a-f, as "
            "'tidegate batch submit' printed it."
        )
    return JobId(text)


def job_id_of_token(client_token: str, *, tenant: str | None = None) -> JobId:
    """Name a job by its client token, so that submitting it again finds it.

    Each tenant has tokens of its own: before the token its digest goes in, as bytes that no text
    begins with but by a chance that nobody can look for.
    """
    whose = b"" if tenant is None else hashlib.sha256(tenant.encode()).digest()
    return JobId(hashlib.sha256(whose + client_token.encode()).hexdigest()[:16])


def chunk_id(index: int) -> ChunkId:
    """Name a chunk by its place in the plan, counted from 0."""
    return ChunkId(f"{index:06d}")


def job_prefix(job: JobId) -> str:
    """Return where a job's record lies in the store."""
    return f"jobs/{job}/"


def spec_key(job: JobId) -> str:
    """Return the object that makes a job exist."""
    return job_prefix(job) + "spec.json"


def plan_key(job: JobId) -> str:
    """Return the object that says which rows make which chunk."""
    return job_prefix(job) + "plan.json"


def state_key(job: JobId) -> str:
    """Return the object that says how far a job is and who drives it."""
    return job_prefix(job) + "state.json"


def commits_prefix(job: JobId) -> str:
    """Return the folder whose listing is all that a resume needs to know."""
    return job_prefix(job) + "commits/"


def commit_key(job: JobId, chunk: ChunkId) -> str:
    """Return the commit point of a chunk."""
    return f"{commits_prefix(job)}{chunk}.json"


def dead_letters_prefix(job: JobId) -> str:
    """Return the folder, in the store, of rows that have no answer."""
    return job_prefix(job) + "dead_letters/"


def dead_letter_key(job: JobId, chunk: ChunkId, attempt: AttemptId) -> str:
    """Return one attempt's dead letters."""
    return f"{dead_letters_prefix(job)}{chunk}.{attempt}.parquet"


def retry_prefix(job: JobId) -> str:
    """Return the folder, in the store, of dead letters made the input of another job."""
    return job_prefix(job) + "retry/"


def retry_key(job: JobId, chunk: ChunkId) -> str:
    """Return the rows of a chunk's dead letters; whoever writes them writes the same."""
    return f"{retry_prefix(job)}{chunk}.parquet"


def attempts_prefix(job: JobId) -> str:
    """Return the folder, under the output, of files that no reader looks at."""
    return f"{SIDE_PREFIX}{job}/"


def attempt_key(job: JobId, chunk: ChunkId, attempt: AttemptId) -> str:
    """Return one attempt's file; not named ``.parquet``, so that no glob ever reads it."""
    return f"{attempts_prefix(job)}{chunk}.{attempt}.attempt"


def part_key(job: JobId, chunk: ChunkId, *, kind: OutputFormat = "parquet") -> str:
    """Return a published file; it holds the job, so no other job can ever overwrite it."""
    return f"part-{chunk}-{job}.{kind}"


def is_read_by_a_glob(key: str) -> bool:
    """Say whether a reader of all files of a kind below the output would take this for rows."""
    return key.lower().endswith(_PART_ENDINGS) and not key.startswith(SIDE_PREFIX)


def belongs_to(key: str, job: JobId) -> bool:
    """Say whether a key under the output can only have been written for this job."""
    endings = tuple(f"-{job}{ending}" for ending in _PART_ENDINGS)
    part = key.startswith("part-") and key.endswith(endings)
    return part or key.startswith(attempts_prefix(job))
