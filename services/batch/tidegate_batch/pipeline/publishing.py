"""Letting the output appear: every chunk accounted for, then parts, manifest, ``_SUCCESS``.

Each step may be repeated by anyone, at any time. The manifest is the commit point of the job.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidegate import __version__
from tidegate.objects.port import ObjectStore, Refused, Written
from tidegate_batch.core.errors import (
    CommittedDataMissingError,
    OutputTakenError,
    RowsMismatchError,
)
from tidegate_batch.core.names import (
    MANIFEST_KEY,
    SUCCESS_KEY,
    ChunkId,
    JobId,
    attempts_prefix,
    dead_letters_prefix,
    part_key,
)
from tidegate_batch.core.records import (
    Commit,
    DeadLetters,
    JobManifest,
    JobSpec,
    Part,
    Plan,
    SourceFile,
    dump,
    load,
)
from tidegate_batch.pipeline.record import JobRecord

_CONCURRENT_COPIES: Final = 8
"""A server-side copy takes tens of milliseconds, and there is one for each chunk."""


def accounted_commits(record: JobRecord, plan: Plan) -> list[Commit]:
    """Read the commit of every chunk, and make sure that no row is missing or one too many.

    Raises:
        RowsMismatchError: They do not add up to the plan; nothing may be published.
    """
    commits = []
    for chunk, commit in zip(plan.chunks, record.commits(plan), strict=True):
        if commit is None or commit.rows_in != chunk.rows:
            found = f"{commit.rows_in} rows" if commit else "no commit"
            raise RowsMismatchError(
                f"chunk {chunk.chunk} of job {plan.job}: {chunk.rows} rows were planned, but there "
                f"is {found}. Nothing was published."
            )
        commits.append(commit)
    total = sum(commit.rows_out + commit.rows_dlq for commit in commits)
    if total != plan.rows:
        raise RowsMismatchError(
            f"job {plan.job} planned {plan.rows} rows and committed {total}. Nothing was published."
        )
    return commits


class Publication:
    """Publishes one job's output, once or again."""

    def __init__(
        self, spec: JobSpec, plan: Plan, *, record: JobRecord, output: ObjectStore, at: str
    ) -> None:
        self._job = JobId(spec.job)
        self._spec = spec
        self._plan = plan
        self._record = record
        self._output = output
        self._at = at

    def publish(self) -> JobManifest:
        """Make the parts, then the manifest, then ``_SUCCESS`` stand.

        Raises:
            CommittedDataMissingError: Committed rows are gone, and nobody has published them.
            RowsMismatchError: Rows do not add up.
        """
        manifest = self.standing_manifest()
        if manifest is None:
            commits = accounted_commits(self._record, self._plan)
            manifest = self._make_parts(commits) or self._put_manifest(commits)
        self._put_success()
        return manifest

    def standing_manifest(self) -> JobManifest | None:
        """Read the manifest; ``None`` if nothing is published yet.

        Raises:
            OutputTakenError: It is another job's; only somebody who wrote there by hand did that.
        """
        manifest = read_manifest(self._output)
        if manifest is not None and manifest.job != self._job:
            raise OutputTakenError(
                f"{MANIFEST_KEY} in {self._output.url} is that of job {manifest.job}, not of "
                f"{self._job}, which owns this output. Move what is not this job's away, then "
                "resume."
            )
        return manifest

    def clean_up(self) -> None:
        """Remove all attempts but the dead letters that the manifest names, if it stands."""
        manifest = self.standing_manifest()
        if manifest is None:  # moved or deleted by hand: nothing is known
            return
        for key in list(self._output.keys(attempts_prefix(self._job))):
            self._output.delete(key)
        named = {part.key for part in manifest.dead_letters}
        for key in list(self._record.store.keys(dead_letters_prefix(self._job))):
            if key not in named:
                self._record.store.delete(key)

    def _make_parts(self, commits: Sequence[Commit]) -> JobManifest | None:
        """Give every winning attempt its published name.

        Returns:
            The manifest, if somebody has published the job meanwhile and removed the attempts.
        """
        with ThreadPoolExecutor(_CONCURRENT_COPIES) as threads:
            copied = list(threads.map(self._copy, commits))
        if all(copied):
            return None
        manifest = self.standing_manifest()
        if manifest is None:
            missing = commits[copied.index(False)].data.key
            raise CommittedDataMissingError(
                f"{missing} in {self._output.url} was committed and is gone, or is not what was "
                "written: somebody deleted or replaced it. Submit a new job, to another output."
            )
        return manifest

    def _copy(self, commit: Commit) -> bool:
        target = self._part_key(commit)
        copied = self._output.copy(commit.data.key, target, etag=commit.data.etag)
        return isinstance(copied, Written)

    def _put_manifest(self, commits: Sequence[Commit]) -> JobManifest:
        manifest = self._manifest(commits)
        while True:
            if isinstance(self._output.put_if_absent(MANIFEST_KEY, dump(manifest)), Written):
                return manifest
            if (standing := self.standing_manifest()) is not None:
                return standing

    def _put_success(self) -> None:
        """Let ``_SUCCESS`` stand; a refusal that is not for its being there is asked again."""
        while isinstance(self._output.put_if_absent(SUCCESS_KEY, b""), Refused):
            if self._output.head(SUCCESS_KEY) is not None:
                return

    def _manifest(self, commits: Sequence[Commit]) -> JobManifest:
        return JobManifest(
            job=self._job,
            store=self._record.store.url,
            created_at=self._at,
            tidegate_version=__version__,
            model=self._spec.model,
            request=self._spec.request,
            rows_in=sum(commit.rows_in for commit in commits),
            rows_out=sum(commit.rows_out for commit in commits),
            rows_dlq=sum(commit.rows_dlq for commit in commits),
            parts=tuple(self._part(commit) for commit in commits),
            dead_letters=tuple(
                _dead_letters_part(commit.dead_letters, commit.chunk)
                for commit in commits
                if commit.dead_letters
            ),
            dead_letter_reasons=reasons_of(commits),
            columns=self._plan.columns,
            inputs=tuple(
                SourceFile(source=i.source, etag=i.etag, bytes=i.bytes, rows=i.rows)
                for i in self._plan.inputs
            ),
            fingerprint=self._plan.fingerprint.sha256,
            format=self._spec.request.output_format,
        )

    def _part_key(self, commit: Commit) -> str:
        kind = self._spec.request.output_format
        return part_key(self._job, ChunkId(commit.chunk), kind=kind)

    def _part(self, commit: Commit) -> Part:
        return Part(
            key=self._part_key(commit),
            chunk=commit.chunk,
            rows=commit.data.rows,
            bytes=commit.data.bytes,
            sha256=commit.data.sha256,
        )


def _dead_letters_part(file: DeadLetters, chunk: str) -> Part:
    return Part(key=file.key, chunk=chunk, rows=file.rows, bytes=file.bytes, sha256=file.sha256)


def reasons_of(commits: Iterable[Commit]) -> dict[str, int]:
    """Add up how many rows failed, by the code of the error, the most frequent first."""
    total = Counter[str]()
    for commit in commits:
        total.update(commit.dead_letters.reasons if commit.dead_letters else {})
    return dict(total.most_common())


def read_manifest(output: ObjectStore) -> JobManifest | None:
    """Read the manifest of an output; ``None`` if nothing is published there."""
    stored = output.get(MANIFEST_KEY)
    where = f"{MANIFEST_KEY} in {output.url}"
    return load(JobManifest, stored.body, where=where) if stored else None
