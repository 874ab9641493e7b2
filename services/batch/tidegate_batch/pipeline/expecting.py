"""What a model expects of each column that it reads, told from the manifest alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from tidegate.artifacts.manifest import Column, Manifest
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import TensorSpec
from tidegate_batch.core.formats import ColumnType
from tidegate_batch.pipeline.arrays import is_text
from tidegate_batch.pipeline.output import PROVENANCE, prediction_types

_Predicate: TypeAlias = Callable[[pa.DataType], bool]
COPIED: Final[dict[ColumnType, pa.DataType]] = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "text": pa.string(),
}
_LISTS: Final = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedColumn:
    """A column that the model reads."""

    description: str
    """For people: ``a number``."""
    accepts: _Predicate
    """Whether values of a type can be read at all; a single value may still be refused."""
    may_be_missing: bool
    """A default stands in for a missing value."""
    text_type: pa.DataType | None
    """What values of a text file are read as; ``None`` if text cannot hold them."""


def expected_columns(manifest: Manifest) -> dict[str, ExpectedColumn]:
    """Return what the model reads, by column, in its order."""
    transforms = manifest.transforms
    if transforms.tabular is not None:
        return {column.name: _of_column(column) for column in transforms.tabular.columns}
    if transforms.text is not None:
        return {transforms.text.column: _TEXT}
    if transforms.image is not None:
        return {transforms.image.column: _IMAGE}
    return {spec.name: _of_tensor(spec) for spec in manifest.signature.inputs}


def text_schema(manifest: Manifest) -> pa.Schema:
    """Return the types that the model's columns are read as from files that do not say any.

    What cannot be missing is not nullable. A column that text cannot hold is not in it.
    """
    return pa.schema(
        pa.field(name, expected.text_type, nullable=expected.may_be_missing)
        for name, expected in expected_columns(manifest).items()
        if expected.text_type is not None
    )


def copied_types(types: Mapping[str, ColumnType]) -> pa.Schema:
    """Return the types that a person gave to columns of text files; they may miss values."""
    return pa.schema(pa.field(name, COPIED[kind]) for name, kind in types.items())


def read_schema(manifest: Manifest, output: pa.Schema) -> pa.Schema:
    """Return the columns that a job reads: the model's, then those that it copies.

    Args:
        manifest: Of the model.
        output: The output's schema, which has the type of each copied column.
    """
    model = {name: pa.field(name, pa.binary()) for name in expected_columns(manifest)}
    model |= {field.name: field for field in text_schema(manifest)}
    kept = [output.field(name) for name in planned_kept(manifest, output) if name not in model]
    return pa.schema([*model.values(), *kept])


def planned_kept(manifest: Manifest, output: pa.Schema) -> list[str]:
    """Return the columns of an output that are copied from the input."""
    added = prediction_types(manifest).keys() | PROVENANCE.keys()
    return [name for name in output.names if name not in added]


def _of_column(column: Column) -> ExpectedColumn:
    kinds: dict[str, tuple[str, _Predicate, pa.DataType]] = {
        "number": ("numbers", _is_number, pa.float64()),
        "integer": ("integers", pa.types.is_integer, pa.int64()),
        "boolean": ("booleans", pa.types.is_boolean, pa.bool_()),
        "category": ("text", is_text, pa.string()),
    }
    description, accepts, text_type = kinds[column.type]
    return ExpectedColumn(
        description=description,
        accepts=accepts,
        may_be_missing=column.default is not None,
        text_type=text_type,
    )


def _of_tensor(spec: TensorSpec) -> ExpectedColumn:
    described = f"values of {spec.datatype}"
    if spec.row_shape:
        described = f"lists of the shape {list(spec.row_shape)}, {described}"
    scalar = _scalars_for(DATATYPES[spec.datatype].kind)

    def accepts(kind: pa.DataType) -> bool:
        for _ in spec.row_shape:
            if not isinstance(kind, _LISTS):
                return False
            kind = kind.value_type
        return scalar(kind)

    text_type = _text_type(spec.datatype)
    for _ in spec.row_shape:
        text_type = pa.list_(pa.field("element", text_type))
    return ExpectedColumn(
        description=described, accepts=accepts, may_be_missing=False, text_type=text_type
    )


def _text_type(datatype: str) -> pa.DataType:
    """Return a type that holds every value of a datatype, as JSON and the gateway have it."""
    kind = DATATYPES[datatype].kind
    if kind in "iu":
        return pa.uint64() if datatype == "UINT64" else pa.int64()
    kinds: dict[str, pa.DataType] = {"f": pa.float64(), "b": pa.bool_()}
    return kinds.get(kind, pa.string())


def _scalars_for(numpy_kind: str) -> _Predicate:
    if numpy_kind == "f":
        return _is_number
    if numpy_kind in "iu":
        return pa.types.is_integer
    return pa.types.is_boolean if numpy_kind == "b" else is_text


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_binary(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


_TEXT: Final = ExpectedColumn(
    description="text", accepts=is_text, may_be_missing=False, text_type=pa.string()
)
_IMAGE: Final = ExpectedColumn(
    description="the bytes of images", accepts=_is_binary, may_be_missing=False, text_type=None
)
