"""One job owns an output prefix; it changes hands only when its job can never be resumed."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from tests.fakes.objects import FaultyObjectStore
from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    drive,
    new_place,
    parts_with,
    run_job,
    stopped_job,
)
from tidegate.errors import JobError
from tidegate.objects.opening import open_store
from tidegate.objects.port import ObjectStore, Refused, Written
from tidegate_batch.core.errors import JobConflictError, OutputTakenError
from tidegate_batch.core.names import MANIFEST_KEY, OWNER_KEY
from tidegate_batch.core.records import Owner, dump
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.owning import urls_above
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.swapping import read_record

ROWS = 60


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, ROWS, row_group_rows=10)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def a_failed_job(place: Place, cache: Path) -> JobRecord:
    return stopped_job(place, cache, JobError("failed on purpose"))


def owner_of(place: Place) -> Owner:
    owner = read_record(open_store(place.output), OWNER_KEY, Owner)
    assert owner is not None
    return owner


def state_of(record: JobRecord) -> State:
    state = record.state()
    assert state is not None
    return state.state


@pytest.mark.parametrize("reason", [JobError("no luck"), KeyboardInterrupt()], ids=repr)
def test_a_stopped_night_does_not_block_the_next(
    place: Place, cache: Path, reason: BaseException
) -> None:
    old = stopped_job(place, cache, reason)
    assert len(list(Path(place.output).glob("**/*.attempt"))) == 2
    new = run_job(place, cache)
    assert_each_row_once(place.output, ROWS)
    assert state_of(old) is State.SUPERSEDED
    assert owner_of(place).job == new.job
    assert owner_of(place).superseded == (old.job,)
    assert list(Path(place.output).glob("**/*.attempt")) == []


def test_a_job_whose_output_was_taken_over_cannot_be_resumed(place: Place, cache: Path) -> None:
    old = a_failed_job(place, cache)
    run_job(place, cache)
    with pytest.raises(JobConflictError, match="was superseded"):
        take_seat(old, this_process(), parts_with())


def test_a_job_that_is_resumed_keeps_its_output(place: Place, cache: Path) -> None:
    old = a_failed_job(place, cache)
    take_seat(old, this_process(), parts_with())
    with pytest.raises(OutputTakenError, match=f"belongs to job {old.job}, which is running"):
        run_job(place, cache)
    assert owner_of(place).job == old.job


def test_a_published_output_is_never_taken_over(place: Place, cache: Path) -> None:
    old = run_job(place, cache)
    with pytest.raises(OutputTakenError, match=f"belongs to job {old.job}, which is published"):
        run_job(place, cache)
    assert_each_row_once(place.output, ROWS)


def test_an_output_that_holds_data_is_refused_without_a_trace(place: Place, cache: Path) -> None:
    folder = Path(place.output)
    folder.mkdir()
    (folder / "precious.parquet").write_bytes(b"mine")
    with pytest.raises(OutputTakenError, match=r"already holds 1 object: precious.parquet"):
        run_job(place, cache)
    assert [path.name for path in folder.iterdir()] == ["precious.parquet"]


@pytest.mark.parametrize("below", ["inner", "inner/deeper"])
def test_an_output_inside_anothers_is_refused(place: Place, cache: Path, below: str) -> None:
    run_job(place, cache)
    with pytest.raises(OutputTakenError, match=r"lies inside .*out, which belongs to job"):
        run_job(place, cache, output=f"{place.output}/{below}")


def test_an_output_around_anothers_is_refused(place: Place, cache: Path) -> None:
    run_job(place, cache, output=f"{place.output}/inner")
    with pytest.raises(OutputTakenError, match="already holds"):
        run_job(place, cache)


def test_an_owner_whose_record_is_gone_refuses(place: Place, cache: Path) -> None:
    a_failed_job(place, cache)
    shutil.rmtree(f"{place.store}/jobs")
    with pytest.raises(OutputTakenError, match="has no record"):
        run_job(place, cache)


def test_an_owner_with_a_name_that_leads_elsewhere_refuses(place: Place, cache: Path) -> None:
    Path(place.output, "_tidegate").mkdir(parents=True)
    owner = Owner(job="../../models/double", store=place.store, revision=1, write_ids=("x",))
    Path(place.output, OWNER_KEY).write_bytes(dump(owner))
    with pytest.raises(OutputTakenError, match="is no job id"):
        run_job(place, cache)


def test_an_owner_whose_store_cannot_be_read_refuses(place: Place, cache: Path) -> None:
    Path(place.output, "_tidegate").mkdir(parents=True)
    blocked = Path(place.store).parent / "blocked"
    blocked.write_text("a file where a store must be a folder")
    owner = Owner(job="00112233445566aa", store=str(blocked), revision=1, write_ids=("x",))
    Path(place.output, OWNER_KEY).write_bytes(dump(owner))
    with pytest.raises(OutputTakenError, match="cannot be read"):
        run_job(place, cache)


def test_a_prefix_that_was_let_go_can_be_claimed(place: Place, cache: Path) -> None:
    released = Owner(job=None, store=place.store, revision=2, write_ids=("x",))
    Path(place.output, "_tidegate").mkdir(parents=True)
    Path(place.output, OWNER_KEY).write_bytes(dump(released))
    run_job(place, cache)
    assert_each_row_once(place.output, ROWS)
    assert owner_of(place).revision == 3


def test_a_job_that_lost_committed_rows_neither_resumes_nor_hands_its_output_on(
    place: Place, cache: Path
) -> None:
    record = a_failed_job(place, cache)
    for attempt in Path(place.output).glob("**/*.attempt"):
        attempt.unlink()
    with pytest.raises(Exception, match="was committed and is gone"):
        drive(record, parts_with(), cache)
    assert state_of(record) is State.FAILED
    with pytest.raises(JobConflictError, match="cannot be resumed"):
        drive(record, parts_with(), cache)
    with pytest.raises(OutputTakenError, match="lost committed rows"):
        run_job(place, cache)


class Intruding:
    """Opens stores; as soon as the output has an owner, somebody else's file is there, too."""

    def __init__(self, place: Place) -> None:
        self._output = place.output

    def __call__(self, url: str) -> ObjectStore:
        return _Intruding(open_store(url)) if url == self._output else open_store(url)


