"""Memory that does not suffice, and devices that are lost: no row is blamed, and none is lost."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.fakes.engines import InlineEngine
from tests.fixtures import onnx_models
from tests.fixtures.bad_rows import answers_by_id, publish_for_a_and_b, ratio_place
from tests.fixtures.batch_jobs import drive, parts_with, run_job
from tidegate.ids import Digest, ModelName, ModelTag, Version
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.model import Model
from tidegate.inference.runner import (
    DeviceLostError,
    ModelRunner,
    OutOfMemoryError,
    RunControl,
)
from tidegate_batch.core.chunks import RETRY_LIMIT
from tidegate_batch.core.errors import ChunkFailedError
from tidegate_batch.core.names import JobId
from tidegate_batch.pipeline.parts import Parts, pinned_manifest
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.scoring import Scorer
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.pipeline.verifying import verify
from tidegate_batch.ports import WorkerSetup


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def assert_sound(record: JobRecord) -> None:
    verdict = verify(record, parts=parts_with())
    assert verdict.is_sound, verdict.problems


def test_a_batch_that_takes_too_much_memory_is_halved_and_no_row_is_lost(
    tmp_path: Path, cache: Path
) -> None:
    place = ratio_place(tmp_path, 300)
    model = onnx_models.hungry(tmp_path / "hungry.onnx", rows=40)
    publish_for_a_and_b(model, place.store)
    record = run_job(place, cache)
    files = list(Path(place.output).glob("part-*"))
    assert [row["id"] for row in pq.read_table(files).to_pylist()] == list(range(300))
    assert_sound(record)


class StarvingRunner:
    """A loaded model for whose calls there is never enough memory."""

    def __init__(self, real: ModelRunner) -> None:
        self.signature = real.signature

    def run(self, inputs: Tensors, control: RunControl | None = None) -> dict[str, Array]:
        raise OutOfMemoryError(f"no memory for {len(inputs['input'])} rows, on purpose")


class LosingRunner:
    """A loaded model whose device is lost in a certain call, and with it the process."""

    def __init__(self, real: ModelRunner, calls: Iterator[int], *, lost_at: int) -> None:
        self.signature = real.signature
        self._real = real
        self._calls = calls
        self._lost_at = lost_at
        self._is_lost = False

    def run(self, inputs: Tensors, control: RunControl | None = None) -> dict[str, Array]:
        self._is_lost = self._is_lost or next(self._calls) == self._lost_at
        if self._is_lost:
            raise DeviceLostError("an illegal memory access, on purpose")
        return self._real.run(inputs, control)


def engine_with(
    parts: Parts, change: Callable[[ModelRunner], StarvingRunner | LosingRunner]
) -> InlineEngine:
    """Return workers whose model runs on something else."""

    def build(setup: WorkerSetup) -> Scorer:
        record = JobRecord(parts.stores(setup.store), JobId(setup.job))
        plan, pinned = record.plan(), record.spec().model
        assert plan is not None
        runner = ModelRunner.load(Path(setup.store, "models/double/1/model.onnx"), threads=1)
        model = Model(
            manifest=pinned_manifest(parts, setup.store, pinned),
            tag=ModelTag(ModelName(pinned.name), Version(pinned.version), Digest(pinned.digest)),
            runner=change(runner),  # type: ignore[arg-type] # stands in for one
        )
        return Scorer(record=record, plan=plan, model=model, parts=parts, epoch=1, worker="fake")

    return InlineEngine(build, pause=parts.pause)


def test_want_of_memory_for_a_single_row_is_tried_again_and_never_a_dead_letter(
    tmp_path: Path, cache: Path
) -> None:
    place, parts = ratio_place(tmp_path, 8), parts_with()
    record = submit(place.submission(max_bad_rows="100%"), store_url=place.store, parts=parts)
    engine = engine_with(parts, StarvingRunner)
    with pytest.raises(ChunkFailedError, match=r"rows.parquet, rows 0 to 7: .* fewer --workers"):
        drive(record, parts, cache, engine=engine)
    assert len(engine.assigned) == RETRY_LIMIT, "another worker may have more room"
    state = record.state()
    assert state is not None
    assert state.failure is not None
    assert state.failure.code == "out_of_memory"
    assert not Path(place.store, "jobs", record.job, "dead_letters").exists()


@pytest.mark.field_fault("B-06")
def test_a_worker_whose_device_is_lost_leaves_and_is_replaced_and_no_row_is_blamed(
    tmp_path: Path, cache: Path
) -> None:
    place, parts = ratio_place(tmp_path, 100), parts_with()
    submission = place.submission(chunk_rows=10)
    record = submit(submission, store_url=place.store, parts=parts)
    calls = itertools.count()
    engine = engine_with(parts, lambda runner: LosingRunner(runner, calls, lost_at=4))
    drive(record, parts, cache, engine=engine)
    assert len(engine.workers) == 2 + 1
    assert len(engine.assigned) == 10 + 1
    assert answers_by_id(place.output) == {row: float(row) for row in range(100)}
    assert_sound(record)
