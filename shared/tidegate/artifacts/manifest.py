"""The manifest: everything that a version is, in one immutable JSON document.

The digest of its bytes names the version on every prediction. It lists the digest of every file,
so one digest pins all of them. ``schema`` only grows; each released schema keeps a fixture in
``tests/fixtures`` that must load for ever. The format is documented in ``docs/formats.md``.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from tidegate.artifacts.transform_specs import ImageSpec, PoolingSpec, TextSpec
from tidegate.errors import ArtifactError
from tidegate.ids import InvalidIdError, ModelTag, parse_model_name
from tidegate.tensors.signature import Signature

MODEL_FILE = "model.onnx"


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of the version."""

    sha256: str
    """64 hex digits."""
    bytes: int


class Column(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One named column that people send, in the order of the model's columns."""

    name: str
    type: Literal["number", "integer", "boolean", "category"]
    default: float | int | bool | str | None = None
    """Stands in for a missing or null value; without one such a row is refused."""
    categories: tuple[str, ...] | None = None
    """For ``category`` only: a value becomes its place in this list, counted from 0."""

    def __post_init__(self) -> None:
        """Refuse a column that could never be read."""
        if (self.type == "category") != bool(self.categories):
            raise ValueError(
                f"column {self.name!r}: 'categories' goes with type = \"category\", and only there"
            )
        if self.default is not None and not self._fits(self.default):
            raise ValueError(f"column {self.name!r}: default {self.default!r} is no {self.type}")

    def _fits(self, value: float | bool | str) -> bool:
        if self.type == "category":
            return value in (self.categories or ())
        if self.type == "boolean":
            return isinstance(value, bool)
        wanted = int if self.type == "integer" else (int, float)
        return isinstance(value, wanted) and not isinstance(value, bool)


class TabularSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Named columns become one numeric input ``(rows, columns)``."""

    input: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        """Refuse an empty list and a name that stands there twice."""
        names = [column.name for column in self.columns]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"[tabular] columns must be named, each once; found {names}")


class LabelsSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Class probabilities ``(rows, classes)`` become the name of the likeliest class."""

    output: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse names that could not tell two classes apart."""
        if not self.names or len(set(self.names)) != len(self.names):
            raise ValueError(f"[labels] names must be given, each once; found {self.names}")


class TransformSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How people's rows become tensors and tensors become what people read."""

    tabular: TabularSpec | None = None
    text: TextSpec | None = None
    image: ImageSpec | None = None
    pooling: PoolingSpec | None = None
    labels: LabelsSpec | None = None

    def __post_init__(self) -> None:
        """Refuse two ways to read a row, and pooling without tokens."""
        readers = {"tabular": self.tabular, "text": self.text, "image": self.image}
        if len(given := [name for name, spec in readers.items() if spec is not None]) > 1:
            raise ValueError(f"a row is read in one way, but there are {given}")
        if self.pooling is not None and self.text is None:
            raise ValueError("[pooling] needs [text], which says how many tokens are real")


class BatchInvariance(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a row's answer may depend on its batch-mates."""

    tolerance: float
    """Largest allowed absolute difference of any output value; 0 and above."""
    measured: float | None
    """Largest difference seen when publishing; ``None`` where there is none to measure.

    That is a model of one row a call, or answers such as labels that differed: then the manifest
    has a warning.
    """


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``manifest.json``, schema 1."""

    schema: Literal[1] = 1
    name: str
    version: int
    created_at: str
    """ISO 8601, UTC."""
    files: dict[str, FileEntry]
    """By path inside the version's folder; without claim.json and the manifest itself."""
    signature: Signature
    batch_axis: Literal["free", "fixed"]
    """``free``: any number of rows in one call; ``fixed``: just as many as the shape says."""
    batch_invariance: BatchInvariance
    transforms: TransformSpec
    variants: dict[str, str]
    """File by variant name; ``default`` is always there."""
    opset: dict[str, int]
    """Version by operator domain; ``ai.onnx`` is the standard one."""
    source: str
    """Name of the file that was published; never a path."""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse names that could lead out of the version's folder, and dangling variants."""
        try:
            parse_model_name(self.name)
        except InvalidIdError as error:
            raise ValueError(str(error)) from error
        for path in self.files:
            if any(part in {"", ".", ".."} for part in path.split("/")) or set(path) & {"\\", "\0"}:
                raise ValueError(f"file path {path!r} leads out of the version's folder")
        missing = [file for file in self.variants.values() if file not in self.files]
        if "default" not in self.variants or missing:
            raise ValueError(f"variants {self.variants} must name 'default' and listed files")
        text = self.transforms.text
        if text is not None and text.tokenizer not in self.files:
            raise ValueError(f"the tokenizer {text.tokenizer!r} is none of the files")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedVersion:
    """One version that exists, and the name that its bytes have."""

    manifest: Manifest
    tag: ModelTag


def dump_manifest(manifest: Manifest) -> bytes:
    """Write the canonical bytes: sorted keys, two spaces, a newline at the end.

    ``load_manifest(dump_manifest(m)) == m`` for every manifest.
    """
    encoded = msgspec.json.encode(manifest, order="sorted")
    return msgspec.json.format(encoded, indent=2) + b"\n"


def load_manifest(content: bytes, *, where: str) -> Manifest:
    """Read and check a manifest of any released schema.

    Args:
        content: The bytes of manifest.json.
        where: What to call it in an error, such as ``risk@7``.

    Raises:
        ArtifactError: It is no JSON, lacks a field, has an unknown one, or means nothing.
    """
    try:
        return msgspec.json.decode(content, type=Manifest)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ArtifactError(
            f"manifest.json of {where} cannot be read: {error}. "
            "If a newer Tidegate published it, upgrade this one; else publish the model again."
        ) from error
