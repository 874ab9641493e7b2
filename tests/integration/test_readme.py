"""The commands of README.md do what it says, in the order in which it gives them."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.project import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
LEFT_OUT = {"make demo", "make test"}
"""They install, and run everything; each is run by itself."""


def commands() -> list[str]:
    """Return the lines after ``$`` in every console block, continued lines with them."""
    blocks = re.findall(r"^```console\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    joined = "\n".join(blocks).replace("\\\n", "")
    found = [line[2:].strip() for line in joined.splitlines() if line.startswith("$ ")]
    return [line for line in found if line.split("  #")[0].strip() not in LEFT_OUT]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def ignored_by_git(names: Iterable[str]) -> set[str]:
    """Return those that a newcomer, who follows README in the checkout, never commits."""
    asked = ["git", "check-ignore", "--no-index", *names]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return set(told.stdout.split()) if told.returncode in {0, 1} else set(names)  # 128: no checkout


def test_readme_gives_the_two_commands_that_a_newcomer_needs() -> None:
    for command in LEFT_OUT:
        assert f"$ {command}" in README


@pytest.mark.skipif(shutil.which("curl") is None, reason="README asks with curl: apt install curl")
def test_the_commands_of_the_readme_work_in_its_order(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    port, admin_port = free_port(), free_port()
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TIDEGATE_SERVE__PORT": str(port),
        "TIDEGATE_SERVE__ADMIN_PORT": str(admin_port),
        "TIDEGATE_SERVE__GRPC_PORT": str(free_port()),
        "TIDEGATE_CACHE_DIR": str(tmp_path / "cache"),
    }
    lines = [
        line.replace(":8000", f":{port}").replace(":8002", f":{admin_port}") for line in commands()
    ]
    stop = "trap 'status=$?; kill $(jobs -p) && wait; exit $status' EXIT"
    script = "\n".join(["set -euo pipefail", stop, *lines])
    ended = subprocess.run(
        ["bash", "-xc", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    assert '"label"' in ended.stdout
    assert list((tmp_path / "scores").glob("part-*.parquet"))
    left = {path.name + "/" * path.is_dir() for path in tmp_path.iterdir()}
    left -= {"examples/", "cache/"}
    assert left >= {"scores/", "patients.parquet"}
    assert left == ignored_by_git(left)
