"""Removing what jobs left behind and nothing names.

Two kinds of job leave something: a published one whose driver died before it removed the losing
attempts, or whose zombie wrote one later; and a superseded one, whose output another job took
over. Both are final, so nobody can want these files any more. Whatever a manifest names stays, and
of a job in any other state everything does.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.errors import TidegateError
from tidegate.objects.port import ObjectStore
from tidegate_batch.core.names import JobId, attempts_prefix, belongs_to, dead_letters_prefix
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.listing import KnownJob, known_jobs
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.publishing import read_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """An object that nothing names."""

    job: str
    store: ObjectStore
    key: str
    size_bytes: int

    def __str__(self) -> str:
        return f"{self.store.url}/{self.key}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What was found, and where nobody could look."""

    objects: tuple[Leftover, ...]
    unseen: tuple[str, ...]
    """One sentence for each output that could not be looked at."""


def find_leftovers(store: ObjectStore, parts: Parts) -> Leftovers:
    """Look at the output of every job that is final."""
    objects: list[Leftover] = []
    unseen: list[str] = []
    for job in known_jobs(store):
        try:
            objects += _of(job, parts)
        except TidegateError as error:  # one lost bucket must not keep the others full
            unseen.append(f"job {job.spec.job}: {error}")
    return Leftovers(objects=tuple(objects), unseen=tuple(unseen))


def _of(job: KnownJob, parts: Parts) -> Iterator[Leftover]:
    match job.state_name:
        case State.PUBLISHED:
            keys = _beside_the_manifest(job, parts)
        case State.SUPERSEDED:
            keys = _of_the_superseded(job, parts)
        case _:
            return
    for store, key in keys:
        if (head := store.head(key)) is not None:
            yield Leftover(job=job.spec.job, store=store, key=key, size_bytes=head.size_bytes)


def _beside_the_manifest(job: KnownJob, parts: Parts) -> Iterator[tuple[ObjectStore, str]]:
    """Yield attempts and dead letters of a published job that its manifest does not name."""
    output, name = parts.stores(job.spec.request.output), JobId(job.spec.job)
    manifest = read_manifest(output)
    if manifest is None or manifest.job != name:  # moved or deleted by hand: nothing is known
        return
    named = {part.key for part in manifest.parts}
    yield from ((output, key) for key in output.keys(attempts_prefix(name)) if key not in named)
    if lost := list(job.record.store.keys(dead_letters_prefix(name))):
        named = _named_dead_letters(job)
        yield from ((job.record.store, key) for key in lost if key not in named)


def _named_dead_letters(job: KnownJob) -> set[str]:
    plan = job.record.plan()
    commits = job.record.commits(plan) if plan else ()
    return {c.dead_letters.key for c in commits if c is not None and c.dead_letters is not None}


def _of_the_superseded(job: KnownJob, parts: Parts) -> Iterator[tuple[ObjectStore, str]]:
    """Yield everything that only this job can have written, under the output it lost."""
    output, name = parts.stores(job.spec.request.output), JobId(job.spec.job)
    yield from ((output, key) for key in output.keys("") if belongs_to(key, name))
    yield from ((job.record.store, key) for key in job.record.store.keys(dead_letters_prefix(name)))
