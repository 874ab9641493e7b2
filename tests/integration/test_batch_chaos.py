"""``make chaos-batch`` in small: workers and drivers die, the store fails, each row is once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.stores import require_part
from tests.project import ROOT

SMALL = ["--rows", "24000", "--chunk-rows", "500", "--width", "64", "--kill-every", "0.2"]


@pytest.mark.field_fault("B-04", "B-07", "B-14", "B-35")
def test_each_row_is_there_once_whatever_is_killed(tmp_path: Path) -> None:
    require_part("versitygw")
    told = subprocess.run(
        [sys.executable, str(ROOT / "tools/chaos-batch"), *SMALL, "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    outcomes = json.loads(told.stdout)
    assert [outcome["target"] for outcome in outcomes] == ["local", "versitygw"]
    for outcome in outcomes:
        assert outcome["ok"]
        assert outcome["driver_kills"] == 2
        assert outcome["extra_chunks"] <= outcome["extra_allowed"]
    assert sum(outcome["worker_kills"] for outcome in outcomes) >= 1
