"""What ``docs/operations.md`` tells an operator to ask and to look for is there."""

import re

import pytest

from tests.project import ROOT, product_files
from tidegate_realtime.api.admin.scopes import ADMIN_SCOPES

PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
SOURCE = "\n".join(file.read_text(encoding="utf-8") for file in product_files())
CHANGES = PAGE.partition("## Change a version")[2].partition("\n## A job")[0]
ROUTES = [path for path in ADMIN_SCOPES if "/models" in path or "/repository" in path]


@pytest.mark.parametrize("path", [path for path in ROUTES if "/explain" not in path])
def test_every_route_that_looks_at_or_changes_models_is_told(path: str) -> None:
    """Written as an operator reads it: ``{model}[@…]`` for a reference, alternatives by a dot."""
    written = path.replace("{name}", "{model}").replace("{ref}", "{model}[@{alias or version}]")
    head, _, verb = written.rpartition("/")
    optional = written.replace("/{model}", "[/{model}]") if verb == "{model}" else written
    told = {written, optional, f"{written}[/{{model}}]"}
    assert any(f"`POST {each}`" in PAGE or f" {each}`" in PAGE for each in told) or (
        f"{head}/load` · `/{verb}`" in PAGE
    )


def test_every_event_in_the_log_that_is_told_can_happen() -> None:
    events = re.findall(r"log `(\w+)`", CHANGES)
    assert len(events) >= 3
    assert [event for event in events if f'"{event}"' not in SOURCE] == []


def test_every_metric_that_is_told_is_documented() -> None:
    told = set(re.findall(r"`(tidegate_\w+?)(?:\{[^}]*\})?`", PAGE)) - {"tidegate_failed_versions"}
    assert [name for name in told if f"`{name}`" not in METRICS] == []
    assert '"tidegate_failed_versions"' in SOURCE
