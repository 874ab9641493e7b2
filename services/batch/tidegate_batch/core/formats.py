"""Which formats rows are read from and written to, and how a file's name tells."""

from typing import Final, Literal, TypeAlias, get_args

InputFormat: TypeAlias = Literal["parquet", "arrow", "jsonl", "csv"]
OutputFormat: TypeAlias = Literal["parquet", "jsonl", "csv"]

INPUT_FORMATS: Final[tuple[InputFormat, ...]] = get_args(InputFormat)
OUTPUT_FORMATS: Final[tuple[OutputFormat, ...]] = get_args(OutputFormat)
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
