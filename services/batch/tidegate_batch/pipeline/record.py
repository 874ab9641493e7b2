"""A job's record in the store: spec, state, plan and commits."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidegate.objects.port import ObjectStore, Written
from tidegate_batch.core.errors import JobNotFoundError
from tidegate_batch.core.names import (
    ChunkId,
    JobId,
    commit_key,
    commits_prefix,
    plan_key,
    spec_key,
    state_key,
)
from tidegate_batch.core.records import Commit, JobSpec, JobState, Plan, dump, load
from tidegate_batch.pipeline.swapping import create, read_record, swap

_CONCURRENT_READS: Final = 16
"""700 commits one by one would take 14 s where a reply takes 20 ms."""


class JobRecord:
    """Reads and writes what the store holds about one job; safe from several threads."""

    def __init__(self, store: ObjectStore, job: JobId) -> None:
        self.store = store
        self.job = job

    def put_spec(self, spec: JobSpec) -> JobSpec:
        """Make the job exist, and return its spec: this one, or the one that was there."""
        self.store.put_if_absent(spec_key(self.job), dump(spec))
        return self.spec()

    def spec(self) -> JobSpec:
        """Read what was submitted.

        Raises:
            JobNotFoundError: The store holds no such job.
        """
        stored = self.store.get(spec_key(self.job))
        if stored is None:
            raise JobNotFoundError(
                f"no job {self.job} in {self.store.url}. Name the store it was submitted to "
                "with --store."
            )
        return load(JobSpec, stored.body, where=self._where("spec.json"))

    def put_state(self, state: JobState) -> JobState:
        """Write the first state unless there is one, and return the one that stands then."""
        return create(self.store, state_key(self.job), state)

    def state(self) -> JobState | None:
        """Read how far the job is; ``None`` if its submission died before saying so."""
        return read_record(self.store, state_key(self.job), JobState)

    def change_state(self, change: Callable[[JobState], JobState]) -> JobState:
        """Compare-and-swap the state; see ``swapping.swap``."""
        return swap(self.store, state_key(self.job), JobState, change)

    def put_plan(self, plan: Plan) -> Plan:
        """Write the plan unless there is one, and return the one that everybody follows."""
        self.store.put_if_absent(plan_key(self.job), dump(plan))
        return self.plan() or self.put_plan(plan)

    def plan(self) -> Plan | None:
        """Read the plan; ``None`` if the job was never validated."""
        stored = self.store.get(plan_key(self.job))
        return load(Plan, stored.body, where=self._where("plan.json")) if stored else None

    def put_commit(self, commit: Commit) -> Commit:
        """Commit a chunk unless somebody has, and return the commit that stands.

        When the write is refused, only the object tells whether it was one's own earlier try
        whose reply was lost, or another attempt's. If it says neither, the refusal was for some
        other reason, and the write is repeated.
        """
        chunk = ChunkId(commit.chunk)
        while True:
            written = self.store.put_if_absent(commit_key(self.job, chunk), dump(commit))
            if isinstance(written, Written):
                return commit
            if (standing := self.commit(chunk)) is not None:
                return standing

    def commit(self, chunk: ChunkId) -> Commit | None:
        """Read a chunk's commit; ``None`` if nobody has committed it."""
        key = commit_key(self.job, chunk)
        stored = self.store.get(key)
        return load(Commit, stored.body, where=f"{key} in {self.store.url}") if stored else None

    def committed_chunks(self) -> set[str]:
        """List which chunks are committed: one name per chunk, never a word about rows."""
        prefix = commits_prefix(self.job)
        names = (key.removeprefix(prefix) for key in self.store.keys(prefix))
        return {name.removesuffix(".json") for name in names if name.endswith(".json")}

    def commits(self, plan: Plan) -> Iterator[Commit | None]:
        """Read the commit of each chunk, in the order of the plan."""
        return self.commits_of(chunk.id for chunk in plan.chunks)

    def commits_of(self, chunks: Iterable[ChunkId]) -> Iterator[Commit | None]:
        """Read the commits of some chunks, in their order."""
        with ThreadPoolExecutor(_CONCURRENT_READS) as threads:
            yield from threads.map(self.commit, chunks)

    def _where(self, name: str) -> str:
        return f"{name} of job {self.job} in {self.store.url}"
