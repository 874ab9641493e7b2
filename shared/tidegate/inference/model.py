"""A loaded model version: people's rows in, people's answers out."""

from collections.abc import Mapping, Sequence
from typing import Self

from tidegate.artifacts.local import LocalVersion
from tidegate.artifacts.manifest import Manifest
from tidegate.errors import ArtifactError
from tidegate.ids import ModelTag
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.runner import ModelRunner
from tidegate.inference.transforms import RowReader, RowWriter, build_reader, build_writer
from tidegate.tensors.signature import Signature


class Model:
    """One version in memory; everything but ``run`` is pure and thread-safe."""

    def __init__(self, *, manifest: Manifest, tag: ModelTag, runner: ModelRunner) -> None:
        self.manifest = manifest
        self.tag = tag
        self._runner = runner
        self._reader: RowReader = build_reader(manifest)
        self._writer: RowWriter = build_writer(manifest)

    @classmethod
    def load(cls, version: LocalVersion, *, threads: int) -> Self:
        """Load the default variant of a verified version.

        Raises:
            ArtifactError: The model cannot be loaded, or its signature is not the manifest's.
        """
        manifest = version.manifest
        runner = ModelRunner.load(version.file(manifest.variants["default"]), threads=threads)
        if runner.signature != manifest.signature:
            raise ArtifactError(
                f"{version.tag} has another signature than its manifest: expected "
                f"{manifest.signature}, found {runner.signature}. Publish the model again."
            )
        return cls(manifest=manifest, tag=version.tag, runner=runner)

    @property
    def signature(self) -> Signature:
        """The tensors that the model reads and writes."""
        return self.manifest.signature

    @property
    def columns(self) -> tuple[str, ...]:
        """The named columns that a row is read from; every other column is ignored."""
        return self._reader.columns

    def run(self, inputs: Tensors) -> dict[str, Array]:
        """Score one batch of checked tensors; see ``ModelRunner.run``."""
        return self._runner.run(inputs)

    def tensors_from_instances(self, instances: Sequence[object]) -> dict[str, Array]:
        """Turn JSON instances (v1), one row each, into the model's inputs.

        Args:
            instances: At least one. An object of named columns, or a bare value or list where
                that says everything.

        Raises:
            SignatureMismatchError: An instance does not fit; the message names row and column.
        """
        return self._reader.from_instances(instances)

    def tensors_from_columns(self, columns: Mapping[str, Array]) -> dict[str, Array]:
        """Turn the columns of a table into the model's inputs.

        Args:
            columns: One array ``(rows,)`` for each name in ``self.columns``, or
                ``(rows, …)`` for a column of lists. Missing values are NaN in float arrays
                and ``None`` in object arrays.

        Raises:
            SignatureMismatchError: A value does not fit; the message names row and column.
        """
        return self._reader.from_columns(columns)

    def present(self, outputs: Tensors) -> dict[str, Array]:
        """Turn outputs into the named columns that people read, ``(rows, …)`` each.

        ``prediction`` for a model's only output, else ``prediction_<output>``; the ``labels``
        transform adds ``label`` and ``probability``. The names and their order depend on the
        manifest alone.
        """
        return self._writer.present(outputs)
