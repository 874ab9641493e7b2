"""The commands of ``docs/protocol.md`` print what it says that they print."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.gateways import running_gateway
from tests.project import ROOT
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.ids import Alias, ModelName
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, publish

PAGE = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
MARK = "===="


def examples() -> list[tuple[str, str]]:
    """Return each command and what stands below it."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), flags=re.MULTILINE)


@pytest.mark.skipif(
    shutil.which("curl") is None, reason="the page asks with curl: apt install curl"
)
def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    store, example = tmp_path / "store", ROOT / "examples/risk"
    candidate = Candidate(
        name=ModelName("risk"),
        file=example / "model.onnx",
        transform=example / "transform.toml",
        alias=Alias("stable"),
    )
    publish(ArtifactStore(LocalObjectStore(store)), candidate, clock=SystemClock())
    config = tmp_path / "tidegate.toml"
    config.write_text("[models.risk]\nslo_ms = 20000\n")
    with running_gateway(store, "--config", str(config)) as gateway:
        asked = [
            command.replace("localhost:8000", f"127.0.0.1:{gateway.port}")
            for command, _ in examples()
        ]
        script = f"\necho; echo {MARK}\n".join([*asked, ""])
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=os.environ | {"LC_ALL": "C"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    printed = [part.strip() for part in ran.stdout.split(f"{MARK}\n")]
    for (command, expected), came in zip(examples(), printed, strict=False):
        pattern = re.escape(expected.strip()).replace("…", ".+")
        assert re.fullmatch(pattern, came, flags=re.DOTALL), f"{command}\n{came}"
    assert len(asked) > 15
