"""The comparison of offline jobs: its commands, what a record says, medians and verdicts."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from tests.project import ROOT
from tidegate_batch.pipeline.answering import MOST_BATCH_BYTES, MOST_BATCH_ROWS
from tidegate_loadtest.batch.contenders import SAME_ROWS, Asked, Contender, command
from tidegate_loadtest.batch.job import spent
from tidegate_loadtest.batch.judging import HEAD, judge, rows_of
from tidegate_loadtest.batch.measuring import ContenderError, Run, Site
from tidegate_loadtest.batch.work import WORKS, is_each_once, write_rows
from tidegate_loadtest.peers.work import SMALL, WIDE
from tidegate_loadtest.proof.targets import Line

RUN = Run(
    contender=Contender.BARE, work=WIDE.name, round=0, rows=1_000_000, whole_s=110, working_s=100
)
ASKED = Asked(
    model=Path("wide.onnx"), rows="in/", output="out", store="store", token="night", cores=2
)


def run(contender: Contender, work: str = WIDE.name, **other: Any) -> Run:  # noqa: ANN401 - fields of a Run
    return replace(RUN, contender=contender, work=work, **other)


def verdicts(*runs: Run) -> dict[tuple[str, str], Line]:
    return {(line.where, line.what): line for line in judge(rows_of(runs))}


def test_the_median_of_the_rounds_counts() -> None:
    rows = rows_of([run(Contender.BARE, round=i, whole_s=s) for i, s in enumerate((90, 500, 100))])
    (row,) = rows.values()
    assert (row.runs, row.whole_s, row.whole_rows_per_s) == (3, 100, 10_000)


def test_a_line_of_the_table_stands_under_its_head() -> None:
    (row,) = rows_of([RUN]).values()
    assert row.text() == (
        "wide   bare               1,000,000     1     110.0       9,091     100.0      10,000"
    )
    assert len(row.text()) == len(HEAD)


def test_without_figures_nothing_is_ok_and_nothing_is_short() -> None:
    assert {line.verdict for line in judge({})} == {"unknown"}


def test_a_job_is_held_to_the_bare_session_at_whichever_batches_suit_that_best() -> None:
    lines = verdicts(
        run(Contender.BARE, working_s=100),
        run(Contender.BARE_128, working_s=95, whole_s=200),
        run(Contender.TIDEGATE_LOCAL, working_s=101, whole_s=111),
    )
    working = lines["wide", "tidegate-local: share of the bare rows/s, start excluded"]
    assert (working.verdict, working.note) == ("short", "9,901/s, bare-128 10,526/s")
    whole = lines["wide", "tidegate-local: the same, start included"]
    assert (whole.verdict, whole.note) == ("ok", "9,009/s, bare 9,091/s")


@pytest.mark.parametrize(("whole_s", "verdict"), [(149.9, "short"), (150, "ok")])
def test_a_job_is_to_be_half_as_fast_again_as_ray_data(whole_s: float, verdict: str) -> None:
    lines = verdicts(
        run(Contender.RAY_DATA, whole_s=whole_s), run(Contender.TIDEGATE_RAY, whole_s=100)
    )
    assert lines["wide", "tidegate-ray: times Ray Data, start included"].verdict == verdict


@pytest.mark.parametrize(("whole_s", "verdict"), [(112, "short"), (111, "ok")])
def test_a_job_on_s3_is_to_be_nearly_as_fast_as_on_the_disk(whole_s: float, verdict: str) -> None:
    lines = verdicts(
        run(Contender.TIDEGATE_S3, whole_s=whole_s), run(Contender.TIDEGATE_LOCAL, whole_s=100)
    )
    assert lines["wide", "rows/s on S3 on loopback, share of the local disk"].verdict == verdict


def test_the_scalar_loop_is_extrapolated_by_its_pace_and_starts_once() -> None:
    lines = verdicts(
        run(Contender.SCALAR, SMALL.name, rows=100_000, whole_s=12, working_s=10),
        run(Contender.TIDEGATE_LOCAL, SMALL.name, whole_s=20.4),
    )
    line = lines["small", "tidegate-local: times the scalar loop, start included"]
    assert line.figure == pytest.approx(5)
    assert line.verdict == "ok"
    assert line.note == ("20.4 s; the loop, one process, 102.0 s, extrapolated from 100,000 rows")


def test_the_split_says_how_much_of_the_time_is_not_the_model() -> None:
    split_s = {"read": 4.0, "score": 2.5, "encode": 3.0, "store": 0.5}
    lines = verdicts(run(Contender.TIDEGATE_RAY, SMALL.name, split_s=split_s))
    line = lines["small", "tidegate-ray: share of reading, encoding, storing"]
    assert line.figure == 0.75
    assert "read 4.0 s, score 2.5 s, encode 3.0 s, store 0.5 s" in line.note


def test_a_night_is_told_with_its_formula_and_as_an_extrapolation() -> None:
    lines = verdicts(run(Contender.TIDEGATE_LOCAL, whole_s=250))
    line = lines["wide", "tidegate-local: rows/s, for 14 M rows in 75 min"]
    assert (line.figure, line.verdict) == (4_000, "ok")
    assert line.note == (
        "14 M rows / 4,500 s = 3,111/s; at 4,000/s they take 14 M / 4,000/s = 58 min: "
        "extrapolated from 1,000,000 rows, not run"
    )


def test_a_job_works_from_its_first_chunk_until_it_is_published() -> None:
    state = {
        "moves": [
            {"to": "running", "at": "2026-12-01T14:00:00.000+00:00"},
            {"to": "published", "at": "2026-12-01T14:00:20.500+00:00"},
        ]
    }
    commits = [
        {
            "committed_at": f"2026-12-01T14:00:{second}.000+00:00",
            "timings": {
                "read_ms": 100,
                "score_ms": 2_000,
                "encode_ms": 300,
                "store_ms": 50,
                "total_ms": 2_500,
            },
        }
        for second in ("15", "12")
    ]
    found = spent(state, commits)
    assert found.working_s == 11
    assert found.split_s == {"read": 0.2, "score": 4.0, "encode": 0.6, "store": 0.1}


@pytest.mark.parametrize(
    ("contender", "said"),
    [
        (Contender.BARE, "batch_bare.py 4096 2"),
        (Contender.BARE_128, "batch_bare.py 128 2"),
        (Contender.RAY_DATA, "batch_ray_data.py 4096 2"),
        (Contender.SCALAR, "batch_bare.py 1 1"),
    ],
)
def test_each_program_gets_its_batches_and_processes(contender: Contender, said: str) -> None:
    line = command(contender, ASKED, Path("peers"))
    assert f"{Path(line[1]).name} {line[-3]} {line[-1]}" == said


def test_a_job_on_s3_runs_on_plain_processes_and_only_one_contender_on_ray() -> None:
    engines = {
        each: line[line.index("--engine") + 1]
        for each in Contender
        if "--engine" in (line := command(each, ASKED, Path("peers")))
    }
    assert engines == {
        Contender.TIDEGATE_RAY: "ray",
        Contender.TIDEGATE_LOCAL: "local",
        Contender.TIDEGATE_S3: "local",
    }


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_the_others_score_batches_as_large_as_a_job_does(work: Any) -> None:  # noqa: ANN401 - a Work
    row_bytes = 4 * (work.widths[0] + work.widths[-1])
    assert min(MOST_BATCH_ROWS, MOST_BATCH_BYTES // row_bytes) == SAME_ROWS


def test_an_output_counts_only_if_each_key_is_there_once() -> None:
    def keys(*parts: list[int]) -> list[Any]:
        return [np.array(part) for part in parts]

    assert is_each_once(keys([2, 3], [0, 1]), 4)
    assert not is_each_once(keys([2, 3], [0, 0]), 4)
    assert not is_each_once(keys([2, 3], [0]), 4)
    assert not is_each_once([], 4)


def test_rows_are_the_same_each_time_they_are_written(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_rows(tmp_path / name, SMALL, 50)
    first, second = (pq.read_table(tmp_path / name) for name in ("first", "second"))
    assert first.equals(second)
    assert first.num_columns == 1 + SMALL.widths[0]
    assert first["id"].to_pylist() == list(range(50))


def test_a_list_of_features_and_a_column_each_are_the_same_numbers() -> None:
    matrix = runpy.run_path(str(ROOT / "loadtests/peers/batch_common.py"))["matrix"]
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 2)
    listed = pa.table({"id": [0, 1, 2], "input": lists}).slice(1)
    named = pa.table({"id": [0, 1, 2], "f0": values[:, 0], "f1": values[:, 1]}).slice(1)
    assert np.array_equal(matrix(listed), values[1:])
    assert np.array_equal(matrix(named), values[1:])


def test_whoever_needs_s3_is_told_that_there_is_none() -> None:
    site = Site(folder=Path("here"), peers=Path("peers"), s3=None, cores=2)
    assert site.home(Contender.TIDEGATE_LOCAL) == "here"
    with pytest.raises(ContenderError, match="no S3 server"):
        site.home(Contender.TIDEGATE_S3)
