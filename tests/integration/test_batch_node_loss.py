"""A machine of a Ray cluster vanishes in the midst of a job, with all that runs on it."""

import math
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.batch_jobs import assert_each_row_once, drive, new_place, parts_with
from tidegate_batch.main.wiring import build_scorer
from tidegate_batch.pipeline.engines.ray import RayEngine
from tidegate_batch.pipeline.submission import submit
from tidegate_batch.ports import Committed, WorkerEvent, WorkerLost, WorkerSaid

ROWS = 1000
MEMORY_BYTES = 80 << 20
HELD_S = 10.0


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Run a head that has one core; the folder's path is short, since sockets lie in it."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - after the engine has chosen the environment

    folder = Path("/tmp", f"tg-test-{secrets.token_hex(4)}")
    head = {"num_cpus": 1, "temp_dir": str(folder), "object_store_memory": MEMORY_BYTES}
    cluster: Any = Cluster(
        initialize_head=True, head_node_args={**head, "include_dashboard": False}
    )
    yield cluster
    cluster.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


class LosesNode(RayEngine):
    """Kills the second node once both workers have committed chunks.

    What they say is held back until both are there, for one alone could finish the job; and from
    the death of the node until the loss is known, or for some seconds.
    """

    def __init__(self, cluster: Any) -> None:  # noqa: ANN401 - Ray has no types
        super().__init__(build_scorer, cores=2, workers=2, address=cluster.address)
        self._cluster = cluster
        self._node = cluster.add_node(num_cpus=1, object_store_memory=MEMORY_BYTES)
        self.committed: list[int] = []
        self.lost: list[WorkerLost] = []
        self._held: list[WorkerEvent] = []
        self._held_until = math.inf
        self._seen: set[int] = set()

    def next_event(self, timeout_ns: int) -> WorkerEvent | None:
        is_held = self._is_holding
        if self._held and not is_held:
            return self._held.pop(0)
        event = super().next_event(timeout_ns)
        if isinstance(event, WorkerLost):
            self.lost.append(event)
        elif event is not None:
            self._seen.add(event.worker)
            if isinstance(event.message, Committed):
                self._on_committed(event)
            if is_held:
                self._held.append(event)
                return None
        return event

    @property
    def has_lost_node(self) -> bool:
        """Whether the second node has been killed."""
        return self._node is None

    @property
    def _is_holding(self) -> bool:
        if len(self._seen) < 2:
            return True
        return self.has_lost_node and not self.lost and time.monotonic() < self._held_until

    def _on_committed(self, event: WorkerSaid) -> None:
        self.committed.append(event.worker)
        if self._node is not None and set(self.committed) == {0, 1}:
            node, self._node = self._node, None
            self._cluster.remove_node(node, allow_graceful=False)
            self._held_until = time.monotonic() + HELD_S


@pytest.mark.field_fault("B-17")
def test_a_job_goes_on_where_a_node_of_its_cluster_vanishes(cluster: Any, tmp_path: Path) -> None:  # noqa: ANN401 - Ray has no types
    place, parts = new_place(tmp_path, ROWS, row_group_rows=10), parts_with()
    record = submit(place.submission(chunk_rows=10), store_url=place.store, parts=parts)
    engine = LosesNode(cluster)
    drive(record, parts, tmp_path / "cache", engine=engine)
    assert_each_row_once(place.output, ROWS)
    assert engine.has_lost_node
    lost = [event.worker for event in engine.lost]
    assert len(lost) <= 1, "what takes its place waits for a core, and nobody asks again and again"
    assert set(lost) <= {0, 1}
    assert len(engine.committed) <= ROWS / 10 + 1
