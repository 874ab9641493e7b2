"""Running a model once before anybody depends on it: rows in, rows out, batch-mates harmless."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from tidegate.artifacts.manifest import Manifest
from tidegate.errors import ArtifactError, BackendError
from tidegate.inference.arrays import Array, Tensors, padded
from tidegate.inference.runner import ModelRunner
from tidegate.inference.transforms import RowReader, build_reader, build_writer
from tidegate.inference.transforms.pooling import real_tokens
from tidegate.inference.transforms.text import TextReader
from tidegate.publishing.samples import sample_rows, sample_text
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE, Signature, TensorSpec

TRIAL_ROWS: Final = 16
"""Enough that a row sits in batches of 1, 8 and 16, which take different kernels in onnxruntime."""
_FREE_LENGTH: Final = 4
"""Length of a variable dimension other than the rows; any small number does."""
_SEED: Final = 20261201
"""Fixed, so that publishing the same file twice measures the same."""
_OF_BATCH: Final = "Batching may change answers; look for normalisation over the batch axis."
_OF_PADDING: Final = (
    "Longer texts in a request may change answers; does the model read the attention mask?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What running the model showed."""

    batch_axis: Literal["free", "fixed"]
    largest_difference: float | None
    """Of any output value, between a row alone and the same row among others; infinite where a
    label or an integer differed; ``None`` for a model that only takes one row."""
    padding_difference: float | None = None
    """Likewise between a text padded to its own bucket and to a longer one, as presented; ``None``
    where there is one length."""

    @property
    def largest(self) -> float | None:
        """The larger of both; ``None`` if there was nothing to compare."""
        measured = (self.largest_difference, self.padding_difference)
        return max((difference for difference in measured if difference is not None), default=None)

    def warnings(self, tolerance: float) -> tuple[str, ...]:
        """Say which difference is above what is allowed, and where to look."""
        causes = (
            (self.largest_difference, "its batch-mates", _OF_BATCH),
            (self.padding_difference, "how far it is padded", _OF_PADDING),
        )
        return tuple(
            f"a row's answer depends on {cause}: it differed {_how_far(difference)}, the "
            f"tolerance is {tolerance:g}. {advice}"
            for difference, cause, advice in causes
            if difference is not None and difference > tolerance
        )


def try_model(runner: ModelRunner, draft: Manifest, *, file: Callable[[str], Path]) -> Trial:
    """Score made-up rows in several batches, and texts at every padded length, and compare.

    Args:
        runner: The loaded model.
        draft: The manifest as far as it is known; its transforms make the rows.
        file: Where a file that the draft lists lies.

    Raises:
        ArtifactError: The model takes no rows, raises on made-up ones, or answers with another
            number of rows than it was given.
    """
    fixed_rows = _fixed_rows(runner.signature)
    reader = build_reader(draft, file=file)
    rows = TRIAL_ROWS if fixed_rows is None else fixed_rows
    samples = sample_rows(reader, rows)
    if samples is None:
        inputs = _random_inputs(runner.signature, rows)
    else:
        inputs = reader.from_instances(samples)
    return Trial(
        batch_axis="free" if fixed_rows is None else "fixed",
        largest_difference=_batch_difference(runner, inputs, fixed_rows),
        padding_difference=_padding_difference(runner, reader, draft, fixed_rows),
    )


def _batch_difference(runner: ModelRunner, inputs: Tensors, fixed_rows: int | None) -> float | None:
    whole = _run(runner, inputs)
    rows = len(next(iter(inputs.values())))
    if fixed_rows == 1:
        return None
    if fixed_rows is not None:
        order = np.roll(np.arange(rows), 1)
        return _difference(_take(whole, order), _run(runner, _take(inputs, order)))
    alone = [_run(runner, _take(inputs, np.array([row]))) for row in range(rows)]
    halves = [_run(runner, _take(inputs, half)) for half in np.split(np.arange(rows), 2)]
    return max(_difference(whole, _join(parts)) for parts in (alone, halves))


