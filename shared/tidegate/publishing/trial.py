"""Running a model once before anybody depends on it: rows in, rows out, batch-mates harmless."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from tidegate.errors import ArtifactError, BackendError
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.runner import ModelRunner
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE, Signature, TensorSpec

TRIAL_ROWS: Final = 16
"""Enough that a row sits in batches of 1, 8 and 16, which take different kernels in onnxruntime."""
_FREE_LENGTH: Final = 4
"""Length of a variable dimension other than the rows; any small number does."""
_SEED: Final = 20261201
"""Fixed, so that publishing the same file twice measures the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What running the model showed."""

    batch_axis: Literal["free", "fixed"]
    largest_difference: float | None
    """Of any output value, between a row alone and the same row among others; infinite where a
    label or an integer differed; ``None`` for a model that only takes one row."""


def try_model(runner: ModelRunner) -> Trial:
    """Score random rows in several batches and compare.

    Raises:
        ArtifactError: The model takes no rows, raises on random ones, or answers with another
            number of rows than it was given.
    """
    fixed_rows = _fixed_rows(runner.signature)
    rows = TRIAL_ROWS if fixed_rows is None else fixed_rows
    inputs = _random_inputs(runner.signature, rows)
    whole = _run(runner, inputs)
    if fixed_rows == 1:
        return Trial(batch_axis="fixed", largest_difference=None)
    if fixed_rows is not None:
        order = np.roll(np.arange(rows), 1)
        rolled = _run(runner, _take(inputs, order))
        return Trial(
            batch_axis="fixed", largest_difference=_difference(_take(whole, order), rolled)
        )
    alone = [_run(runner, _take(inputs, np.array([row]))) for row in range(rows)]
    halves = [_run(runner, _take(inputs, half)) for half in np.split(np.arange(rows), 2)]
    differences = [_difference(whole, _join(parts)) for parts in (alone, halves)]
    return Trial(batch_axis="free", largest_difference=max(differences))


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
            f"the model failed on random rows of the shapes {shapes}: {error} "
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
