"""All runs, interleaved: each round starts every server once, so that a slow minute hurts all."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate_loadtest.peers import h2load, wrk
from tidegate_loadtest.peers.load import LoadError, Measured
from tidegate_loadtest.peers.servers import Running, Server, ServerError, Site, running
from tidegate_loadtest.peers.work import Form, Work
from tidegate_loadtest.proof.gateway import Metrics, scrape

Say = Callable[[str], None]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement, and what was measured."""

    server: str
    model: str
    form: Form
    connections: int
    round: int
    measured: Measured
    batch_rows: float | None = None
    """Mean rows of a model call, of Tidegate alone: the others do not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure."""

    servers: Sequence[Server]
    works: Sequence[Work]
    forms: Sequence[Form]
    connections: Sequence[int]
    rounds: int
    seconds: int
    """Of each run."""

    def duration_s(self) -> int:
        """Return how long the load lasts, without the starts in between."""
        forms = sum(len([f for f in self.forms if f in s.forms]) for s in self.servers)
        return self.rounds * len(self.works) * forms * len(self.connections) * self.seconds


def measure(plan: Plan, site: Site, say: Say) -> Iterator[Run]:
    """Start one server at a time, and drive it; one that fails is named and left out."""
    for number in range(plan.rounds):
        for work in plan.works:
            for server in plan.servers:
                with tempfile.TemporaryDirectory(prefix=f"peer-{server.name}-") as folder:
                    try:
                        with running(server, site, work, Path(folder)) as found:
                            yield from _drive(plan, site, found, number)
                    except (ServerError, LoadError, OSError) as error:
                        say(f"left out: {server.name}, {work.name}: {error}")


def _drive(plan: Plan, site: Site, found: Running, number: int) -> Iterator[Run]:
    for form in plan.forms:
        if form not in found.server.forms:
            continue
        for connections in plan.connections:
            with _batches(found) as mean_rows:
                measured = _load(plan, site, found, form, connections)
            yield Run(
                server=found.server.name,
                model=found.work.name,
                form=form,
                connections=connections,
                round=number,
                measured=measured,
                batch_rows=mean_rows(),
            )


def _load(plan: Plan, site: Site, found: Running, form: Form, connections: int) -> Measured:
    if form is Form.GRPC:
        return h2load.drive(found, connections=connections, seconds=plan.seconds)
    script = site.scripts / "post.lua"
    return wrk.drive(found, form, connections=connections, seconds=plan.seconds, script=script)


@contextmanager
def _batches(found: Running) -> Iterator[Callable[[], float | None]]:
    """Count the rows of the model calls made meanwhile, where the server tells."""
    counts: list[Metrics] = []
    tells = found.server.environment is None
    if tells:
        counts.append(scrape(found.ports.admin))
    yield lambda: _mean_rows(*counts) if tells else None
    if tells:
        counts.append(scrape(found.ports.admin))


def _mean_rows(before: Metrics, after: Metrics) -> float | None:
    def grown(name: str) -> float:
        return after.sum(name) - before.sum(name)

    calls = grown("tidegate_batch_rows_count")
    return grown("tidegate_batch_rows_sum") / calls if calls else None


def grouped(runs: Sequence[Run]) -> Mapping[tuple[str, str, Form, int], Sequence[Run]]:
    """Put the rounds of each measurement together: by server, model, form and connections."""
    groups: dict[tuple[str, str, Form, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.server, run.model, run.form, run.connections), []).append(run)
    return groups
