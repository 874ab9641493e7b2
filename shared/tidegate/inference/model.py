"""A loaded model version: people's rows in, people's answers out."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from tidegate.artifacts.local import LocalVersion
from tidegate.artifacts.manifest import Manifest
from tidegate.errors import ArtifactError
from tidegate.ids import ModelTag
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.runner import ModelRunner, RunControl
from tidegate.inference.transforms import RowReader, RowWriter, build_reader, build_writer
from tidegate.inference.transforms.image import ImageReader
from tidegate.inference.transforms.padding import PaddingStatistics
from tidegate.inference.transforms.text import TextReader
from tidegate.oip.packing import NumberRows
from tidegate.tensors.signature import Signature


class Model:
    """One version in memory; everything but ``run`` may be called from several threads at once."""

    def __init__(
        self,
        *,
        manifest: Manifest,
        tag: ModelTag,
        runner: ModelRunner,
        file: Callable[[str], Path] = Path,
    ) -> None:
        """Build the transforms.

        Args:
            manifest: Of the version.
            tag: Its name.
            runner: Its loaded model.
            file: Where a file that the manifest lists lies; asked only for those of transforms.

        Raises:
            ArtifactError: A file of a transform is not what it must be.
        """
        self.manifest = manifest
        self.tag = tag
        self._runner = runner
        self._reader: RowReader = build_reader(manifest, file=file)
        self._writer: RowWriter = build_writer(manifest)
        self.numbers = NumberRows.of(manifest.signature)
        """Its one input, if each row of that is a fixed count of numbers."""
        flat = self.numbers if self.numbers is not None and self.numbers.are_flat else None
        self.listed_numbers = flat if self._reader.reads_numbers else None
        """The same, if an instance (v1) is a list of these numbers."""

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
        return cls(manifest=manifest, tag=version.tag, runner=runner, file=version.file)

    @property
    def signature(self) -> Signature:
        """The tensors that the model reads and writes."""
        return self.manifest.signature

    @property
    def columns(self) -> tuple[str, ...]:
        """The named columns that a row is read from; every other column is ignored."""
        return self._reader.columns

    @property
    def lengths(self) -> tuple[int, ...]:
        """The padded lengths that variable dimensions of its inputs take, increasing.

        Each is a shape of its own, to be warmed and timed. ``(1,)`` where nothing but the rows
        varies, or nothing is known.
        """
        return self._reader.buckets if isinstance(self._reader, TextReader) else (1,)

    @property
    def is_slow_to_read(self) -> bool:
        """Whether turning a row into tensors takes so long that an event loop must not wait.

        Text and images: a photo takes about 100 ms. Both leave other threads to run meanwhile.
        """
        return isinstance(self._reader, (TextReader, ImageReader))

    @property
    def reads_files(self) -> bool:
        """Whether a row is the bytes of a file, an image, which may come without any JSON."""
        return isinstance(self._reader, ImageReader)

    @property
    def padding(self) -> PaddingStatistics:
        """How much of the texts that were read so far is padding; zeros where none is read."""
        if isinstance(self._reader, TextReader):
            return self._reader.padding
        return PaddingStatistics()

    def reopened(self) -> ModelRunner:
        """Load the model once more; see ``ModelRunner.reopened``."""
        return self._runner.reopened()

    def run(self, inputs: Tensors, control: RunControl | None = None) -> dict[str, Array]:
        """Score one batch of checked tensors; see ``ModelRunner.run``."""
        return self._runner.run(inputs, control)

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

    def present(self, outputs: Tensors, inputs: Tensors) -> dict[str, Array]:
        """Turn outputs into the named columns that people read, ``(rows, …)`` each.

        ``prediction`` for a model's only output, else ``prediction_<output>``; the ``labels``
        transform adds ``label`` and ``probability``. The names and their order depend on the
        manifest alone.

        Args:
            outputs: Of ``run``.
            inputs: What it was given for the same rows.
        """
        return self._writer.present(outputs, inputs)
