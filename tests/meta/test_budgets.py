"""Sizes that keep the code readable (CONTRIBUTING.md, "Budgets")."""

import ast
import re
from pathlib import Path
from statistics import median

from tests.project import ROOT, files_of_tests, product_files

FILE_LINES = 400
FUNCTION_LINES = 60
MEDIAN_FUNCTION_LINES = 10
SCRIPTS = sorted([*(ROOT / "tools").iterdir(), *(ROOT / "examples").rglob("*.py")])


def lines_of(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count from the first statement after the docstring to the last line."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def functions(source: str) -> dict[str, int]:
    """Return the length of each function by its name and line."""
    return {
        f"{node.name}, line {node.lineno}": body_lines(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def all_functions() -> dict[str, int]:
    return {
        f"{file.relative_to(ROOT)}: {name}": length
        for file in product_files()
        for name, length in functions(file.read_text(encoding="utf-8")).items()
    }


def test_explaining_costs_nothing() -> None:
    source = 'def f():\n    """One.\n\n    Two.\n    """\n    a = 1\n\n    return a\n'
    assert functions(source) == {"f, line 1": 3}
    assert functions('def f():\n    """Only this."""\n') == {"f, line 1": 0}


def test_no_file_is_longer_than_the_budget() -> None:
    files = [*product_files(), *files_of_tests(), *(file for file in SCRIPTS if file.is_file())]
    long = {str(file.relative_to(ROOT)): lines_of(file) for file in files}
    assert {name: lines for name, lines in long.items() if lines > FILE_LINES} == {}


def test_no_function_is_longer_than_the_budget() -> None:
    long = {name: lines for name, lines in all_functions().items() if lines > FUNCTION_LINES}
    assert long == {}


def test_half_of_all_functions_are_short() -> None:
    assert median(all_functions().values()) <= MEDIAN_FUNCTION_LINES


SUPPRESSION = re.compile(r"# (noqa|type: ignore|pragma: no cover)\b(?P<rest>[^`\"]*)$")
NAMED = {
    "noqa": re.compile(r": [A-Z]+\d+(, [A-Z]+\d+)* - \S"),
    "type: ignore": re.compile(r"\[[\w-]+(, [\w-]+)*\] +# \S"),
    "pragma: no cover": re.compile(r" - \S"),
}


def test_every_suppression_names_its_rule_and_its_reason() -> None:
    bare = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in [*product_files(), *files_of_tests()]
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if (found := SUPPRESSION.search(line)) and not NAMED[found[1]].match(found["rest"])
    ]
    assert bare == []
