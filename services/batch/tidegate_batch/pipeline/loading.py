"""What a fresh worker does first: read the plan, and load the model that the job is pinned to."""

from pathlib import Path

from tidegate.artifacts.store import ArtifactStore
from tidegate.errors import DigestMismatchError
from tidegate.ids import ModelName, ModelRef, Version
from tidegate.inference.opening import open_model
from tidegate_batch.core.errors import JobRecordError
from tidegate_batch.core.names import JobId
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.scoring import Scorer
from tidegate_batch.ports import WorkerSetup


def load_scorer(setup: WorkerSetup, *, parts: Parts, worker: str) -> Scorer:
    """Make a worker.

    Args:
        setup: What the driver says.
        parts: This process's stores, files and clocks.
        worker: How commits name this worker.

    Raises:
        DigestMismatchError: The version is not the one that the job was pinned to.
        PartUnavailableError: The store could not be asked.
    """
    record = JobRecord(parts.stores(setup.store), JobId(setup.job))
    plan, pinned = record.plan(), record.spec().model
    if plan is None:
        raise JobRecordError(f"job {setup.job} in {setup.store} has no plan to work on")
    model = open_model(
        ArtifactStore(record.store),
        ModelRef(ModelName(pinned.name), Version(pinned.version)),
        cache=Path(setup.cache_dir),
        threads=setup.threads,
    )
    if model.tag.digest != pinned.digest:
        raise DigestMismatchError.of_file(
            f"manifest.json of {pinned}", expected=pinned.digest, found=model.tag.digest
        )
    return Scorer(
        record=record, plan=plan, model=model, parts=parts, epoch=setup.epoch, worker=worker
    )
