"""What a fresh worker does first: read the plan, and load the model that the job is pinned to."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidegate.artifacts.store import ArtifactStore
from tidegate.errors import DigestMismatchError
from tidegate.ids import ModelName, ModelRef, Version
from tidegate.inference.model import Model
from tidegate.inference.opening import open_model
from tidegate_batch.core.errors import JobRecordError
from tidegate_batch.core.names import JobId
from tidegate_batch.pipeline.isolation import ProcessApart
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.scoring import Scorer
from tidegate_batch.ports import WorkerSetup


def load_scorer(
    setup: WorkerSetup, *, parts: Parts, worker: str, apart: Sequence[str] = ()
) -> Scorer:
    """Make a worker.

    Args:
        setup: What the driver says.
        parts: This process's stores, files and clocks.
        worker: How commits name this worker.
        apart: Starts a process for rows that may kill it; without it they are scored here.

    Raises:
        DigestMismatchError: The version is not the one that the job was pinned to.
        PartUnavailableError: The store could not be asked.
    """
    record = JobRecord(parts.stores(setup.store), JobId(setup.job))
    plan = record.plan()
    if plan is None:
        raise JobRecordError(f"job {setup.job} in {setup.store} has no plan to work on")
    model = load_model(setup, parts)
    scorer = Scorer(
        record=record, plan=plan, model=model, parts=parts, epoch=setup.epoch, worker=worker
    )
    scorer.apart = ProcessApart(apart, msgspec.json.encode(setup)) if apart else None
    return scorer


def load_model(setup: WorkerSetup, parts: Parts) -> Model:
    """Load the model that a job is pinned to.

    Raises:
        DigestMismatchError: The version is not the one that the job was pinned to.
        PartUnavailableError: The store could not be asked.
    """
    record = JobRecord(parts.stores(setup.store), JobId(setup.job))
    pinned = record.spec().model
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
    return model
