"""What the ONNX file itself says: is it sound, which operators, which files beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import onnx
from google.protobuf.message import DecodeError

from tidegate.errors import ArtifactError

_STANDARD_DOMAIN = "ai.onnx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The facts of a file that passed the checker."""

    opset: dict[str, int]
    """Version by operator domain."""
    external_files: tuple[str, ...]
    """Weights that lie beside the model file, relative to its folder."""


def read_graph(file: Path) -> Graph:
    """Check a model file as it lies on disk, with the weights beside it.

    Raises:
        ArtifactError: It is no ONNX model, breaks the format's rules, or names weights outside
            its own folder.
    """
    external = external_files(file)
    try:
        onnx.checker.check_model(file)
    except (onnx.checker.ValidationError, ValueError) as error:
        reason = str(error).strip()
        raise ArtifactError(f"{file.name} is not a valid ONNX model: {reason}") from error
    model = _load(file)
    opset = {entry.domain or _STANDARD_DOMAIN: entry.version for entry in model.opset_import}
    return Graph(opset=opset, external_files=external)


def external_files(file: Path) -> tuple[str, ...]:
    """Return the files beside the model that hold its weights, relative to its folder.

    Raises:
        ArtifactError: It is no ONNX model, or one of the files is missing or lies outside the
            folder (CVE-2022-25882 is what loading such files led to).
    """
    locations = tuple(dict.fromkeys(_external_locations(_load(file).graph)))
    for location in locations:
        _check_inside(file.parent, location)
    return locations


def _load(file: Path) -> onnx.ModelProto:
    try:  # by the bytes: left to itself, onnx picks a parser of text by the ending of the name
        return onnx.load(file, format="protobuf", load_external_data=False)
    except (DecodeError, OSError) as error:
        raise ArtifactError(f"{file.name} cannot be read as an ONNX model: {error}") from error


def _external_locations(graph: onnx.GraphProto) -> Iterator[str]:
    for tensor in _tensors(graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            yield entries.get("location", "")


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that may hold weights: also in constants and in the bodies of loops."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for body in (attribute.g, *attribute.graphs):
                if body.node or body.initializer:
                    yield from _tensors(body)


def _check_inside(folder: Path, location: str) -> None:
    path = PurePosixPath(location)
    outside = (
        path.is_absolute() or "\\" in location or any(p in {"", "..", "."} for p in path.parts)
    )
    file = folder / path
    if outside or not location or file.is_symlink() or not file.is_file():
        raise ArtifactError(
            f"the model keeps weights in {location!r}. Such a file must lie in the model's own "
            "folder, under a relative path without '..', and be no link. Export the model again "
            "with its weights inside, or beside it."
        )
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ArtifactError(f"the weights {location!r} lead out of the model's folder by a link")
