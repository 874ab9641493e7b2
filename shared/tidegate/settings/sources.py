"""Where values come from: a file, the environment, flags; each with a name for the operator."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource

from tidegate.errors import SettingError

FILE: Final = Path("tidegate.toml")
PREFIX: Final = "TIDEGATE_"
DELIMITER: Final = "__"
CONFIG_VARIABLE: Final = "TIDEGATE_CONFIG"
_NO_SETTINGS: Final = {
    CONFIG_VARIABLE,
    "TIDEGATE_KEY",
    "TIDEGATE_TRACEBACK",
    "TIDEGATE_WEBHOOK_SECRET",
    "TIDEGATE_REQUIRE_PARTS",
}
_KUBERNETES_LINK: Final = re.compile(
    r"TIDEGATE(_[A-Z0-9]+)*_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)"
)
"""What Kubernetes puts into every pod beside a Service whose name begins with ``tidegate``."""

Path_ = tuple[str, ...]
"""A setting's place: ``("serve", "port")``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Values that came from one place."""

    values: Mapping[str, Any]
    """Nested as in the file."""
    origins: Mapping[Path_, str]
    """For each value, what an operator would look for to change it."""


def from_file(config: Path | None) -> Source:
    """Read the named file; without a name ``./tidegate.toml``, if it is there.

    Raises:
        SettingError: The file is missing although it was named, or is no TOML.
    """
    file = config or FILE
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if config is None:
            return Source(values={}, origins={})
        by_variable = Path(os.environ.get(CONFIG_VARIABLE, "")) == config
        named_it = CONFIG_VARIABLE if by_variable else "--config"
        raise SettingError(f"{file}: there is no such file; {named_it} named it") from error
    except (OSError, ValueError) as error:  # ValueError: no TOML, or no UTF-8
        raise SettingError(f"{file} cannot be read: {error}") from error
    return Source(values=values, origins={path: str(file) for path in leaves(values)})


def from_environment(root: type[BaseModel]) -> Source:
    """Read ``TIDEGATE_STORE``, ``TIDEGATE_SERVE__PORT``, …; lists and tables are JSON.

    A variable that sets nothing is in ``values`` too, so that it is refused like a key in the file.
    """
    names = {name.upper(): name for name in os.environ if name.upper().startswith(PREFIX)}
    values = _Environment(type("_Read", (BaseSettings, root), {}))()
    for name in names.keys() - _NO_SETTINGS:
        key = name.removeprefix(PREFIX).split(DELIMITER)[0].lower()
        if key not in root.model_fields and not _KUBERNETES_LINK.fullmatch(name):
            values[key] = os.environ[names[name]]
    origins = {path: f"environment {_variable(path, names)}" for path in leaves(values)}
    return Source(values=values, origins=origins)


class _Environment(EnvSettingsSource):
    """Leaves what is no JSON to the check of all settings, which names every mistake at once."""

    def __init__(self, root: type[BaseSettings]) -> None:
        super().__init__(root, env_prefix=PREFIX, env_nested_delimiter=DELIMITER)

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:  # noqa: ANN401 - the base's signature
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


def _variable(path: Path_, names: Mapping[str, str]) -> str:
    """Name the variable: of the key itself, or of a table that was given as JSON."""
    candidates = (
        PREFIX + DELIMITER.join(path[:depth]).upper() for depth in range(len(path), 0, -1)
    )
    return next((names[name] for name in candidates if name in names), PREFIX + "…")


def from_flags(flags: Mapping[str, object]) -> Source:
    """Take what was typed: by dotted key, ``None`` for what was not.

    A tuple is an option that may be repeated, and such a one is named in the singular.
    """
    values: dict[str, Any] = {}
    origins: dict[Path_, str] = {}
    for key, value in flags.items():
        if value is None:
            continue
        *tables, name = path = path_of(key)
        table = values
        for part in tables:
            table = table.setdefault(part, {})
        table[name] = value
        option = name.removesuffix("s") if isinstance(value, tuple) else name
        origins[path] = f"flag --{option.replace('_', '-')}"
    return Source(values=values, origins=origins)


def path_of(key: str) -> Path_:
    """Split ``serve.port``; in ``models.risk.v2.slo_ms`` the model's name may hold dots."""
    table, _, rest = key.partition(".")
    if table == "models" and "." in rest:
        name, _, field = rest.rpartition(".")
        return (table, name, field)
    return tuple(key.split("."))


def leaves(values: Mapping[str, Any], above: Path_ = ()) -> Iterator[Path_]:
    """Yield the place of each value that is no table, or an empty one."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*above, name))
        else:
            yield (*above, name)
