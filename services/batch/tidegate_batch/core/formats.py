"""Which formats rows are read from and written to, and how a file's name tells."""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias, get_args

from tidegate.errors import SettingError

InputFormat: TypeAlias = Literal["parquet", "arrow", "jsonl", "csv"]
OutputFormat: TypeAlias = Literal["parquet", "jsonl", "csv"]
ColumnType: TypeAlias = Literal["integer", "number", "boolean", "text"]
"""What a copied column of a text file is read as, if a person says so."""

INPUT_FORMATS: Final[tuple[InputFormat, ...]] = get_args(InputFormat)
OUTPUT_FORMATS: Final[tuple[OutputFormat, ...]] = get_args(OutputFormat)
COLUMN_TYPES: Final[tuple[ColumnType, ...]] = get_args(ColumnType)
TEXT_FORMATS: Final[frozenset[InputFormat]] = frozenset({"jsonl", "csv"})
"""Files of lines: nothing in them says how many rows they have or of which types."""
COMPRESSED: Final = ".gz"
"""A text file with this second ending is unpacked while it is read, always from its start."""

NAMES: Final[dict[InputFormat, str]] = {
    "parquet": "Parquet",
    "arrow": "Arrow IPC",
    "jsonl": "JSON Lines",
    "csv": "CSV",
}
"""For people."""
_ENDINGS: Final[dict[InputFormat, tuple[str, ...]]] = {
    "parquet": (".parquet",),
    "arrow": (".arrow", ".feather"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "csv": (".csv",),
}


def endings_of(kind: InputFormat) -> tuple[str, ...]:
    """Return what the names of a format's files end in, the packed ones included."""
    plain = _ENDINGS[kind]
    packed = [ending + COMPRESSED for ending in plain] if kind in TEXT_FORMATS else []
    return (*plain, *packed)


def format_of(name: str) -> InputFormat | None:
    """Tell a file's format by its ending, in any case; ``None`` if that is none of these."""
    lower = name.lower()
    return next((kind for kind in INPUT_FORMATS if lower.endswith(endings_of(kind))), None)


def parse_column_types(texts: Iterable[str]) -> dict[str, ColumnType]:
    """Read ``COLUMN=TYPE``, once for each column.

    Raises:
        SettingError: One of them cannot be meant, or a column has two types.
    """
    found: dict[str, ColumnType] = {}
    for text in texts:
        name, _, named = text.rpartition("=")
        kind = next((kind for kind in COLUMN_TYPES if kind == named), None)
        if not name or kind is None:
            raise SettingError(
                f"{text!r} says no column's type. Write COLUMN=TYPE, with one of "
                f"{', '.join(COLUMN_TYPES)}."
            )
        if found.setdefault(name, kind) != kind:
            raise SettingError(f"column {name!r} cannot be both {found[name]} and {kind}.")
    return found
