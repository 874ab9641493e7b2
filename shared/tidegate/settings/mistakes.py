"""What is wrong with the settings, all of it at once, each with where it was written."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from operator import eq
from typing import Final, TypeGuard, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidegate.errors import SettingError
from tidegate.settings.sources import Path_

_EXAMPLE_WORDS: Final = 3
"""Of a list that was written as a string; what an example needs, however long the list."""


def refusal(
    error: ValidationError, *, root: type[BaseModel], origins: Mapping[Path_, str]
) -> SettingError:
    """Turn everything that the check found into one error, a line for each mistake."""
    lines = [
        _sentence(detail, root=root, origins=origins)
        for detail in error.errors(include_url=False, include_context=False)
    ]
    if len(lines) == 1:
        return SettingError(lines[0])
    return SettingError("\n  ".join([f"{len(lines)} settings cannot be used:", *lines]))


def _sentence(detail: ErrorDetails, *, root: type[BaseModel], origins: Mapping[Path_, str]) -> str:
    path = tuple(str(part) for part in detail["loc"] if part != "[key]")
    where = f"{_origin(path, origins)}: {'.'.join(path)}"
    if detail["type"] == "extra_forbidden":
        return f"{where} is no setting.{_suggestion(path, root)}"
    found = detail["input"]
    shown = "" if isinstance(found, Mapping) else f" (found {_shown(found, path, root)})"
    return f"{where}: {_expected(detail, path, root)}{shown}"


def _expected(detail: ErrorDetails, path: Path_, root: type[BaseModel]) -> str:
    match detail["type"], detail["input"]:
        case (("tuple_type" | "list_type"), str() as found) if not _is_secret(path, root):
            words = re.findall(r"[^\s,\[\]\"']+", str(masked(found)))
            return f"expected a JSON list, such as {json.dumps(words[:_EXAMPLE_WORDS])}"
        case (("model_type" | "dict_type"), _):
            return "expected a table; set its keys one by one"
        case _:
            return detail["msg"].removeprefix("Value error, ")


def _origin(path: Path_, origins: Mapping[Path_, str]) -> str:
    """Say where the value came from, or the table around it, or a value in it."""
    related = [known for known in origins if all(map(eq, known, path))]
    nearest = max(related, key=lambda known: min(len(known), len(path)), default=())
    return origins.get(nearest, "default")


def _suggestion(path: Path_, root: type[BaseModel]) -> str:
    table = annotation_at(path[:-1], root)
    known = list(table.model_fields) if _is_table(table) else []
    near = get_close_matches(path[-1], known, n=1)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" There are: {', '.join(known)}."


def _shown(found: object, path: Path_, root: type[BaseModel]) -> str:
    return "a secret" if _is_secret(path, root) else f"{masked(found)!r:.80}"


def _is_secret(path: Path_, root: type[BaseModel]) -> bool:
    return "Secret" in str(annotation_at(path, root))


def masked(value: object) -> object:
    """Take user and password out of a URL; leave everything else as it is."""
    return re.sub(r"://[^/@\s]*@", "://***@", value) if isinstance(value, str) else value


def annotation_at(path: Path_, root: type[BaseModel]) -> object:
    """Return the type of the setting or table at this place; ``None`` if there is none."""
    annotation: object = root
    for part in path:
        if _is_table(annotation):
            field = annotation.model_fields.get(part)
            annotation = field.annotation if field else None
        else:
            annotation = (*get_args(annotation), None, None)[1]  # a dict's second argument
    return annotation


def _is_table(annotation: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
