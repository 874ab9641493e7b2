"""What is wrong with the settings, all of it at once, each with where it was written."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeGuard, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidegate.errors import SettingError
from tidegate.settings.sources import Path_


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
    return f"{where}: {detail['msg'].removeprefix('Value error, ')}{shown}"


def _origin(path: Path_, origins: Mapping[Path_, str]) -> str:
    """Say where the value came from, or the table around it, or a value in it."""
    near = sorted(origins, key=lambda known: -_shared(known, path))
    return origins[near[0]] if near else "default"


def _shared(one: Path_, other: Path_) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _suggestion(path: Path_, root: type[BaseModel]) -> str:
    table = annotation_at(path[:-1], root)
    known = list(table.model_fields) if _is_table(table) else []
    near = get_close_matches(path[-1], known, n=1)
    if near:
        return f" Did you mean {near[0]!r}?"
    return f" There are: {', '.join(known)}."


def _shown(found: object, path: Path_, root: type[BaseModel]) -> str:
    if "Secret" in str(annotation_at(path, root)):
        return "a secret"
    return f"{masked(found)!r:.80}"


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
