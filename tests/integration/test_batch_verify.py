"""Looking at a job, and reading again what it published."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.fixtures.batch_jobs import (
    Place,
    SilentDisplay,
    SteppingClock,
    abandon,
    drive,
    new_place,
    parts_with,
    run_job,
    stopped_job,
)
from tidegate.objects.opening import open_store
from tidegate_batch.core.errors import JobConflictError, JobNotDrivenError, JobNotFoundError
from tidegate_batch.core.lease import LEASE_NS
from tidegate_batch.core.names import MANIFEST_KEY, ChunkId, JobId, commit_key
from tidegate_batch.core.records import Driver, dump
from tidegate_batch.core.states import State
from tidegate_batch.main import batch
from tidegate_batch.pipeline.identity import this_process
from tidegate_batch.pipeline.publishing import read_manifest
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.seat import take_seat
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.verifying import verify
from tidegate_batch.pipeline.watching import status_of, watch


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, 25, 25)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def part(place: Place, number: int) -> Path:
    return sorted(Path(place.output).glob("part-*"))[number]


def test_a_published_output_is_sound(place: Place, cache: Path) -> None:
    verdict = verify(run_job(place, cache, chunk_rows=20), parts=parts_with())
    assert (verdict.is_sound, verdict.rows, verdict.parts) == (True, 50, 4)


def one_byte_changes(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)


def rows_change_places(file: Path) -> None:
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows.slice(1), rows.slice(0, 1)]), file)


def copied_below(file: Path) -> None:
    copy = file.parent / "old/copy.PARQUET"
    copy.parent.mkdir()
    copy.write_bytes(file.read_bytes())


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte": (one_byte_changes, "part-000001-.* is not the file that was published"),
    "the order": (rows_change_places, "part-000001-.* is not the file that was published"),
    "missing": (Path.unlink, "part-000001-.* is missing"),
    "a stranger": (
        lambda file: file.with_name("part-000009-x.parquet").write_bytes(file.read_bytes()),
        r"part-000009-x\.parquet \(not this job's\) is not in the manifest",
    ),
    "a copy": (
        lambda file: file.with_name("copy.parquet").write_bytes(file.read_bytes()),
        r"copy\.parquet \(not this job's\) is not in the manifest",
    ),
    "a copy below": (copied_below, r"old/copy\.PARQUET \(not this job's\) is not in the manifest"),
    "no sign of success": (
        lambda file: file.with_name("_SUCCESS").unlink(),
        "_SUCCESS is missing",
    ),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_every_kind_of_damage_is_named(place: Place, cache: Path, damage: str) -> None:
    record = run_job(place, cache, chunk_rows=20)
    harm, message = DAMAGE[damage]
    harm(part(place, 1))
    verdict = verify(record, parts=parts_with())
    assert len(verdict.problems) == 1
    assert re.search(message, verdict.problems[0])


def test_rows_are_compared_with_the_plan_and_not_only_with_the_digest(
    place: Place, cache: Path
) -> None:
    record = run_job(place, cache, chunk_rows=20)
    rows_change_places(part(place, 1))
    forge(place, record, part(place, 1))
    (problem,) = verify(record, parts=parts_with()).problems
    assert re.search(r"part-000001-.* does not hold rows 12 to 24 of .*rows-00\.parquet", problem)


def forge(place: Place, record: JobRecord, file: Path) -> None:
    """Make manifest and commit say that these are the right bytes."""
    body = file.read_bytes()
    manifest = read_manifest(open_store(place.output))
    commit = record.commit(ChunkId("000001"))
    assert manifest is not None
    assert commit is not None
    sha256 = hashlib.sha256(body).hexdigest()
    entry = msgspec.structs.replace(manifest.parts[1], bytes=len(body), sha256=sha256)
    parts = (manifest.parts[0], entry, *manifest.parts[2:])
    forged = msgspec.structs.replace(manifest, parts=parts)
    Path(place.output, MANIFEST_KEY).write_bytes(dump(forged))
    lie = msgspec.structs.replace(commit, data=msgspec.structs.replace(commit.data, sha256=sha256))
    commit_file = Path(place.store, commit_key(record.job, ChunkId("000001")))
    commit_file.write_bytes(dump(lie))


def test_a_job_that_is_not_published_has_nothing_to_verify(place: Place, cache: Path) -> None:
    record = stopped_job(place, cache, KeyboardInterrupt())
    with pytest.raises(JobConflictError, match="has published nothing"):
        verify(record, parts=parts_with())


def test_a_published_job_whose_manifest_is_gone_is_not_sound(place: Place, cache: Path) -> None:
    record = run_job(place, cache)
    Path(place.output, MANIFEST_KEY).unlink()
    (problem,) = verify(record, parts=parts_with()).problems
    assert problem == f"_MANIFEST.json in {place.output} is gone, or another job's"


def test_an_output_that_is_not_sound_is_told_with_what_to_do(place: Place, cache: Path) -> None:
    record = run_job(place, cache)
    part(place, 0).unlink()
    Path(place.output, "_SUCCESS").unlink()
    answer = CliRunner().invoke(
        batch, ["verify", record.job, "--store", place.store], standalone_mode=False
    )
    first, *problems, last = answer.stdout.splitlines()
    assert (answer.return_value, first) == (1, f"job {record.job} is not sound: 2 problems")
    assert len(problems) == 2
    assert last.startswith("Restore the output from a backup, or submit the job again")


def test_the_status_counts_what_is_committed(place: Place, cache: Path) -> None:
    status = status_of(stopped_job(place, cache, KeyboardInterrupt()))
    assert (status.state, status.rows, status.rows_committed) == ("cancelled", 50, 16)
    assert (status.chunks, status.chunks_committed) == (6, 2)
    assert status.failure is not None
    assert status.failure.code == "interrupted"
    assert status.needs_resume


def test_a_job_that_is_not_there_is_not_found(place: Place) -> None:
    record = JobRecord(open_store(place.store), JobId("0" * 16))
    with pytest.raises(JobNotFoundError, match="no job 0000000000000000 in"):
        status_of(record)


def test_watching_ends_when_the_job_does(place: Place, cache: Path) -> None:
    record = submit(place.submission(), store_url=place.store, parts=parts_with())
    seat = take_seat(record, Driver(host="elsewhere", pid=1, process="x:1"), parts_with())
    clock = SteppingClock()
    looks: list[int] = []

    def pause(duration_ns: int) -> None:
        clock.advance(duration_ns)
        looks.append(clock.now_ns())
        if len(looks) == 3:
            seat.leave()
            drive(record, parts_with(), cache)

    clock.pause = pause  # type: ignore[method-assign] # the driver's work happens meanwhile
    status = watch(record, parts=parts_with(clock=clock), display=SilentDisplay())
    assert status.state == "published"
    assert len(looks) == 3


def test_watching_a_job_whose_driver_is_dead_says_so_instead_of_waiting_for_ever(
    place: Place,
) -> None:
    record = submit(place.submission(), store_url=place.store, parts=parts_with())
    abandon(take_seat(record, this_process(), parts_with()))
    clock = SteppingClock()
    with pytest.raises(JobNotDrivenError, match=r"nobody drives it.*tidegate batch resume"):
        watch(record, parts=parts_with(clock=clock), display=SilentDisplay())
    assert clock.now_ns() == LEASE_NS


def test_whoever_watches_a_job_that_is_publishing_is_told_so_and_no_number_again(
    place: Place, cache: Path
) -> None:
    record = run_job(place, cache)
    record.change_state(lambda now: msgspec.structs.replace(now, state=State.PUBLISHING))
    display = SilentDisplay()
    with pytest.raises(JobNotDrivenError):
        watch(record, parts=parts_with(), display=display)
    assert set(display.stages) == {"publishing"}
    assert display.shown == []
