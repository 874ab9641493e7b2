"""A whole job while its store throttles, loses replies, conflicts, resets and lists what is old."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.fakes.patience import patient
from tests.fixtures.batch_jobs import (
    Place,
    drive,
    inline_engine,
    parts_with,
    publish_doubling,
    table,
)
from tidegate.objects.opening import open_store
from tidegate.objects.port import ObjectStore
from tidegate.objects.rehearsing import FaultShares, RehearsingStore
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.verifying import verify

ROWS = 120


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> Place:
    """Put the model and a file of rows into each kind of store."""
    publish_doubling(f"{store_url}/store", tmp_path / "model")
    pq.write_table(table(range(ROWS)), tmp_path / "rows.parquet", row_group_size=10)
    open_store(f"{store_url}/in").put_if_absent("rows.parquet", tmp_path / "rows.parquet")
    return Place(store=f"{store_url}/store", input=f"{store_url}/in/", output=f"{store_url}/out")


class Rehearsal:
    """Opens stores of which many calls fail, each behind patience."""

    def __init__(self, share: float) -> None:
        self._share = share
        self.stores: dict[str, RehearsingStore] = {}
        self._patient: dict[str, ObjectStore] = {}

    def __call__(self, url: str) -> ObjectStore:
        if url not in self.stores:
            shares = FaultShares.of_share(self._share)
            self.stores[url] = RehearsingStore(open_store(url), shares, seed=len(self.stores))
            self._patient[url] = patient(self.stores[url])
        return self._patient[url]

    @property
    def faults(self) -> int:
        return sum(store.faults for store in self.stores.values())


@pytest.mark.field_fault("B-33", "B-35")
def test_a_job_survives_a_store_of_which_every_fifth_call_fails(
    place: Place, tmp_path: Path
) -> None:
    rehearsal = Rehearsal(0.2)
    parts = parts_with(rehearsal)
    record = submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts)
    engine = inline_engine(parts)
    drive(record, parts, tmp_path / "cache", engine=engine)
    assert rehearsal.faults > 30
    assert verify(record, parts=parts_with()).problems == ()
    chunks = [chunk for _, chunk in engine.assigned]
    assert len(chunks) == len(set(chunks)) == ROWS // 10, "no fault costs a chunk"
