"""Every error survives the way to another process, and its code is explained to operators."""

import ast
import importlib
import pickle
import re
from collections.abc import Iterator
from typing import get_type_hints

from tests.project import PACKAGES, ROOT, modules, product_files
from tidegate.errors import TidegateError

ERRORS = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
OF_THE_COMMAND_LINE = {"usage", "invalid_id", "file_unusable", "internal"}


def subclasses(of: type[TidegateError]) -> Iterator[type[TidegateError]]:
    yield of
    for child in of.__subclasses__():
        yield from subclasses(child)


def error_classes() -> list[type[TidegateError]]:
    for package in PACKAGES:
        for module in modules(package):
            importlib.import_module(module)
    ours = {kind for kind in subclasses(TidegateError) if kind.__module__.split(".")[0] in PACKAGES}
    return sorted(ours, key=lambda kind: kind.__qualname__)


def codes_in_source() -> set[str]:
    """Return every literal that stands as ``code="…"`` or ``code = "…"``."""
    found = set()
    for file in product_files():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                    found.add(code)
                case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                    found.add(code)
                case _:
                    pass
    return found


def documented_codes() -> set[str]:
    rows = re.findall(r"^\| (`[^|]+`) \|", ERRORS, flags=re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`(\w+)`", row)}


def test_every_error_keeps_message_code_and_attributes_through_pickle() -> None:
    for kind in error_classes():
        error = kind("42 is too large; 41 is the limit")
        attributes = {name: f"a {name}" for name in get_type_hints(kind) if name != "code"}
        error.__dict__.update(attributes)
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is kind
        assert str(copied) == "42 is too large; 41 is the limit"
        assert copied.code == kind.code
        assert copied.__dict__ == attributes


def test_every_code_is_explained_to_operators() -> None:
    codes = {kind.code for kind in error_classes()} | codes_in_source() | OF_THE_COMMAND_LINE
    assert codes - documented_codes() == set()


def test_every_explained_code_is_one_that_can_happen() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in product_files())
    assert {code for code in documented_codes() if f'"{code}"' not in source} == set()
