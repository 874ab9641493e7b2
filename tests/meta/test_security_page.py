"""What ``docs/security.md`` says of routes and tests is so."""

import ast
import re

from tests.project import ROOT
from tidegate_realtime.api.admin.scopes import ADMIN_SCOPES
from tidegate_realtime.api.routing import match_route
from tidegate_realtime.api.scopes import SCOPES

PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")


def open_paths(listener: str) -> set[str]:
    """Return what the table of scopes calls open."""
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {listener}"))
    return set(re.findall(r"`([^`]+)`", row.split("|")[2]))


def test_what_is_open_to_anybody_is_what_the_page_says() -> None:
    public = {action for action, scope in SCOPES.items() if scope is None}
    routes = [match_route(path) for path in open_paths("callers")]
    assert {route.action for route in routes if route} == public
    assert open_paths("operators") == {path for path, scope in ADMIN_SCOPES.items() if not scope}
    assert {scope for scope in SCOPES.values() if scope} == {"predict"}
    assert {scope for scope in ADMIN_SCOPES.values() if scope} == {"admin"}


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 20
    missing = [f"{file}::{test}" for file, test in named if test and test not in functions_of(file)]
    assert missing == []


def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def test_each_kind_of_fault_has_a_test_or_a_contract() -> None:
    table = PAGE.partition("## What it never does")[2]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 17
    assert [row for row in rows if "`tests/" not in row and "import contract" not in row] == []
