"""The process dies before or after each call to any store; whoever comes next finishes the job.

Readers see each row once, and nothing of a job that is not published is ever taken for output.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fakes.faulty_stores import FaultyStores, RefusingStores
from tests.fakes.objects import DiesAfter, DiesBefore, Fault, Killed, LosesReply
from tests.fixtures.batch_jobs import (
    Place,
    assert_each_row_once,
    drive,
    new_place,
    parts_with,
    published_rows,
)
from tidegate.errors import TidegateError
from tidegate.objects.opening import open_store
from tidegate_batch.core.names import job_id_of_token
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.driving import tidy_if_published
from tidegate_batch.pipeline.publishing import read_manifest
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.ports import Stores

pytestmark = [
    pytest.mark.field_fault("B-08"),
    pytest.mark.field_fault("B-09"),
    # the thread that renews a lease dies with its process, whenever it next asks a store
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
ROWS = 50
TOKEN = "nightly"
JOB = job_id_of_token(TOKEN)
WRITES = ("put_if_absent", "replace", "copy", "delete")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hold a store with the model, and two files of rows that make three chunks."""
    folder = tmp_path_factory.mktemp("origin")
    new_place(folder, 30, 20, row_group_rows=10)
    return folder


@pytest.fixture(scope="module")
def calls(origin: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """List every call to a store that an undisturbed job makes."""
    stores = FaultyStores(open_store)
    submit_and_drive(copy_of(origin, tmp_path_factory.mktemp("undisturbed") / "job"), stores)
    return stores.calls


def copy_of(origin: Path, folder: Path) -> Place:
    shutil.copytree(origin, folder)
    return Place(store=str(folder / "store"), input=str(folder / "in"), output=str(folder / "out"))


def submit_and_drive(place: Place, stores: Stores) -> None:
    """Do all that ``tidegate batch submit --wait`` does, as one process."""
    parts = parts_with(stores)
    submission = place.submission(client_token=TOKEN, chunk_rows=20)
    record = submit(submission, store_url=place.store, parts=parts)
    if not tidy_if_published(record, parts):
        drive(record, parts, Path(place.store) / "cache")


def resume(place: Place) -> None:
    """Do all that ``tidegate batch resume --wait`` does, as another process."""
    parts = parts_with()
    record = JobRecord(open_store(place.store), JOB)
    if not tidy_if_published(record, parts):
        drive(record, parts, Path(place.store) / "cache")


def assert_nothing_is_half_published(place: Place) -> None:
    """Before recovery: a manifest names only whole parts, and no row is visible twice."""
    manifest = read_manifest(open_store(place.output))
    parts = sorted(path.name for path in Path(place.output).glob("**/*.parquet"))
    if manifest is not None:
        assert parts == [part.key for part in manifest.parts]
    if parts:
        ids = published_rows(place.output)["id"].to_pylist()
        assert len(ids) == len(set(ids))


def assert_published_and_tidy(place: Place) -> None:
    assert_each_row_once(place.output, ROWS)
    state = JobRecord(open_store(place.store), JOB).state()
    assert state is not None
    assert state.state is State.PUBLISHED
    left = [key for key in open_store(place.output).keys("_tidegate/") if "owner" not in key]
    assert left == []


def crashes(calls: list[str]) -> list[Mapping[int, Fault]]:
    """Die before and after each call that changes something; a call that reads changes nothing."""
    writes = [number for number, call in enumerate(calls) if call.startswith(WRITES)]
    kinds: list[Fault] = [DiesBefore(), DiesAfter()]
    return [{number: kind} for number in writes for kind in kinds]


@pytest.mark.field_fault("B-12")
@pytest.mark.field_fault("B-13")
def test_a_crash_at_any_step_is_healed_by_a_resume(
    origin: Path, calls: list[str], tmp_path: Path
) -> None:
    for number, faults in enumerate(crashes(calls)):
        place = copy_of(origin, tmp_path / str(number))
        stores = FaultyStores(open_store, faults)
        with pytest.raises(Killed):
            submit_and_drive(place, stores)
        assert_nothing_is_half_published(place)
        has_spec = open_store(place.store).head(f"jobs/{JOB}/spec.json") is not None
        if has_spec:
            resume(place)
        else:
            submit_and_drive(place, FaultyStores(open_store))
        assert_published_and_tidy(place)
        shutil.rmtree(tmp_path / str(number))


def test_a_crash_at_any_step_is_healed_by_submitting_again_with_the_same_token(
    origin: Path, calls: list[str], tmp_path: Path
) -> None:
    for number, faults in enumerate(crashes(calls)):
        if number % 3:  # another way in, the same steps: a third of them will do
            continue
        place = copy_of(origin, tmp_path / str(number))
        with pytest.raises(Killed):
            submit_and_drive(place, FaultyStores(open_store, faults))
        submit_and_drive(place, FaultyStores(open_store))
        assert_published_and_tidy(place)
        shutil.rmtree(tmp_path / str(number))


@pytest.mark.field_fault("B-35")
def test_a_write_whose_reply_is_lost_is_never_done_twice(
    origin: Path, calls: list[str], tmp_path: Path
) -> None:
    for number, call in enumerate(calls):
        if not call.startswith(WRITES):
            continue
        place = copy_of(origin, tmp_path / str(number))
        stores = FaultyStores(open_store, {number: LosesReply()})
        try:
            submit_and_drive(place, stores)
        except TidegateError:
            assert_nothing_is_half_published(place)
            submit_and_drive(place, FaultyStores(open_store))
        record = JobRecord(open_store(place.store), JOB)
        state = record.state()
        if state is not None and state.state is State.FAILED:
            resume(place)
        assert_each_row_once(place.output, ROWS)
        shutil.rmtree(tmp_path / str(number))


@pytest.mark.field_fault("B-35")
def test_a_write_that_is_refused_because_it_landed_before_counts_as_done(
    origin: Path, calls: list[str], tmp_path: Path
) -> None:
    for number, call in enumerate(calls):
        if not call.startswith(("put_if_absent", "replace")) or "preflight" in call:
            continue
        place = copy_of(origin, tmp_path / str(number))
        submit_and_drive(place, RefusingStores(open_store, number))
        assert_published_and_tidy(place)
        state = JobRecord(open_store(place.store), JOB).state()
        assert state is not None
        moves = [move.to for move in state.moves]
        assert moves == ["planned", "running", "publishing", "published"], f"twice: {call}"
        shutil.rmtree(tmp_path / str(number))


def test_two_crashes_in_a_row_are_healed_too(
    origin: Path, calls: list[str], tmp_path: Path
) -> None:
    for first in range(10, len(calls), 9):
        place = copy_of(origin, tmp_path / str(first))
        with pytest.raises(Killed):
            submit_and_drive(place, FaultyStores(open_store, {first: DiesAfter()}))
        for second in (30, 45):
            stores = FaultyStores(open_store, {second: DiesAfter()})
            try:
                submit_and_drive(place, stores)
            except Killed:
                continue
        submit_and_drive(place, FaultyStores(open_store))
        assert_published_and_tidy(place)
