"""The one place that picks adapters: for a driver, and for each of its workers."""

import os
import random
import secrets
import socket
import sys
from functools import lru_cache, partial
from pathlib import Path
from typing import Final
from zlib import crc32

from tidegate.clock.system import SystemClock, sleep_ns
from tidegate.objects.opening import open_store
from tidegate.objects.patient import Patience, PatientObjectStore
from tidegate.objects.port import ObjectStore
from tidegate.objects.rehearsing import FaultShares, RehearsingStore
from tidegate.units import NS_PER_SECOND
from tidegate_batch.pipeline.driving import Crew
from tidegate_batch.pipeline.engines.local import LocalEngine
from tidegate_batch.pipeline.loading import load_scorer
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.scoring import Scorer
from tidegate_batch.ports import Engine, WorkerSetup
from tidegate_batch.settings import BatchSettings
from tidegate_batch.sinks.files import FileSink
from tidegate_batch.sources.files import FileSource

_PATIENCE_NS: Final = 600 * NS_PER_SECOND
"""Of each call to a store that throttles or is away. The driver's own limit on time without a
commit (``batch.no_commit_limit_ms``, as long) ends the job before, and the workers with it."""


def build_parts(*, fault_share: float = 0.0, has_answered: bool = False) -> Parts:
    """Return the real stores, files, clocks and randomness.

    Args:
        fault_share: Of the calls to a store, those that fail on purpose; see the settings.
        has_answered: The stores have, to whoever started this process: they are waited for.
    """
    clock = SystemClock()
    stores = partial(_opened, fault_share=fault_share, has_answered=has_answered)
    return Parts(
        stores=stores,
        source=FileSource(stores),
        sink=FileSink(),
        clock=clock,
        wall=clock,
        pause=sleep_ns,
        new_id=lambda: secrets.token_hex(16),
    )


@lru_cache(maxsize=64)
def _opened(url: str, *, fault_share: float, has_answered: bool) -> ObjectStore:
    """Open a store once: an S3 client takes tens of milliseconds to make."""
    store = open_store(url)
    if fault_share:
        shares = FaultShares.of_share(fault_share)
        store = RehearsingStore(store, shares, seed=crc32(url.encode()) ^ os.getpid())
    clock, dice = SystemClock(), random.Random()
    patience = Patience(limit_ns=_PATIENCE_NS, clock=clock, pause=sleep_ns, dice=dice)
    return PatientObjectStore(store, patience, has_answered=has_answered)


def build_crew(settings: BatchSettings, *, cache_dir: Path) -> Crew:
    """Choose who scores on this machine."""
    cores = available_cores()
    workers = settings.workers or cores
    return Crew(
        engine=_engine(settings, cores=cores, workers=workers),
        workers=workers,
        threads=max(1, cores // workers),
        cache_dir=str(cache_dir),
        no_commit_limit_ns=settings.no_commit_limit_ns,
        notice=settings.notice,
        fault_share=settings.rehearse_faults,
    )


def available_cores() -> int:
    """Count the cores that this process may run on, which a container may have few of."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _engine(settings: BatchSettings, *, cores: int, workers: int) -> Engine:
    if settings.engine == "local":
        return LocalEngine(_python("worker"))
    from tidegate_batch.pipeline.engines.ray import RayEngine

    return RayEngine(build_scorer, cores=cores, workers=workers, address=settings.ray_address)


def _python(program: str) -> list[str]:
    # -P: no module of the current folder takes the place of one that is meant
    return [sys.executable, "-P", "-m", f"tidegate_batch.main.{program}"]


def build_scorer(setup: WorkerSetup) -> Scorer:
    """Make a worker of this process; see ``load_scorer``."""
    worker = f"{socket.gethostname()}:{os.getpid()}"
    parts = build_parts(fault_share=setup.fault_share)
    return load_scorer(setup, parts=parts, worker=worker, apart=_python("isolated"))
