"""The examples of docs/client.md print what it says they print."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.fixtures.gateways import running_gateway
from tests.project import ROOT
from tidegate.cli import run
from tidegate.client import errors
from tidegate.client.errors import ClientError

PAGE = (ROOT / "docs/client.md").read_text(encoding="utf-8")
PROMISED = re.compile(r"print\(.*\)  # (.*)$", re.MULTILINE)


def examples() -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))


def test_the_examples_of_the_client_page_print_what_it_says(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    store, risk = tmp_path / "store", ROOT / "examples/risk"
    publish = ["model", "publish", "risk", str(risk / "model.onnx"), "--store", str(store)]
    assert run([*publish, "--transform", str(risk / "transform.toml"), "--alias", "stable"]) == 0
    with running_gateway(store, "--slo-ms", "20000") as gateway:
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-c", examples().replace(":8000", f":{gateway.port}")],
            cwd=tmp_path,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.stderr == ""
    promised = PROMISED.findall(examples())
    assert ended.stdout.splitlines() == promised
    assert len(promised) == 6


def test_the_page_has_a_row_for_every_error() -> None:
    kinds = {
        kind.__name__
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, ClientError)
    }
    assert {kind for kind in kinds if f"| `{kind}` |" not in PAGE} == {"ClientError"}
