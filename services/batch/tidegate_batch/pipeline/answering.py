"""Answering the rows of a batch, each as the interactive path would, whatever some of them do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.errors import BackendError, RequestRejectedError
from tidegate.inference.arrays import Array, padded
from tidegate.inference.model import Model
from tidegate.inference.runner import DeviceLostError, OutOfMemoryError, RunControl
from tidegate.inference.transforms.tabular import MISSING_VALUE, MissingValueError
from tidegate.inference.transforms.text import TOO_LONG, TextTooLongError
from tidegate.oip.errors import NonFiniteOutputError
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import VARIABLE
from tidegate_batch.core.bisection import Bisection, Part
from tidegate_batch.pipeline.arrays import require_text, to_numpy

MOST_BATCH_ROWS: Final = 4096
MOST_BATCH_BYTES: Final = 16 << 20
"""Of one batch's inputs and outputs; for rows such as images and texts it is the bytes that count,
and a vector for each token is many more of them than the tokens."""
_PLACE_IN_BATCH: Final = re.compile(r" in row 0\b")
"""Where an error finds a row that failed alone; people are told where it stands in the file."""


def batch_rows_for(model: Model) -> int:
    """Return how many rows one call of the model gets; a fixed axis leaves no choice."""
    inputs, longest = model.signature.inputs, model.lengths[-1]
    if model.manifest.batch_axis == "fixed":
        return inputs[0].shape[0]
    row_bytes = sum(
        prod(longest if size == VARIABLE else size for size in spec.row_shape)
        * (DATATYPES[spec.datatype].item_bytes or 1)
        for spec in (*inputs, *model.signature.outputs)
    )
    return max(1, min(MOST_BATCH_ROWS, MOST_BATCH_BYTES // max(1, row_bytes)))


def answer_rows(
    model: Model, columns: Mapping[str, Array], control: RunControl | None = None, *, rows: int
) -> dict[str, Array]:
    """Score one batch of named columns, as the interactive path would each of its rows.

    Args:
        model: The model.
        columns: One array ``(rows, …)`` per column that it reads.
        control: Of the model's call.
        rows: At least 1 and at most ``batch_rows_for(model)``.

    Returns:
        One array ``(rows, …)`` per prediction column.
    """
    inputs = model.tensors_from_columns(columns)
    if model.manifest.batch_axis == "fixed":
        missing = batch_rows_for(model) - rows
        inputs = padded(inputs, by_rows=missing)
    model.signature.check(inputs)
    outputs = model.run(inputs, control)
    asked, answered = ({k: v[:rows] for k, v in each.items()} for each in (inputs, outputs))
    return model.present(answered, asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRow:
    """A row that has no answer, and why."""

    place: int
    """In its batch, counted from 0."""
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of the rows of one batch; each is either answered or failed."""

    answers: dict[str, Array]
    """One array ``(answered rows, …)`` per prediction column; empty if no row is answered."""
    places: npt.NDArray[np.int64]
    """``(answered rows,)``: where each stands in the batch, increasing."""
    failed: tuple[FailedRow, ...]
    """In the order of the batch."""


class Answerer:
    """Answers one batch after the other of one chunk."""

    def __init__(self, model: Model, *, texts: Sequence[str] = ()) -> None:
        """Begin a chunk.

        Args:
            model: The model.
            texts: Columns besides the model's whose text must be text, to be written as such.
        """
        self._model = model
        self._texts = texts
        self._control = RunControl()  # with which no failed call writes a line of its own
        self._most_rows = batch_rows_for(model)

    def answer(self, batch: pa.RecordBatch) -> Answered:
        """Find the answer to each row, or the reason why that row alone has none.

        A batch that raises is bisected to the rows. One that takes too much memory is halved, and
        batches stay that small.

        Args:
            batch: Any number of rows, with at least the columns that the model reads.

        Raises:
            OutOfMemoryError: Not even one row fits.
            DeviceLostError: This process can answer nothing any more.
        """
        bisection = Bisection(rows=batch.num_rows, most_rows=self._most_rows)
        answered: list[Answered] = []
        while (part := bisection.take()) is not None:
            try:
                answers = self._answers(batch.slice(part.first, part.rows))
            except DeviceLostError:
                raise
            except (OutOfMemoryError, MemoryError) as error:
                if bisection.on_out_of_memory(part):
                    raise OutOfMemoryError(
                        f"memory does not suffice for a single row: {error}. Score with fewer "
                        "--workers at once, or on a machine with more of it."
                    ) from error
            except (BackendError, RequestRejectedError) as error:
                if bisection.on_failed(part):
                    answered.append(_failed_alone(part, error))
            else:
                answered.append(_finite(part, answers))
        self._most_rows = bisection.most_rows
        return _joined(answered)

    def _answers(self, batch: pa.RecordBatch) -> dict[str, Array]:
        for name in self._texts:
            require_text(batch.column(name), name=name)
        return self._scored(batch)

    def _scored(self, batch: pa.RecordBatch) -> dict[str, Array]:
        names = self._model.columns
        columns = {name: to_numpy(batch.column(name), name=name) for name in names}
        return answer_rows(self._model, columns, self._control, rows=batch.num_rows)


def code_of(error: BackendError | RequestRejectedError) -> str:
    """Return the code that a dead letter bears for this error."""
    if isinstance(error, MissingValueError):
        return MISSING_VALUE
    return TOO_LONG if isinstance(error, TextTooLongError) else error.code


def _failed_alone(part: Part, error: BackendError | RequestRejectedError) -> Answered:
    message = _PLACE_IN_BATCH.sub("", str(error))
    failed = FailedRow(place=part.first, code=code_of(error), message=message)
    return Answered(answers={}, places=np.empty(0, dtype=np.int64), failed=(failed,))


def _finite(part: Part, answers: Mapping[str, Array]) -> Answered:
    """Part the rows whose answer is a number from those whose answer is none."""
    failed: dict[int, FailedRow] = {}
    for name, values in answers.items():
        if values.dtype.kind != "f" or np.isfinite(values).all():
            continue
        is_finite = np.isfinite(values.reshape(part.rows, -1)).all(axis=1)
        message = f"the model answers NaN or infinity as {name!r}; the row is as it should be"
        for place in map(int, np.flatnonzero(~is_finite)):
            row = FailedRow(
                place=part.first + place, code=NonFiniteOutputError.code, message=message
            )
            failed.setdefault(place, row)
    places = np.arange(part.first, part.first + part.rows)
    good = dict(answers)
    if failed:
        left = np.delete(np.arange(part.rows), sorted(failed))
        places, good = places[left], {name: values[left] for name, values in answers.items()}
    return Answered(
        answers=good, places=places, failed=tuple(failed[place] for place in sorted(failed))
    )


def _joined(parts: Sequence[Answered]) -> Answered:
    """Put the parts of a batch together; nothing is copied if there is only one."""
    if len(parts) == 1:
        return parts[0]
    good = [part for part in parts if len(part.places)]
    names = good[0].answers if good else ()
    return Answered(
        answers={name: np.concatenate([part.answers[name] for part in good]) for name in names},
        places=np.concatenate([np.empty(0, dtype=np.int64), *(part.places for part in good)]),
        failed=tuple(row for part in parts for row in part.failed),
    )
