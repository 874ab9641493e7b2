"""What each package may load: heavy dependencies are an extra's, and only its own."""

import subprocess
import sys

import pytest

from tests.project import modules

WEB = ("fastapi", "starlette", "uvicorn", "granian")
OFFLINE = ("ray", "pyarrow")
OVER_HTTP = "tidegate_batch.api"
"""Loaded by ``tidegate jobs serve`` alone."""


def import_without(
    names: list[str], *, absent: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    """Import modules in a process of its own, where the absent ones cannot be imported."""
    script = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({absent!r}))\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"loaded = [name for name in {absent!r} if sys.modules[name] is not None]\n"
        "assert not loaded, loaded\n"
    )
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("package", "absent"),
    [
        ("tidegate", (*WEB, *OFFLINE)),
        ("tidegate_realtime", OFFLINE),
        ("tidegate_batch", WEB),
        ("tidegate_loadtest", (*WEB, *OFFLINE)),
    ],
)
def test_a_package_works_without_what_only_another_needs(
    package: str, absent: tuple[str, ...]
) -> None:
    names = [name for name in modules(package) if not name.startswith(OVER_HTTP)]
    assert import_without(names, absent=absent).stderr == ""


def test_the_client_loads_without_what_serves_runs_or_publishes_models() -> None:
    absent = (*WEB, *OFFLINE, "onnx", "onnxruntime", "pydantic", "click", "structlog", "httpx")
    assert import_without(["tidegate.client"], absent=absent).stderr == ""


@pytest.mark.parametrize("module", ["tidegate_realtime.settings", "tidegate_batch.settings"])
def test_settings_load_without_any_extra(module: str) -> None:
    """Whoever reads ``tidegate.toml`` checks all of it, so each process loads every section."""
    absent = (*WEB, *OFFLINE, "numpy", "onnxruntime", "uvloop", "boto3")
    assert import_without([module], absent=absent).stderr == ""


def test_an_import_that_is_forbidden_would_be_noticed() -> None:
    assert "ModuleNotFoundError" in import_without(["ray"], absent=("ray",)).stderr
