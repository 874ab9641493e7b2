"""Where things are in this repository, for tests that look at the project itself."""

import subprocess
from pathlib import Path

import tidegate

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "tidegate": ROOT / "shared/tidegate",
    "tidegate_realtime": ROOT / "services/realtime/tidegate_realtime",
    "tidegate_batch": ROOT / "services/batch/tidegate_batch",
    "tidegate_loadtest": ROOT / "loadtests/tidegate_loadtest",
}
assert PACKAGES["tidegate"].samefile(Path(tidegate.__file__).parent), "not this checkout's install"


def product_files() -> list[Path]:
    """Return the Python files of the four packages."""
    return sorted(file for folder in PACKAGES.values() for file in folder.rglob("*.py"))


def files_of_tests() -> list[Path]:
    """Return the Python files of the tests, fakes included."""
    return sorted((ROOT / "tests").rglob("*.py"))


def modules(package: str) -> list[str]:
    """Return the dotted names of a package's modules, without importing one."""
    folder = PACKAGES[package]
    names = []
    for file in sorted(folder.rglob("*.py")):
        parts = (package, *file.relative_to(folder).with_suffix("").parts)
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in names if not name.endswith("__main__")]


def committed_files() -> list[Path]:
    """Return the files that belong to the repository; without git, all that are not hidden."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        names = [Path(name) for name in listed.stdout.split("\0") if name]
    else:
        found = (file.relative_to(ROOT) for file in ROOT.rglob("*") if file.is_file())
        names = [name for name in found if not any(part.startswith(".") for part in name.parts)]
    return sorted(ROOT / name for name in names if (ROOT / name).is_file())
