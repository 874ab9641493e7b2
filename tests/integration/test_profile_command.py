"""``tidegate profile``: from a published model to a file that the others replay."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures import onnx_models
from tidegate.cli import run
from tidegate.cli.exits import ExitCode
from tidegate.clock import ManualClock
from tidegate.errors import BackendError
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.runner import RunControl
from tidegate.profiles import Table, load_profile
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate_realtime.main.measuring import measure

Captured = pytest.CaptureFixture[str]
MS = 1_000_000
SECOND = 1_000 * MS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Path:
    """A working folder whose store has a model ``echo``."""
    monkeypatch.chdir(tmp_path)
    onnx_models.echo(tmp_path / "echo.onnx")
    assert run(["model", "publish", "echo", "echo.onnx", "--alias", "stable"]) == ExitCode.OK
    capsys.readouterr()
    return tmp_path


def profiled(*arguments: str) -> int:
    return run(["profile", "echo", "--budget-s", "0.02", *arguments])


def test_a_published_model_is_measured_into_a_file_that_can_be_replayed(
    folder: Path, capsys: Captured
) -> None:
    assert profiled("--threads", "1") == ExitCode.OK
    profile = load_profile("echo-1.profile.json")
    assert isinstance(profile.law, Table)
    assert profile.name == profile.origin.model == "echo@1"
    assert profile.origin.status == "measured"
    assert "onnxruntime" in profile.origin.source
    assert "1 thread(s)" in profile.origin.hardware
    assert profile.allowed_sizes is not None
    assert profile.allowed_sizes[:3] == (1, 2, 4)
    for size in profile.law.sizes:
        assert size.runs is not None
        assert size.runs >= 2
        assert size.p50_ms is not None
        assert size.p99_ms is not None
        assert 0 < size.p50_ms <= size.p99_ms

    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].startswith("echo@1 (sha256:")
    assert " ".join(lines[1].split()) == "rows runs mean ms p50 ms p99 ms rows/s"
    rows = [line.split() for line in lines[2:-1]]
    assert [int(row[0]) for row in rows] == list(profile.allowed_sizes)
    assert sum("<-" in row and "knee" in row for row in rows) == 1
    assert lines[-1] == "written to echo-1.profile.json"
    assert "measuring batches of 1 row(s)" in captured.err.splitlines()


def test_the_answer_in_json_has_the_profile_and_the_knee(folder: Path, capsys: Captured) -> None:
    assert profiled("--out", "mine.json", "--json") == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert answer["model"] == "echo@1"
    assert answer["digest"].startswith("sha256:")
    assert answer["file"] == "mine.json"
    assert answer["profile"] == json.loads((folder / "mine.json").read_text())
    assert answer["knee_rows"] in [size["rows"] for size in answer["profile"]["law"]["sizes"]]


def test_a_plot_is_drawn_beside_it(folder: Path, capsys: Captured) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not here; get it by: make setup")
    assert profiled("--plot", "echo.svg") == ExitCode.OK
    assert capsys.readouterr().out.splitlines()[-1] == "drawn in echo.svg"
    drawn = (folder / "echo.svg").read_text()
    assert drawn.startswith("<?xml")
    assert "<svg" in drawn


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--out", "absent/x.json"), "absent/x.json cannot be written: there is no folder absent"),
        (("--plot", "x.bmp"), "expected a file that ends in one of .svg, .png, .pdf"),
        (("--threads", "0"), "--threads"),
    ],
)
def test_what_could_not_be_written_is_refused_before_anything_is_measured(
    arguments: tuple[str, ...], reason: str, folder: Path, capsys: Captured
) -> None:
    assert profiled(*arguments) == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_a_model_that_is_not_there_is_named(folder: Path, capsys: Captured) -> None:
    assert run(["profile", "risk"]) == ExitCode.FAILED
    assert "no model 'risk'" in capsys.readouterr().err


class Stub:
    """A model that takes 5 ms and 1 for each row, until it cannot any more."""

    def __init__(
        self,
        clock: ManualClock,
        *,
        fixed_rows: int = -1,
        most_rows: int = 10**6,
        calls: int = 10**6,
    ) -> None:
        spec = TensorSpec(name="x", datatype="FP32", shape=(fixed_rows, 2))
        self.signature = Signature(inputs=(spec,), outputs=(spec,))
        self.most_rows = most_rows
        self._clock = clock
        self._seen: set[int] = set()
        self._calls_left = calls

    def reopened(self) -> "Stub":
        return self

    def run(self, inputs: Tensors, control: RunControl | None = None) -> dict[str, Array]:
        self.signature.check(inputs)
        rows = len(inputs["x"])
        self._calls_left -= 1
        if rows > self.most_rows or self._calls_left < 0:
            raise BackendError("out of memory")
        self._clock.advance((5 + rows) * MS if rows in self._seen else SECOND)
        self._seen.add(rows)
        return {"x": np.array(inputs["x"])}


def test_the_times_are_those_of_the_calls_without_each_sizes_first() -> None:
    clock = ManualClock()
    sizes = measure(Stub(clock), budget_ns=90 * SECOND, clock=clock, tell=lambda _: None)
    assert [size.rows for size in sizes] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    for size in sizes:
        assert size.mean_ms == size.p50_ms == size.p99_ms == 5 + size.rows
        assert (size.std_ms, size.runs) == (0, 20)


def test_a_size_that_fails_is_told_of_and_left_out() -> None:
    clock, told = ManualClock(), list[str]()
    model = Stub(clock, most_rows=8)
    sizes = measure(model, budget_ns=SECOND, clock=clock, tell=told.append)
    assert [size.rows for size in sizes] == [1, 2, 4, 8]
    assert "batches of 16 rows fail and are left out: out of memory" in told


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_model_that_does_not_even_run_the_smallest_batch_is_an_error(calls: int) -> None:
    clock = ManualClock()
    with pytest.raises(BackendError, match="out of memory"):
        measure(Stub(clock, calls=calls), budget_ns=SECOND, clock=clock, tell=lambda _: None)


def test_a_model_of_fixed_rows_is_measured_at_these() -> None:
    clock = ManualClock()
    model = Stub(clock, fixed_rows=8)
    (size,) = measure(model, budget_ns=SECOND, clock=clock, tell=lambda _: None)
    assert size.rows == 8
