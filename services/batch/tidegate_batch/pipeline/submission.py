"""Making a job: what was asked for, by whom it will be scored, and that it happens once."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.artifacts.store import ArtifactStore
from tidegate.ids import ModelRef
from tidegate.objects.opening import split_url
from tidegate.objects.preflight import check_conditional_writes
from tidegate_batch.core.errors import JobConflictError
from tidegate_batch.core.names import JobId, job_id_of_token
from tidegate_batch.core.records import JobRequest, JobSpec, PinnedModel
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a person, or a program, asks for."""

    model: ModelRef
    inputs: Sequence[str]
    output: str
    key: Sequence[str]
    keep: Sequence[str] | None
    chunk_rows: int
    client_token: str | None
    """Chosen by the caller: submitting again with the same one finds the same job."""


def submit(submission: Submission, *, store_url: str, parts: Parts) -> JobRecord:
    """Create a job, or find the one that this client token has made before.

    The reference is pinned to a version and its digest now; an alias never moves under a job.

    Raises:
        JobConflictError: The client token was used for something else.
        ModelNotFoundError: The reference names nothing.
        StoreUnavailableError: Store or output cannot be used for conditional writes.
    """
    store = parts.stores(store_url)
    request = _request_of(submission)
    token = submission.client_token
    job = job_id_of_token(token) if token is not None else JobId(parts.new_id()[:16])
    artifacts = ArtifactStore(store)  # looked at first: the checks leave a folder where none was
    version = artifacts.resolve(submission.model)
    pinned = PinnedModel.of(artifacts.published(submission.model.name, version).tag)
    check_conditional_writes(store)
    check_conditional_writes(parts.stores(request.output))
    record = JobRecord(store, job)
    standing = record.put_spec(
        JobSpec(job=job, client_token=token, created_at=parts.now(), request=request, model=pinned)
    )
    if standing.request != request or standing.client_token != token:
        raise JobConflictError(
            f"client token {token!r} was used for job {job} already, which asks for "
            f"{_difference(standing.request, request)}. Use another token for another job."
        )
    return record


def _request_of(submission: Submission) -> JobRequest:
    return JobRequest(
        model=str(submission.model),
        inputs=tuple(absolute(pattern) for pattern in submission.inputs),
        output=absolute(submission.output).rstrip("/"),
        key=tuple(submission.key),
        keep=None if submission.keep is None else tuple(submission.keep),
        chunk_rows=submission.chunk_rows,
    )


def absolute(url: str) -> str:
    """Return a path, glob or URL so that it means the same from any folder.

    Raises:
        SettingError: It is no path and no URL of a store.
    """
    is_folder = "://" not in url and os.path.isdir(os.path.expanduser(url))
    store, key = split_url(url.rstrip("/") + "/" if is_folder else url)
    return f"{store.rstrip('/')}/{key}"


def _difference(standing: JobRequest, request: JobRequest) -> str:
    for name in JobRequest.__struct_fields__:
        if getattr(standing, name) != getattr(request, name):
            return f"{name} {getattr(standing, name)!r}, not {getattr(request, name)!r}"
    return "the same, under another token"
