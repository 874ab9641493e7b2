"""What must not be committed, and what every dependency owes us."""

import ast
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.project import ROOT, committed_files, files_of_tests

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FLOORS = {
    "aiohttp": "3.13.4",
    "fastapi": "0.132",
    "h11": "0.16",
    "onnx": "1.21",  # CVE-2026-27489, -28500, -34445
    "orjson": "3.11.6",
    "protobuf": "6.33.5",  # CVE-2026-0994
    "python-multipart": "0.0.27",
    "ray": "2.54",
    "starlette": "1.0.1",
    "urllib3": "2.7",
}
"""Below these, known faults are reachable from the network or from a stranger's file."""

MACHINE = re.compile(r"(?<![\w.$~/])/(?:work|root|home|Users|farm)/[\w.]")
REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find-links|--trusted-host|pythonhosted\.org|//pypi\.|goproxy\s*="
    r"|//proxy\.golang",
    re.IGNORECASE,
)
REFUSED_CALL = re.compile(r"time\.sleep\(|asyncio\.sleep\((?!0\))|monkeypatch\.setattr\(|mocker\.")
ON_VIRTUAL_TIME = {"driver", "simulation"}


def requirements() -> dict[str, Requirement]:
    """Return every dependency that ``pyproject.toml`` names."""
    project = PYPROJECT["project"]
    lists = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
        PYPROJECT["build-system"]["requires"],
    ]
    parsed = [Requirement(line) for lines in lists for line in lines]
    return {canonicalize_name(requirement.name): requirement for requirement in parsed}


def texts() -> Iterator[tuple[str, str]]:
    """Yield each committed text file's name and content."""
    for file in committed_files():
        try:
            yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRY], ids=["path of a machine", "registry"])
def test_nothing_of_one_machine_is_committed(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts()
        if name != "tests/meta/test_repository.py"
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("lock", ["run.txt", "dev.txt", "train.txt"])
def test_a_lock_pins_every_package_by_hash_and_by_nothing_else(lock: str) -> None:
    lines = (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines()
    for line in lines:
        assert re.match(
            r"[\w.-]+(\[[\w,]+\])?==\S+( ; [^\\]+)? \\$|    --hash=sha256:[0-9a-f]{64}( \\)?$", line
        )


@pytest.mark.parametrize(("name", "floor"), list(FLOORS.items()))
def test_no_dependency_is_below_its_floor(name: str, floor: str) -> None:
    with suppress(PackageNotFoundError):  # what is not installed cannot be reached
        assert Version(version(name)) >= Version(floor)
    asked = requirements().get(canonicalize_name(name))
    if asked is not None:
        lower = [Version(part.version) for part in asked.specifier if part.operator == ">="]
        assert max(lower) >= Version(floor)


def test_every_dependency_stands_with_its_reason_in_contributing() -> None:
    rows = [line.split("|") for line in CONTRIBUTING.splitlines() if line.startswith("| `")]
    explained = {
        name for _, names, reason, *_ in rows if reason.strip() for name in names.split("`")
    }
    assert set(requirements()) - explained == set()


def test_no_test_sleeps_to_wait_or_patches_the_product() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for file in files_of_tests()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and REFUSED_CALL.match(ast.unparse(node))
        if not (ON_VIRTUAL_TIME & set(file.parts) and ast.unparse(node).startswith("asyncio."))
    ]
    assert found == []
