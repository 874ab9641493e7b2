"""What was loaded, how that went, and whether the store can be read: as Prometheus series."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.core import Metric

from tidegate_realtime.api.admin.families import counter, gauge
from tidegate_realtime.api.admin.scheduling import VERSION
from tidegate_realtime.core.lifecycle import Lifecycle


class HostCounts(Protocol):
    """What is read of ``ModelHost``."""

    @property
    def lifecycle(self) -> Lifecycle:
        """What there is now."""
        ...

    @property
    def loads(self) -> Mapping[tuple[str, str], int]:
        """How many ended, by model and outcome."""
        ...

    @property
    def load_seconds(self) -> Mapping[tuple[str, str], float]:
        """By model and version."""
        ...

    @property
    def alias_reads(self) -> Mapping[tuple[str, str], int]:
        """By model and result."""
        ...


def hosting_families(host: HostCounts) -> Iterator[Metric]:
    """Yield the state of every version, and the counts of what led there."""
    states = Counter((c.name, str(c.version), c.state.value) for c in host.lifecycle.copies)
    yield gauge(
        "tidegate_model_state",
        "How many copies of a version are in a state; docs/model-states.md says what each means.",
        (*VERSION, "state"),
        states.items(),
    )
    yield counter(
        "tidegate_model_loads",
        "Loads that ended; outcome is ready, or the code of the failure.",
        ("model", "outcome"),
        host.loads.items(),
    )
    yield gauge(
        "tidegate_model_load_seconds",
        "From the first byte fetched to ready, of each version that is loaded.",
        VERSION,
        host.load_seconds.items(),
    )
    yield counter(
        "tidegate_alias_reads",
        "Looks at the aliases in the store; failed means that nothing could change.",
        ("model", "result"),
        host.alias_reads.items(),
    )
