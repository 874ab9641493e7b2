"""``transform.toml``: read it, and check it against the model that it is published with."""

import tomllib
from pathlib import Path

import msgspec
import numpy as np

from tidegate.artifacts.manifest import LabelsSpec, TabularSpec, TransformSpec
from tidegate.errors import ArtifactError
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE, Signature, TensorSpec

_MATRIX_RANK = 2


def read_transform(file: Path) -> TransformSpec:
    """Read a transform file; docs/formats.md describes it.

    Raises:
        ArtifactError: It is no TOML, or says something that no transform understands.
    """
    try:
        return msgspec.convert(tomllib.loads(file.read_text("utf-8")), TransformSpec)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ArtifactError(f"{file} cannot be read as TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise ArtifactError(f"{file}: {error}. docs/formats.md shows the whole format.") from error


def check_transform(transform: TransformSpec, signature: Signature) -> None:
    """Refuse a transform whose tensors are not the model's.

    Raises:
        ArtifactError: An input or output is not there, or has another size than the names.
    """
    if transform.tabular is not None:
        _check_tabular(transform.tabular, signature)
    if transform.labels is not None:
        _check_labels(transform.labels, signature)


def _check_tabular(tabular: TabularSpec, signature: Signature) -> None:
    spec = _find("[tabular] input", tabular.input, signature.inputs)
    if len(signature.inputs) != 1:
        names = [found.name for found in signature.inputs]
        raise ArtifactError(
            f"[tabular] fills one input, but the model reads {names}: publish it without "
            "[tabular], and send each input by its name"
        )
    is_float = np.dtype(DATATYPES[spec.datatype].numpy).kind == "f"  # integers would lose digits
    _check_width("[tabular] columns", len(tabular.columns), spec, fits=is_float)


def _check_labels(labels: LabelsSpec, signature: Signature) -> None:
    spec = _find("[labels] output", labels.output, signature.outputs)
    is_float = np.dtype(DATATYPES[spec.datatype].numpy).kind == "f"
    _check_width("[labels] names", len(labels.names), spec, fits=is_float)


def _find(what: str, name: str, specs: tuple[TensorSpec, ...]) -> TensorSpec:
    for spec in specs:
        if spec.name == name:
            return spec
    raise ArtifactError(
        f"{what} = {name!r} is not in the model; it has {[spec.name for spec in specs]}"
    )


def _check_width(what: str, width: int, spec: TensorSpec, *, fits: bool) -> None:
    matrix = len(spec.shape) == _MATRIX_RANK and spec.shape[1] in {width, VARIABLE}
    if not (matrix and fits):
        raise ArtifactError(
            f"{what} are {width}, but {spec.name!r} is {spec}: "
            f"it must be of floating-point numbers, of the shape [-1, {width}]"
        )
