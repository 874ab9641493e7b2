"""The parts of ``tidegate.toml``, each typed by the package that it belongs to."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from tidegate.ids import parse_model_name
from tidegate.settings.objective import DEFAULT_PERCENTILE, DEFAULT_SLO_MS, LatencyObjective

GROUP: Final = "tidegate.settings"


class Section(BaseModel):
    """One table of ``tidegate.toml``: unknown keys are mistakes, values never change.

    Give every field a default (nobody must write a file to start), a type that checks its range,
    its unit in its name, and a docstring.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="wrap")
    @classmethod
    def _numbers_are_written_as_numbers(
        cls, found: object, check: ValidatorFunctionWrapHandler
    ) -> object:
        """Refuse what Python would count with: ``port = true`` as 1, ``port = 8000.0`` as 8000.

        pydantic's own strictness would also refuse every number in a variable, which is a string.
        """
        value = check(found)
        if type(value) is int and type(found) not in (int, str):
            raise ValueError("Input should be a valid integer")
        if type(value) is float and type(found) is bool:
            raise ValueError("Input should be a valid number")
        return value


class ModelSection(Section):
    """``[models.<name>]``: what one served model promises."""

    slo_ms: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_SLO_MS
    """Latency objective in milliseconds, from the last request byte to the last reply byte."""
    percentile: Annotated[float, Field(gt=0, lt=1)] = DEFAULT_PERCENTILE
    """Share of requests that must meet ``slo_ms``; above 0, below 1."""
    best_effort: bool = False
    """Answer everything, however late: nothing is refused for time, expired or dropped."""
    memory_rows: Annotated[int, Field(ge=1)] | None = None
    """Most rows of one model call that fit in memory; the derived cap keeps to it."""

    @property
    def objective(self) -> LatencyObjective:
        """The two numbers as one value."""
        return LatencyObjective(slo_ms=self.slo_ms, percentile=self.percentile)


def default_cache_dir() -> Path:
    """Return ``tidegate`` under the user's cache folder, as the XDG specification names it."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "tidegate"


class BaseSection(Section):
    """The keys above all tables, for whatever command runs."""

    store: str = "./tidegate-store"
    """Where models and jobs are kept: a directory or ``s3://bucket/prefix``."""
    cache_dir: Path = Field(default_factory=default_cache_dir)
    """Where files fetched from the store are kept on this machine; safe to delete."""
    keys_file: Path | None = None
    """Keys that callers and operators must show; without it nobody is asked for one."""
    models: dict[Annotated[str, AfterValidator(parse_model_name)], ModelSection] = {}
    """One table per served model, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The sections of the installed packages."""

    sections: Mapping[str, type[Section]]
    """By the name of their table."""
    unavailable: Mapping[str, str]
    """Tables that cannot be checked here, and the package that is not installed."""


def registered_sections() -> Registered:
    """Load the sections that are registered as entry points.

    A section whose package misses an extra is unavailable; the others must not suffer for it.
    """
    sections: dict[str, type[Section]] = {}
    unavailable: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        try:
            sections[entry.name] = entry.load()
        except ModuleNotFoundError as error:
            unavailable[entry.name] = error.name or str(error)
    return Registered(sections=sections, unavailable=unavailable)
