"""What all tests share."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

import tidegate.observability.lines  # noqa: F401 - loaded by the first line logged, which no loop may wait for

PACKAGES = ["tidegate", "tidegate_realtime", "tidegate_batch", "tidegate_loadtest"]
ON_A_LOOP = {"driver", "integration"}

asyncio.set_event_loop(None)
"""looptime asks for the current loop before tests that need none, and asyncio would then make one
that nobody closes."""


@pytest.fixture(autouse=True)
def _the_loop_never_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail what our code does on an event loop that would hold up every other caller."""
    if request.path.relative_to(Path(__file__).parent).parts[0] not in ON_A_LOOP:
        yield
        return
    with blockbuster_ctx(PACKAGES):
        yield


@pytest.fixture(autouse=True)
def _settings_of_the_machine_stay_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away ``TIDEGATE_…`` variables that would change what a test sees."""
    for name in os.environ:
        if name.startswith("TIDEGATE_") and name != "TIDEGATE_REQUIRE_PARTS":
            monkeypatch.delenv(name)
