"""The one place that picks adapters: for a driver, and for each of its workers."""

import os
import secrets
import socket
import sys
from functools import lru_cache
from pathlib import Path

from tidegate.clock.system import SystemClock, sleep_ns
from tidegate.objects.opening import open_store
from tidegate.objects.port import ObjectStore
from tidegate_batch.pipeline.driving import Crew
from tidegate_batch.pipeline.engines.local import LocalEngine
from tidegate_batch.pipeline.loading import load_scorer
from tidegate_batch.pipeline.parts import Parts
from tidegate_batch.pipeline.scoring import Scorer
from tidegate_batch.ports import Engine, WorkerSetup
from tidegate_batch.settings import BatchSettings
from tidegate_batch.sinks.files import FileSink
from tidegate_batch.sources.files import FileSource


def build_parts() -> Parts:
    """Return the real stores, files, clocks and randomness."""
    clock = SystemClock()
    return Parts(
        stores=_opened,
        source=FileSource(_opened),
        sink=FileSink(),
        clock=clock,
        wall=clock,
        pause=sleep_ns,
        new_id=lambda: secrets.token_hex(16),
    )


@lru_cache(maxsize=64)
def _opened(url: str) -> ObjectStore:
    """Open a store once: an S3 client takes tens of milliseconds to make."""
    return open_store(url)


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
    )


def available_cores() -> int:
    """Count the cores that this process may run on, which a container may have few of."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _engine(settings: BatchSettings, *, cores: int, workers: int) -> Engine:
    if settings.engine == "local":
        # -P: no module of the current folder takes the place of one that is meant
        return LocalEngine([sys.executable, "-P", "-m", "tidegate_batch.main.worker"])
    from tidegate_batch.pipeline.engines.ray import RayEngine

    return RayEngine(build_scorer, cores=cores, workers=workers)


def build_scorer(setup: WorkerSetup) -> Scorer:
    """Make a worker of this process; see ``load_scorer``."""
    worker = f"{socket.gethostname()}:{os.getpid()}"
    return load_scorer(setup, parts=build_parts(), worker=worker)
