"""Runs the contenders in turns, each alone, and counts what it wrote."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from tidegate.clock import Clock
from tidegate.objects.opening import open_store
from tidegate.units import NS_PER_SECOND
from tidegate_loadtest.batch.contenders import OURS, Asked, Contender, command, tidegate
from tidegate_loadtest.batch.job import spent_by
from tidegate_loadtest.batch.work import (
    is_each_once,
    keys_at,
    transform_file,
    write_model,
    write_rows,
)
from tidegate_loadtest.peers.work import Work, model_file

_TOLERANCE: Final = "1e-3"
"""How far answers of a network this wide may depend on their batch-mates."""
_SLOWEST_ROWS_PER_S: Final = 300
_SLOWEST_START_S: Final = 180
"""Whoever takes longer than both together has hung."""
_TOLD: Final = 1_500
"""Characters of what a program said before it failed."""


class ContenderError(Exception):
    """A contender ended without all answers; the message holds what it said."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One contender on one work, once."""

    contender: Contender
    work: str
    round: int
    """Counted from 0."""
    rows: int
    whole_s: float
    """From the start of its process to the end of it."""
    working_s: float
    """Of that, since its models were loaded and its first rows were at hand."""
    split_s: dict[str, float] = {}
    """Of Tidegate: where the time of all chunks went, by part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where everything lies."""

    folder: Path
    """Empty at first."""
    peers: Path
    """The programs of the other contenders."""
    s3: str | None
    """A prefix on an S3 server that the environment describes; ``None``: there is none."""
    cores: int

    def home(self, contender: Contender) -> str:
        """Return the folder or prefix of a contender's input, output and store."""
        if contender is not Contender.TIDEGATE_S3:
            return str(self.folder)
        if self.s3 is None:
            raise ContenderError("there is no S3 server here")
        return self.s3

    def rows_of(self, contender: Contender, work: Work) -> str:
        """Return where a contender's rows lie."""
        kind = "few" if contender is Contender.SCALAR else "rows"
        return f"{self.home(contender)}/{kind}/{work.name}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured."""

    works: Sequence[Work]
    contenders: Mapping[str, Sequence[Contender]]
    """By the name of the work."""
    rows: int
    scalar_rows: int
    """Of the scalar loop alone."""
    rounds: int


def prepare(plan: Plan, site: Site) -> None:
    """Write models and rows, and publish the models, on the disk and on S3."""
    for work in plan.works:
        model = write_model(site.folder, work)
        write_rows(site.folder / "rows" / work.name, work, plan.rows)
        write_rows(site.folder / "few" / work.name, work, plan.scalar_rows)
        _publish(model, f"{site.folder}/store")
        if Contender.TIDEGATE_S3 in plan.contenders[work.name]:
            home = site.home(Contender.TIDEGATE_S3)
            _publish(model, f"{home}/store")
            for file in sorted((site.folder / "rows" / work.name).iterdir()):
                open_store(home).put_if_absent(f"rows/{work.name}/{file.name}", file)


def measure(plan: Plan, site: Site, clock: Clock, say: Callable[[str], None]) -> Iterator[Run]:
    """Yield each run as it ends; who fails is told, and left out of that round."""
    for turn in range(plan.rounds):
        for work in plan.works:
            for contender in plan.contenders[work.name]:
                try:
                    yield _run(contender, work, turn, site, plan, clock)
                except ContenderError as error:
                    say(f"{work.name}: {contender} gave no figure: {error}")


def _run(contender: Contender, work: Work, turn: int, site: Site, plan: Plan, clock: Clock) -> Run:
    rows = plan.scalar_rows if contender is Contender.SCALAR else plan.rows
    name = f"{contender}-{work.name}-{turn}"
    home = site.home(contender)
    asked = Asked(
        model=model_file(site.folder, work),
        rows=site.rows_of(contender, work),
        output=f"{home}/out/{name}",
        store=f"{home}/store",
        token=name,
        cores=site.cores,
    )
    (site.folder / "out").mkdir(exist_ok=True)
    began_at_ns = clock.now_ns()
    told = _ended(command(contender, asked, site.peers), site, rows)
    whole_s = (clock.now_ns() - began_at_ns) / NS_PER_SECOND
    if not is_each_once(keys_at(asked.output), rows):
        raise ContenderError(
            f"the keys of its output are not those of the {rows:,} rows, once each"
        )
    working_s, split_s = told.get("working_s", 0.0), {}
    if contender in OURS:
        spent = spent_by(asked.store, told["job"])
        working_s, split_s = spent.working_s, spent.split_s
    _remove(asked.output)
    return Run(
        contender=contender,
        work=work.name,
        round=turn,
        rows=rows,
        whole_s=whole_s,
        working_s=working_s,
        split_s=split_s,
    )


def _ended(line: Sequence[str], site: Site, rows: int) -> Any:  # noqa: ANN401 - JSON of whatever shape
    """Run a program to its end, and return the JSON that its output ends in."""
    limit_s = _SLOWEST_START_S + rows / _SLOWEST_ROWS_PER_S
    environment = {**os.environ, "TIDEGATE_CACHE_DIR": str(site.folder / "cache")}
    environment.pop("PYTHONSAFEPATH", None)  # the programs of others import what lies beside them
    with subprocess.Popen(
        line,
        env=environment,
        cwd=site.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that its workers can be ended with it
    ) as program:
        try:
            told, complaints = program.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            raise ContenderError(f"it had not ended after {limit_s:.0f} s") from None
        except KeyboardInterrupt:
            os.killpg(program.pid, signal.SIGTERM)
            raise
    if program.returncode != 0:
        raise ContenderError(f"status {program.returncode}: {complaints.strip()[-_TOLD:]}")
    return json.loads(told[told.index("{") :])


def _publish(model: Path, store: str) -> None:
    line = [tidegate(), "model", "publish", model.stem, str(model), "--alias", "stable"]
    line += ["--tolerance", _TOLERANCE, "--store", store]
    if transform_file(model).exists():
        line += ["--transform", str(transform_file(model))]
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)


def _remove(output: str) -> None:
    if not output.startswith("s3://"):
        shutil.rmtree(output)
        return
    store = open_store(output)
    for key in list(store.keys("")):
        store.delete(key)
