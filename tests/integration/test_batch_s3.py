"""Offline jobs with store, input and output in S3: an imitation in memory and a real server."""

import dataclasses
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fakes.faulty_stores import FaultyStores
from tests.fakes.objects import DiesAfter, Fault, Killed, LosesReply
from tests.fixtures.batch_jobs import (
    Place,
    drive,
    inline_engine,
    parts_with,
    publish_doubling,
    stopped_job,
    table,
)
from tidegate.errors import TidegateError
from tidegate.objects.opening import open_store
from tidegate_batch.core.errors import OutputTakenError
from tidegate_batch.core.names import job_id_of_token
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.collecting import find_leftovers
from tidegate_batch.pipeline.driving import tidy_if_published
from tidegate_batch.pipeline.engines.local import LocalEngine
from tidegate_batch.pipeline.listing import list_jobs
from tidegate_batch.pipeline.queueing import enqueue, leave_queue, waiting_jobs
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.verifying import verify

# the thread that renews a lease dies with its process, whenever it next asks a store
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
ROWS = 50
TOKEN = "nightly"
JOB = job_id_of_token(TOKEN)


@pytest.fixture
def place(s3_url: str, tmp_path: Path) -> Place:
    """Hold the model and rows on each S3 server."""
    return place_on(s3_url, tmp_path)


@pytest.fixture
def real_place(versitygw_url: str, tmp_path: Path) -> Place:
    """Hold the same on the real server only, for what takes long."""
    return place_on(versitygw_url, tmp_path)


def place_on(s3_url: str, tmp_path: Path) -> Place:
    """Put the model and two files of rows into a bucket."""
    publish_doubling(f"{s3_url}/store", tmp_path / "model")
    store = open_store(s3_url)
    for name, ids in (("a", range(30)), ("b", range(30, ROWS))):
        pq.write_table(table(ids), tmp_path / "rows.parquet", row_group_size=10)
        store.put_if_absent(f"in/{name}.parquet", tmp_path / "rows.parquet")
    return Place(store=f"{s3_url}/store", input=f"{s3_url}/in/", output=f"{s3_url}/out")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def run_whole_job(place: Place, cache: Path, stores: FaultyStores | None = None) -> None:
    parts = parts_with(stores or open_store)
    submission = place.submission(client_token=TOKEN, chunk_rows=20)
    record = submit(submission, store_url=place.store, parts=parts)
    if not tidy_if_published(record, parts):
        drive(record, parts, cache)


def assert_published(place: Place) -> None:
    record = JobRecord(open_store(place.store), JOB)
    assert verify(record, parts=parts_with()).problems == ()
    output = open_store(place.output)
    assert [key for key in output.keys("_tidegate/") if "owner" not in key] == []
    tables = []
    for key in output.keys("part-"):
        head = output.head(key)
        assert head is not None
        with output.open(key, etag=head.etag) as file:
            tables.append(pq.read_table(file))
    rows = pa.concat_tables(tables).sort_by("id")
    assert rows["id"].to_pylist() == list(range(ROWS))
    assert rows["_source"].to_pylist()[-1] == f"{place.input}b.parquet"


def test_a_job_publishes_each_row_once(place: Place, cache: Path) -> None:
    run_whole_job(place, cache)
    assert_published(place)


def test_worker_processes_take_everything_from_the_bucket(place: Place, cache: Path) -> None:
    parts = parts_with()
    submission = place.submission(client_token=TOKEN, chunk_rows=20)
    record = submit(submission, store_url=place.store, parts=parts)
    drive(
        record,
        parts,
        cache,
        engine=LocalEngine([sys.executable, "-m", "tidegate_batch.main.worker"]),
    )
    assert_published(place)


def forget_the_job(place: Place) -> None:
    store = open_store(place.store)
    for key in list(store.keys(f"jobs/{JOB}/")):
        store.delete(key)


