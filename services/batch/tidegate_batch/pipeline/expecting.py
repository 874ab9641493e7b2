"""What a model expects of each column that it reads, told from the manifest alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from tidegate.artifacts.manifest import Column, Manifest
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import TensorSpec

_Predicate: TypeAlias = Callable[[pa.DataType], bool]
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


def _of_column(column: Column) -> ExpectedColumn:
    description, accepts = {
        "number": ("numbers", _is_number),
        "integer": ("integers", pa.types.is_integer),
        "boolean": ("booleans", pa.types.is_boolean),
        "category": ("text", _is_text),
    }[column.type]
    return ExpectedColumn(
        description=description, accepts=accepts, may_be_missing=column.default is not None
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

    return ExpectedColumn(description=described, accepts=accepts, may_be_missing=False)


def _scalars_for(numpy_kind: str) -> _Predicate:
    if numpy_kind == "f":
        return _is_number
    if numpy_kind in "iu":
        return pa.types.is_integer
    return pa.types.is_boolean if numpy_kind == "b" else _is_text


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.DictionaryType):
        return _is_text(kind.value_type)
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_binary(kind: pa.DataType) -> bool:
    return (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


_TEXT: Final = ExpectedColumn(description="text", accepts=_is_text, may_be_missing=False)
_IMAGE: Final = ExpectedColumn(
    description="the bytes of images", accepts=_is_binary, may_be_missing=False
)
