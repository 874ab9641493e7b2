"""``make bench-batch`` in small: two contenders on few rows, whose outputs are counted."""

import json
import subprocess
import sys
from pathlib import Path

from tests.project import ROOT

SMALL = ["--rows", "30000", "--scalar-rows", "500", "--rounds", "1", "--model", "small"]
CONTENDERS = ["tidegate-local", "bare", "scalar-loop"]


def test_contenders_score_the_same_rows_and_are_told_beside_each_other(tmp_path: Path) -> None:
    asked = [part for name in CONTENDERS for part in ("--contender", name)]
    told = subprocess.run(
        [sys.executable, str(ROOT / "tools/bench-batch"), *SMALL, *asked],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert told.returncode in {0, 1}, told.stdout + told.stderr  # how fast it is here is no matter
    assert "gave no figure" not in told.stdout
    found = json.loads((tmp_path / "bench-batch.json").read_text())
    rows = {row["contender"]: row for row in found["rows"]}
    assert {name: rows[name]["rows"] for name in rows} == {
        "tidegate-local": 30_000,
        "bare": 30_000,
        "scalar-loop": 500,
    }
    assert all(0 < row["working_s"] < row["whole_s"] for row in rows.values())
    assert rows["tidegate-local"]["split_s"]["read"] > 0
    times = "tidegate-local: times the scalar loop, start included"
    (line,) = (line for line in found["targets"] if line["what"] == times)
    assert line["verdict"] in {"ok", "short"}
    assert (tmp_path / "bench-batch.svg").read_text().startswith("<?xml")
