"""Making a job: what was asked for, by whom it will be scored, and that it happens once."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tidegate.artifacts.store import ArtifactStore
from tidegate.errors import SettingError
from tidegate.ids import ModelRef
from tidegate.objects.opening import split_url
from tidegate.objects.port import ObjectStore
from tidegate.objects.preflight import check_conditional_writes
from tidegate_batch.core.bad_rows import DEFAULT_MAX_BAD_ROWS, parse_limit
from tidegate_batch.core.errors import JobConflictError
from tidegate_batch.core.formats import InputFormat, OutputFormat, parse_column_types
from tidegate_batch.core.names import JobId, job_id_of_token
from tidegate_batch.core.records import JobRequest, JobSpec, PinnedModel
from tidegate_batch.core.templates import expand
from tidegate_batch.core.wishes import Wishes
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
    max_bad_rows: str = DEFAULT_MAX_BAD_ROWS
    """``100`` rows, or ``1%`` of them."""
    client_token: str | None
    """Chosen by the caller: submitting again with the same one finds the same job."""
    wishes: Wishes = field(default_factory=Wishes)
    input_format: InputFormat | None = None
    """Of every input; ``None`` for what each file's ending says."""
    output_format: OutputFormat = "parquet"
    unique_key: bool = False
    """Refuse inputs in which two rows have the same key."""
    tenant: str | None = None
    """Whose key asks; a client token is that tenant's own."""
    column_types: Sequence[str] = ()
    """``COLUMN=TYPE``, for columns of text files that are copied."""


def submit(submission: Submission, *, store_url: str, parts: Parts) -> JobRecord:
    """Create a job, or find the one that this client token has made before.

    The reference is pinned to a version and its digest now; an alias never moves under a job.

    Raises:
        JobConflictError: The client token was used for something else.
        ModelNotFoundError: The reference names nothing.
        SettingError: An option says nothing that can be done.
        StoreUnavailableError: Store or output cannot be used for conditional writes.
    """
    store = parts.stores(store_url)
    asked = spec_of(submission, store=store, parts=parts)
    job, token = JobId(asked.job), asked.client_token
    spec = at_its_output(asked, like=asked)
    _refuse_a_file(spec.request.output)
    check_conditional_writes(store)
    check_conditional_writes(parts.stores(spec.request.output))
    record = JobRecord(store, job)
    standing = record.put_spec(spec)
    again = at_its_output(asked, like=standing)
    if (standing.request, standing.wishes) != (again.request, again.wishes) or (
        (standing.client_token, standing.tenant) != (token, asked.tenant)
    ):
        raise JobConflictError(
            f"client token {token!r} was used for job {job} already, which asks for "
            f"{_difference(standing, again)}. Use another token for another job."
        )
    return record


def spec_of(submission: Submission, *, store: ObjectStore, parts: Parts) -> JobSpec:
    """Return what would be written; the output's template is not filled in yet.

    Raises:
        ModelNotFoundError: The reference names nothing.
        SettingError: An option says nothing that can be done.
    """
    token, tenant = submission.client_token, submission.tenant
    if token == "":
        raise SettingError(
            "the client token is empty: every job with it would be the same one. Name it, such as "
            "nightly-2026-12-01, or leave it out."
        )
    job = JobId(parts.new_id()[:16]) if token is None else job_id_of_token(token, tenant=tenant)
    artifacts = ArtifactStore(store)  # looked at first: the checks leave a folder where none was
    version = artifacts.resolve(submission.model)
    return JobSpec(
        job=job,
        client_token=token,
        created_at=parts.now(),
        request=_request_of(submission),
        model=PinnedModel.of(artifacts.published(submission.model.name, version).tag),
        wishes=submission.wishes,
        tenant=tenant,
    )


def at_its_output(spec: JobSpec, *, like: JobSpec) -> JobSpec:
    """Fill in the output's template: its date is that of the job's first submission, in UTC.

    Raises:
        SettingError: The template has a name of which nothing is known.
    """
    values = {"date": like.created_at[:10], "job": like.job, "version": str(like.model.version)}
    output = place_of(expand(spec.request.output, values))
    return replace(spec, request=replace(spec.request, output=output))


def _request_of(submission: Submission) -> JobRequest:
    if submission.unique_key and not submission.key:
        raise SettingError("--unique-key means nothing without a --key. Name the columns of it.")
    return JobRequest(
        model=str(submission.model),
        inputs=tuple(absolute(pattern) for pattern in submission.inputs),
        output=submission.output,  # a template still
        key=tuple(submission.key),
        keep=None if submission.keep is None else tuple(submission.keep),
        chunk_rows=submission.chunk_rows,
        max_bad_rows=str(parse_limit(submission.max_bad_rows)),
        input_format=submission.input_format,
        output_format=submission.output_format,
        unique_key=submission.unique_key,
        column_types=parse_column_types(submission.column_types),
    )


def absolute(url: str) -> str:
    """Return a path, glob or URL so that it means the same from any folder.

    Raises:
        SettingError: It is no path and no URL of a store, or nothing that a store can hold.
    """
    if "\0" in url:
        raise SettingError(f"{url!r} is no place for objects: no path holds a NUL.")
    is_folder = "://" not in url and os.path.isdir(os.path.expanduser(url))
    store, key = split_url(url.rstrip("/") + "/" if is_folder else url)
    return f"{store.rstrip('/')}/{key}"


def place_of(url: str) -> str:
    """Return a folder or prefix that is written to, links resolved: it has no wildcards.

    Raises:
        SettingError: As ``absolute`` does.
    """
    bare = url.rstrip("/")
    return absolute(f"{bare}/" if bare else url).rstrip("/")


def _refuse_a_file(output: str) -> None:
    places = () if "://" in output else (output, *map(str, Path(output).parents))
    for place in filter(os.path.isfile, places):
        raise SettingError(
            f"--output {output} cannot be a folder: {place} is a file. Name a folder that is empty "
            "or not there yet."
        )


def _difference(standing: JobSpec, again: JobSpec) -> str:
    for before, now in ((standing.request, again.request), (standing.wishes, again.wishes)):
        for name in before.__struct_fields__:
            if getattr(before, name) != getattr(now, name):
                return f"{name} {_worded(getattr(before, name))}, not {_worded(getattr(now, name))}"
    return "the same, under another token"


def _worded(value: object) -> str:
    """Show a value as a job's description has it."""
    return "unset" if value is None else msgspec.json.encode(value).decode()