def _padding_difference(
    runner: ModelRunner, reader: RowReader, draft: Manifest, fixed_rows: int | None
) -> float | None:
    """Answer a short text at every length, beside nobody, and a text of that length too."""
    text = draft.transforms.text
    if not isinstance(reader, TextReader) or text is None:
        return None
    writer = build_writer(draft)

    def answer(inputs: Tensors) -> dict[str, Array]:
        filled = padded(inputs, by_rows=(fixed_rows or 1) - 1)
        outputs = _take(_run(runner, filled), np.array([0]))
        presented = writer.present(outputs, inputs)
        real = real_tokens(text, inputs)  # an answer for each token has some for padding, too
        return {
            name: values[real] if values.shape[1:2] == real.shape[1:] else values
            for name, values in presented.items()
        }

    short = sample_text(reader, reader.buckets[0])
    answers = []
    for bucket in reader.buckets:
        both = reader.from_instances([short, sample_text(reader, bucket)])
        padded_short, long = (_take(both, np.array([row])) for row in (0, 1))
        answers.append(answer(padded_short))
        answer(long)  # a model may have fewer positions than the longest text
    return max((_difference(answers[0], other) for other in answers[1:]), default=None)


def _how_far(difference: float) -> str:
    return f"by {difference:.2g}" if math.isfinite(difference) else "in a label or a number"


def _fixed_rows(signature: Signature) -> int | None:
    """Return the row count that the graph fixes; ``None`` if it is free."""
    leading = {spec.name: spec.shape[0] if spec.shape else None for spec in signature.inputs}
    if not leading or None in leading.values():
        raise ArtifactError(
            f"every input needs a leading dimension that counts rows; found {signature}. "
            "Export the model with a batch axis first in each input."
        )
    sizes = set(leading.values())
    if len(sizes) != 1:
        raise ArtifactError(
            f"the inputs disagree on the number of rows: {leading}. The leading dimension must "
            "be the batch axis of each, free (symbolic) in all or of one size in all."
        )
    (size,) = sizes
    return None if size == VARIABLE else size


def _random_inputs(signature: Signature, rows: int) -> dict[str, Array]:
    random = np.random.default_rng(_SEED)
    return {spec.name: _random_tensor(spec, rows, random) for spec in signature.inputs}


def _random_tensor(spec: TensorSpec, rows: int, random: np.random.Generator) -> Array:
    shape = (rows, *(_FREE_LENGTH if size == VARIABLE else size for size in spec.row_shape))
    dtype = np.dtype(DATATYPES[spec.datatype].numpy)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    if dtype.kind == "O":
        return random.choice(["a", "b"], size=shape).astype(object)
    return random.integers(0, 2, size=shape).astype(dtype)  # small: they may be ids of a table


def _run(runner: ModelRunner, inputs: Tensors) -> dict[str, Array]:
    try:
        return runner.run(inputs)
    except BackendError as error:
        shapes = {name: list(array.shape) for name, array in inputs.items()}
        raise ArtifactError(
            f"the model failed on made-up rows of the shapes {shapes}: {error} "
            "If it was exported for a fixed number of rows, export it with a free batch axis."
        ) from error


def _take(arrays: Tensors, rows: Array) -> dict[str, Array]:
    return {name: np.ascontiguousarray(array[rows]) for name, array in arrays.items()}


def _join(parts: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _difference(left: Tensors, right: Tensors) -> float:
    return max(_largest_gap(left[name], right[name]) for name in left)


def _largest_gap(left: Array, right: Array) -> float:
    """Compare one output; NaN equals NaN, and what is no float must be the same."""
    if left.dtype.kind != "f":
        return 0.0 if np.array_equal(left, right) else float("inf")
    if left.shape != right.shape or not np.array_equal(np.isfinite(left), np.isfinite(right)):
        return float("inf")
    finite = np.isfinite(left)
    return float(np.abs(left[finite] - right[finite]).max(initial=0.0))