STEPS = [
    "_tidegate/owner.json",
    "jobs/JOB/state.json",
    ".attempt",
    "jobs/JOB/commits/000001.json",
    "part-000001-JOB.parquet",
    "_MANIFEST.json",
]
"""Writes of every kind; the test on disk loses the reply to each single one."""
WRITES = ("put_if_absent", "replace", "copy", "delete")


def undisturbed_calls(place: Place, cache: Path) -> list[str]:
    """Return what a job asks of the stores whose model is cached, as it is when it is disturbed."""
    run_whole_job(place, cache)
    forget_the_job(place)
    stores = FaultyStores(open_store)
    run_whole_job(dataclasses.replace(place, output=f"{place.output}-again"), cache, stores)
    return stores.calls


def disturb(place: Place, cache: Path, number: int, kind: Fault) -> Place:
    """Spoil one call to the store, then submit again; return where the job wrote."""
    forget_the_job(place)
    elsewhere = dataclasses.replace(place, output=f"{place.output}-{number}")
    stores = FaultyStores(open_store, {number: kind})
    try:
        run_whole_job(elsewhere, cache, stores)
    except (Killed, TidegateError):
        run_whole_job(elsewhere, cache)
    assert len(stores.calls) > number, f"the job never came to call {number}"
    return elsewhere


@pytest.mark.field_fault("B-08")
def test_a_crash_after_any_write_is_healed_by_submitting_again(
    real_place: Place, cache: Path
) -> None:
    calls = undisturbed_calls(real_place, cache)
    writes = [number for number, call in enumerate(calls) if call.startswith(WRITES)]
    assert len(writes) > 20
    for number in writes:
        assert_published(disturb(real_place, cache, number, DiesAfter()))


@pytest.mark.field_fault("B-35")
def test_a_lost_reply_at_any_kind_of_step_is_healed_by_submitting_again(
    real_place: Place, cache: Path
) -> None:
    calls = undisturbed_calls(real_place, cache)
    for step in STEPS:
        ending = step.replace("JOB", JOB)
        number = next(
            number
            for number, call in enumerate(calls)
            if call.endswith(ending) and not call.startswith(("get", "head"))
        )
        assert_published(disturb(real_place, cache, number, LosesReply()))


def test_an_output_inside_anothers_is_refused(place: Place, cache: Path) -> None:
    run_whole_job(place, cache)
    inner = dataclasses.replace(place, output=f"{place.output}/inner")
    parts = parts_with()
    record = submit(inner.submission(), store_url=place.store, parts=parts)
    with pytest.raises(OutputTakenError, match="lies inside"):
        drive(record, parts, cache)


def test_a_stopped_job_is_resumed_and_then_its_prefix_is_not_free(
    place: Place, cache: Path
) -> None:
    record = stopped_job(place, cache, KeyboardInterrupt())
    parts = parts_with()
    engine = inline_engine(parts)
    drive(record, parts, cache, engine=engine)
    assert len(engine.assigned) == 3
    assert verify(record, parts=parts_with()).is_sound


def test_a_job_is_queued_listed_cancelled_resumed_and_tidied_in_a_bucket(
    place: Place, cache: Path
) -> None:
    parts = parts_with()
    store, asked = parts.stores(place.store), place.submission(client_token=TOKEN, chunk_rows=20)
    record = submit(asked, store_url=place.store, parts=parts)
    enqueue(record, parts)
    assert [waiting.job for waiting in waiting_jobs(store)] == [JOB]
    cancel(record, parts, by="a test")
    enqueue(record, parts)
    places = waiting_jobs(store)
    assert [place.revision > 0 for place in places] == [False, True], "it is queued anew"
    for waiting in places:
        leave_queue(store, waiting)
    assert waiting_jobs(store) == []
    drive(record, parts, cache)
    jobs, known = list_jobs(store, limit=5)
    assert ([job.state for job in jobs], known) == (["published"], 1)
    zombie = f"_tidegate/{JOB}/000000.{'0' * 32}.attempt"
    open_store(place.output).put_if_absent(zombie, b"late")
    assert [leftover.key for leftover in find_leftovers(store, parts).objects] == [zombie]