class _Intruding(FaultyObjectStore):
    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        written = super().put_if_absent(key, body)
        if key == OWNER_KEY:
            super().put_if_absent("somebody/elses.parquet", b"x")
        return written


def test_whoever_comes_in_at_the_same_time_is_seen_and_the_prefix_is_let_go(
    place: Place, cache: Path
) -> None:
    parts = parts_with(Intruding(place))
    record = submit(place.submission(), store_url=place.store, parts=parts)
    with pytest.raises(OutputTakenError, match=r"already holds 1 object: somebody/elses"):
        drive(record, parts, cache)
    assert owner_of(place).job is None
    assert state_of(record) is State.FAILED


def test_a_resume_needs_its_output_to_be_its_own(place: Place, cache: Path) -> None:
    record = a_failed_job(place, cache)
    other = Owner(job="00112233445566aa", store=place.store, revision=9, write_ids=("x",))
    Path(place.output, OWNER_KEY).write_bytes(dump(other))
    with pytest.raises(JobConflictError, match=r"does not belong to job .*, but to job 00112233"):
        drive(record, parts_with(), cache)


def test_a_strangers_manifest_is_neither_overwritten_nor_taken_for_ones_own(
    place: Place, cache: Path, tmp_path: Path
) -> None:
    strangers = dataclasses.replace(place, output=str(tmp_path / "other"))
    run_job(strangers, cache)
    record = a_failed_job(place, cache)
    manifest = Path(strangers.output, MANIFEST_KEY).read_bytes()
    Path(place.output, MANIFEST_KEY).write_bytes(manifest)
    with pytest.raises(OutputTakenError, match="is that of job"):
        drive(record, parts_with(), cache)
    assert Path(place.output, MANIFEST_KEY).read_bytes() == manifest
    Path(place.output, MANIFEST_KEY).unlink()
    drive(record, parts_with(), cache)
    assert_each_row_once(place.output, ROWS)


def test_every_place_above_an_output_is_looked_at() -> None:
    assert urls_above("/a/b/c") == ["/a/b", "/a", "/"]
    assert urls_above("s3://bucket/a/b") == ["s3://bucket/a", "s3://bucket"]
    assert urls_above("s3://bucket") == []
