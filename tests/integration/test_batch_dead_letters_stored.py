"""Dead letters and stores: in S3 as on a disk, and once for each bad row whatever fails."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.fakes.faulty_stores import FaultyStores
from tests.fakes.objects import DiesAfter, DiesBefore, Fault, Killed, LosesReply
from tests.fixtures.bad_rows import publish_ratios, ratio_place, write_rows_with
from tests.fixtures.batch_jobs import Place, drive, parts_with
from tidegate.errors import TidegateError
from tidegate.objects.opening import open_store
from tidegate_batch.core.names import dead_letters_prefix, job_id_of_token
from tidegate_batch.pipeline.driving import tidy_if_published
from tidegate_batch.pipeline.exporting_dead_letters import make_retry_input, write_dead_letters
from tidegate_batch.pipeline.reading_dead_letters import committed_dead_letters
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.verifying import verify
from tidegate_batch.ports import Stores

TOKEN = "nightly"
JOB = job_id_of_token(TOKEN)
BAD = {3: (20_000.0, 1.0), 4: (None, 1.0), 28: (20_000.0, 1.0)}


@pytest.fixture
def place(s3_url: str, tmp_path: Path) -> Place:
    """Hold the model and rows on each S3 server."""
    publish_ratios(f"{s3_url}/store", tmp_path / "model")
    write_rows_with(tmp_path / "rows.parquet", 30, BAD)
    open_store(s3_url).put_if_absent("in/rows.parquet", tmp_path / "rows.parquet")
    return Place(store=f"{s3_url}/store", input=f"{s3_url}/in/", output=f"{s3_url}/out")


def submitted(place: Place) -> JobRecord:
    submission = place.submission(chunk_rows=10, max_bad_rows="3", client_token=TOKEN)
    return submit(submission, store_url=place.store, parts=parts_with())


def dead_letter_files(record: JobRecord) -> set[str]:
    return set(record.store.keys(dead_letters_prefix(record.job)))


def named_files(record: JobRecord) -> set[str]:
    plan = record.plan()
    assert plan is not None
    return {file.key for _, file in committed_dead_letters(record, plan)}


def test_rows_that_failed_are_fetched_and_tried_again_from_a_bucket(
    place: Place, tmp_path: Path
) -> None:
    record = submitted(place)
    drive(record, parts_with(), tmp_path / "cache")
    assert verify(record, parts=parts_with()).is_sound
    plan = record.plan()
    assert plan is not None
    files = [file for _, file in committed_dead_letters(record, plan)]
    write_dead_letters(record.store, files, tmp_path / "bad.parquet")
    assert pq.read_table(tmp_path / "bad.parquet")["id"].to_pylist() == sorted(BAD)

    again = make_retry_input(record)
    assert make_retry_input(record) == again, "a second time changes nothing"
    assert (again.rows, again.unread) == (3, 0)
    publish_ratios(place.store, tmp_path / "better", entries=30_000)
    output = f"{place.output}-again"
    submission = place.submission(inputs=[again.url], output=output, max_bad_rows="1")
    second = submit(submission, store_url=place.store, parts=parts_with())
    drive(second, parts_with(), tmp_path / "cache")
    assert verify(second, parts=parts_with()).is_sound
    state = second.state()
    assert state is not None
    assert state.rows_dlq == 1


@pytest.mark.field_fault("B-08", "B-35")
@pytest.mark.parametrize("fault", [DiesBefore(), DiesAfter(), LosesReply()], ids=str)
def test_a_crash_or_a_lost_reply_at_dead_letters_leaves_each_bad_row_once(
    tmp_path: Path, fault: Fault
) -> None:
    undisturbed = FaultyStores(open_store)
    drive_on(ratio_place(tmp_path / "whole", 30, BAD), tmp_path, undisturbed)
    at = [number for number, call in enumerate(undisturbed.calls) if "/dead_letters/" in call]
    assert len(at) == 3, "two files are written, and listed when all is tidied"
    for number in at:
        place = ratio_place(tmp_path / str(number), 30, BAD)
        try:
            drive_on(place, tmp_path, FaultyStores(open_store, {number: fault}))
        except (Killed, TidegateError):
            drive_on(place, tmp_path, open_store)
        record = JobRecord(open_store(place.store), JOB)
        assert verify(record, parts=parts_with()).is_sound
        assert dead_letter_files(record) == named_files(record)
        assert len(named_files(record)) == 2


def drive_on(place: Place, folder: Path, stores: Stores) -> None:
    """Submit the job, or find it, and drive it to its end, unless it is there already."""
    parts = parts_with(stores)
    submission = place.submission(chunk_rows=10, max_bad_rows="3", client_token=TOKEN)
    record = submit(submission, store_url=place.store, parts=parts)
    if not tidy_if_published(record, parts):
        drive(record, parts, folder / "cache")
