"""One job owns an output prefix: claiming it, and taking it over from a job that failed.

``owner.json`` is written before anything else under the output, by put-if-absent, and then only
handed on by compare-and-swap. A prefix changes hands in three steps, each of which may be
repeated by anyone: the old job becomes ``superseded``, the owner is swapped, what the old job left
is removed. A resume of the old job needs it not to be superseded, so the two exclude each other.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tidegate.errors import TidegateError
from tidegate.ids import InvalidIdError
from tidegate.objects.preflight import PROBE_KEY
from tidegate_batch.core.errors import (
    CommittedDataMissingError,
    JobConflictError,
    OutputTakenError,
)
from tidegate_batch.core.names import OWNER_KEY, JobId, belongs_to, parse_job_id
from tidegate_batch.core.records import JobSpec, JobState, Owner
from tidegate_batch.core.states import STOPPED, Event, State
from tidegate_batch.core.wording import counted
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.swapping import create, read_record, swap
from tidegate_batch.ports import Stores


class OutputClaim:
    """The output prefix of one job."""

    def __init__(self, spec: JobSpec, *, record: JobRecord, stores: Stores, at: str) -> None:
        self._job = JobId(spec.job)
        self._url = spec.request.output
        self._output = stores(self._url)
        self._record = record
        self._stores = stores
        self._at = at

    def claim(self) -> None:
        """Make the prefix this job's, or find that it is already.

        Only for a job without a plan: afterwards rows may lie there, and ``confirm`` is right.

        Raises:
            OutputTakenError: It belongs to another job, nests with one's, or holds data; then
                nothing of this job is left there but a released ``owner.json`` at most.
        """
        owner = read_record(self._output, OWNER_KEY, Owner)
        if owner is None:
            self._refuse_what_is_there()  # before leaving a trace
            mine = Owner(job=self._job, store=self._record.store.url, revision=0, write_ids=())
            owner = create(self._output, OWNER_KEY, mine)
        if owner.job != self._job:
            owner = self._take_over(owner)
        try:
            self._remove_leftovers(owner)
            self._refuse_what_is_there()  # again: somebody may have come in at the same time
        except OutputTakenError:
            self._swap_owner(self._let_go)
            raise

    def check(self) -> None:
        """Make sure that ``claim`` would succeed now, and write nothing.

        Raises:
            OutputTakenError: It would not.
        """
        owner = read_record(self._output, OWNER_KEY, Owner)
        former = [*owner.superseded, owner.job] if owner else []
        if owner is not None and owner.job not in {None, self._job}:
            _, state = self._former(str(owner.job), owner.store)
            self._superseded(state, str(owner.job))
        self._refuse_what_is_there([JobId(job) for job in former if job])

    def confirm(self) -> None:
        """Make sure that the prefix is still this job's.

        Raises:
            JobConflictError: It was handed on.
        """
        owner = read_record(self._output, OWNER_KEY, Owner)
        if owner is None or owner.job != self._job:
            raise JobConflictError(
                f"{self._url} does not belong to job {self._job} any more, but to "
                f"{_name(owner)}. Submit a new job, to another output."
            )

    def _swap_owner(self, change: Callable[[Owner], Owner]) -> Owner:
        return swap(self._output, OWNER_KEY, Owner, change)

    def _let_go(self, now: Owner) -> Owner:
        """Free the prefix, unless it was handed on meanwhile: what is found may be its owner's."""
        return msgspec.structs.replace(now, job=None) if now.job == self._job else now

    def _take_over(self, seen: Owner) -> Owner:
        if seen.job is not None:
            self._supersede(seen.job, seen.store)

        def mine(now: Owner) -> Owner:
            if now.job not in {seen.job, self._job}:
                raise self._taken(f"job {now.job} took it over just now")
            former = (seen.job,) if seen.job and seen.job not in now.superseded else ()
            return msgspec.structs.replace(
                now,
                job=self._job,
                store=self._record.store.url,
                superseded=(*now.superseded, *former),
            )

        return self._swap_owner(mine)

    def _supersede(self, former: str, store_url: str) -> None:
        """Make sure that the former owner can never be resumed."""
        record, state = self._former(former, store_url)
        if state.state is not State.SUPERSEDED:
            record.change_state(lambda now: self._superseded(now, former))

    def _former(self, former: str, store_url: str) -> tuple[JobRecord, JobState]:
        try:
            record = JobRecord(self._stores(store_url), parse_job_id(former))
            state = record.state()
        except (TidegateError, InvalidIdError) as error:
            raise self._taken(
                f"it belongs to job {former}, whose record in {store_url} cannot be read: {error}"
            ) from error
        if state is None:
            raise self._taken(f"it belongs to job {former}, of which {store_url} has no record")
        return record, state

    def _superseded(self, state: JobState, former: str) -> JobState:
        if state.state is State.SUPERSEDED:
            return state
        if state.failure and state.failure.code == CommittedDataMissingError.code:
            raise self._taken(f"job {former} lost committed rows, and some may be lying there")
        if state.state not in STOPPED:
            raise self._taken(f"it belongs to job {former}, which is {state.state}")
        return state.moved(Event.SUPERSEDED, self._at, failure=state.failure)

    def _remove_leftovers(self, owner: Owner) -> None:
        former = [JobId(job) for job in owner.superseded if job != self._job]
        for key in list(self._output.keys("")) if former else []:
            if any(belongs_to(key, job) for job in former):
                self._output.delete(key)

    def _refuse_what_is_there(self, former: Sequence[JobId] = ()) -> None:
        for url, owner in self._owners_above():
            if owner.job is not None:
                raise self._taken(f"it lies inside {url}, which belongs to job {owner.job}")
        strange = [key for key in self._output.keys("") if not self._may_be_there(key, former)]
        if strange:
            shown = ", ".join(strange[:3]) + (", …" if strange[3:] else "")
            raise self._taken(f"it already holds {counted(len(strange), 'object')}: {shown}")

    def _may_be_there(self, key: str, former: Sequence[JobId]) -> bool:
        is_ours = any(belongs_to(key, job) for job in (self._job, *former))
        return key == OWNER_KEY or is_ours or bool(PROBE_KEY.fullmatch(key))

    def _owners_above(self) -> Iterator[tuple[str, Owner]]:
        for url in urls_above(self._url):
            owner = read_record(self._stores(url), OWNER_KEY, Owner)
            if owner is not None:
                yield url, owner

    def _taken(self, why: str) -> OutputTakenError:
        return OutputTakenError(
            f"the output {self._url} cannot be used: {why}. Choose an --output that is empty and "
            "neither inside nor around another job's."
        )


def urls_above(url: str) -> list[str]:
    """Return the folders or prefixes that a place lies in, the nearest first.

    Args:
        url: An absolute path with its links resolved, or ``s3://bucket/prefix``.
    """
    if "://" not in url:
        return [str(folder) for folder in Path(url).parents]
    scheme, _, path = url.partition("://")
    bucket, *segments = path.split("/")
    return [
        f"{scheme}://{'/'.join([bucket, *segments[:depth]])}"
        for depth in range(len(segments) - 1, -1, -1)
    ]


def _name(owner: Owner | None) -> str:
    return f"job {owner.job}" if owner and owner.job else "nobody"
