"""Reads all sources once, checks them together, and remembers where each value came from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError, create_model

from tidegate.settings.mistakes import masked, refusal
from tidegate.settings.objective import LatencyObjective
from tidegate.settings.sections import (
    BaseSection,
    ModelSection,
    Registered,
    Section,
    registered_sections,
)
from tidegate.settings.sources import (
    Path_,
    from_environment,
    from_file,
    from_flags,
    leaves,
    path_of,
)

DEFAULT = "default"

_Section = TypeVar("_Section", bound=Section)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """One line of ``tidegate config show``."""

    key: str
    """Dotted, as in an error: ``serve.port``."""
    value: object
    """As JSON would say it; secrets and passwords in URLs are masked."""
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What was asked for, checked; it never changes after start-up."""

    base: BaseSection
    paths: Mapping[Path_, str]
    """Origin by place, for every value that is not a default."""
    unavailable: Mapping[str, str]
    """Sections that nobody checked, and the package that is missing for it."""

    @property
    def store(self) -> str:
        """URL of the store."""
        return self.base.store

    @property
    def cache_dir(self) -> Path:
        """Folder for files fetched from the store."""
        return self.base.cache_dir

    def section(self, kind: type[_Section]) -> _Section:
        """Return the section of this type.

        Raises:
            LookupError: No installed package registers it, which is a bug.
        """
        for _, value in self.base:
            if isinstance(value, kind):
                return value
        raise LookupError(f"{kind.__qualname__} is no entry point of tidegate.settings")

    def of_model(self, model: str) -> ModelSection:
        """Return ``[models.<model>]``; the defaults where nothing is said about it."""
        return self.base.models.get(model) or ModelSection()

    def objective(self, model: str) -> LatencyObjective:
        """Return what is promised of a model; the default where nothing is said about it."""
        return self.of_model(model).objective

    def origin(self, key: str) -> str:
        """Say where ``serve.port`` or ``models.risk.slo_ms`` came from.

        ``tidegate.toml`` (or the file that was named), ``environment TIDEGATE_STORE``,
        ``flag --store`` or ``default``.
        """
        return self.paths.get(path_of(key), DEFAULT)

    @property
    def origins(self) -> Mapping[str, str]:
        """Origin by dotted key, defaults included."""
        return {setting.key: setting.origin for setting in self.shown()}

    def shown(self) -> Iterator[ShownSetting]:
        """Yield every setting for people, in the order of the sections."""
        values = self.base.model_dump(mode="json")
        for path in leaves(values):
            value: Any = values
            for part in path:
                value = value[part]
            if value != {}:
                origin = self.paths.get(path, DEFAULT)
                yield ShownSetting(key=".".join(path), value=masked(value), origin=origin)


def load_settings(
    *, config: Path | None = None, flags: Mapping[str, object] | None = None
) -> Settings:
    """Read and check the settings of this process; flags beat the environment, that the file.

    Args:
        config: The file; without one ``./tidegate.toml`` is read if it is there.
        flags: What was typed, by dotted key (``store``, ``serve.port``, ``models.risk.slo_ms``);
            ``None`` stands for an option that was not typed.

    Raises:
        SettingError: With every mistake, each by origin and key.
    """
    return read_settings(registered_sections(), config=config, flags=flags or {})


def read_settings(
    registered: Registered, *, config: Path | None, flags: Mapping[str, object]
) -> Settings:
    """Do the same with these sections, whatever is installed."""
    root = _root(registered)
    sources = (from_file(config), from_environment(root), from_flags(flags))
    values: dict[str, Any] = {}
    origins: dict[Path_, str] = {}
    for source in sources:
        _merge(values, source.values)
        origins.update(source.origins)
    try:
        base = root.model_validate(values)
    except ValidationError as error:
        raise refusal(error, root=root, origins=origins) from None
    return Settings(base=base, paths=origins, unavailable=registered.unavailable)


def _root(registered: Registered) -> type[BaseSection]:
    fields: dict[str, Any] = {
        name: (section, Field(default_factory=section))
        for name, section in registered.sections.items()
    }
    fields |= {name: (dict[str, object], {}) for name in registered.unavailable}
    return create_model("Root", __base__=BaseSection, **fields)


def _merge(values: dict[str, Any], above: Mapping[str, Any]) -> None:
    """Lay one source over another: tables are joined, anything else is replaced."""
    for name, value in above.items():
        below = values.get(name)
        if isinstance(value, Mapping) and isinstance(below, dict):
            _merge(below, value)
        else:
            values[name] = dict(value) if isinstance(value, Mapping) else value
