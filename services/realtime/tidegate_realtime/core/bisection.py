"""Looking for the row that makes a batch fail, so that the others get their answers.

A batch that raises is run again in halves, and a half that raises in halves of its own, until a
row fails alone: at most log2(b) more times for each row, and twice that many runs in all, because
a backend that fails whatever it is given must not be asked for ever. Whether a row that fails alone
is to blame is known only if another part of its batch has succeeded; if none did, it was the
backend. A batch of one row has no other part: there the batch before it tells. Where memory did not
suffice, smaller parts may fit, and a row that fails alone is not to blame all the same.
"""

from collections.abc import Callable
from typing import NamedTuple

from tidegate.errors import BackendError
from tidegate_realtime.core.commands import Batch, Family, Piece
from tidegate_realtime.core.request import Request, State


class Verdict(NamedTuple):
    """Whose requests fail, and why."""

    pieces: list[Piece]
    error: BackendError
    poison_row: int | None = None
    """The row that is to blame, counted in its request; there is one piece then."""


class Bisection:
    """Parts of failed batches that wait for an executor; they go before everything else."""

    __slots__ = ("_ended_well", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Batch] = []
        self._ended_well = False  # the last batch did

    def on_ended(self, batch: Batch) -> list[Verdict]:
        """Learn that a batch has succeeded."""
        self._ended_well = True
        if batch.family is None:
            return []
        batch.family.has_succeeded = True
        return _end_part(batch.family)

    def on_failed(
        self, batch: Batch, error: BackendError, *, is_hopeless: Callable[[Request], bool]
    ) -> list[Verdict]:
        """Learn that a batch has failed, of which a part may succeed.

        Args:
            batch: It runs no more.
            error: Why.
            is_hopeless: Whether a request has no time left for another try.
        """
        family = batch.family
        if family is None:
            family = Family(reruns_left=2 * (batch.rows - 1).bit_length(), suspects=[], parts=1)
            family.has_succeeded = self._ended_well and batch.rows == 1
        self._ended_well = False
        pieces = still_wanted(batch.pieces)
        verdicts: list[Verdict] = []
        if sum(piece.rows for piece in pieces) == 1:
            family.suspects.append((pieces[0], error))
        elif family.reruns_left:
            hopeless = [piece for piece in pieces if is_hopeless(piece.request)]
            verdicts.append(Verdict(hopeless, error))
            self.waiting += _halves(
                [piece for piece in pieces if not is_hopeless(piece.request)], family
            )
        else:
            verdicts.append(Verdict(pieces, error))
        return verdicts + _end_part(family)

    def on_unusable(self, batch: Batch, error: BackendError) -> list[Verdict]:
        """Learn that a batch has failed, and that no row is to blame."""
        self._ended_well = False
        verdicts = [Verdict(still_wanted(batch.pieces), error)]
        return verdicts if batch.family is None else verdicts + _end_part(batch.family)

    def on_unwanted(self, batch: Batch) -> list[Verdict]:
        """Learn that a batch was ended because nobody wanted it, which says nothing of any row."""
        return [] if batch.family is None else _end_part(batch.family)

    def give_up(self, error: BackendError) -> list[Verdict]:
        """Let no part run any more, because there is nothing to run it."""
        verdicts: list[Verdict] = []
        parts, self.waiting = self.waiting, []
        for batch in parts:
            assert batch.family is not None
            verdicts.append(Verdict(still_wanted(batch.pieces), error))
            verdicts += _end_part(batch.family)
        return verdicts

    def take(self) -> tuple[Batch | None, list[Verdict]]:
        """Remove the part to run next; ``None`` if nobody wants any more."""
        verdicts: list[Verdict] = []
        while self.waiting:
            batch = self.waiting.pop(0)
            batch.pieces = still_wanted(batch.pieces)
            batch.rows = sum(piece.rows for piece in batch.pieces)
            if batch.pieces:
                return batch, verdicts
            assert batch.family is not None
            verdicts += _end_part(batch.family)
        return None, verdicts


def still_wanted(pieces: list[Piece]) -> list[Piece]:
    """Leave out the rows of requests that have ended."""
    return [piece for piece in pieces if piece.request.state is State.RUNNING]


def _halves(pieces: list[Piece], family: Family) -> list[Batch]:
    """Cut rows that failed together into two batches to try; into one if it is a single row."""
    rows = sum(piece.rows for piece in pieces)
    room = rows // 2
    first: list[Piece] = []
    second: list[Piece] = []
    for piece in pieces:
        taken = min(room, piece.rows)
        room -= taken
        request, at = piece.request, piece.first_row
        if taken:
            first.append(Piece(request, at, taken))
        if taken < piece.rows:
            second.append(Piece(request, at + taken, piece.rows - taken))
    parts = [part for part in (first, second) if part]
    family.reruns_left = max(0, family.reruns_left - len(parts))
    family.parts += len(parts)
    return [
        Batch(part, sum(piece.rows for piece in part), "bisect", family=family) for part in parts
    ]


def _end_part(family: Family) -> list[Verdict]:
    """Decide, once all parts of a batch have ended, whose fault the failures were."""
    family.parts -= 1
    if family.parts:
        return []
    is_sound = family.has_succeeded
    return [
        Verdict([piece], error, piece.first_row if is_sound and error.may_blame_row else None)
        for piece, error in family.suspects
        if piece.request.state is State.RUNNING
    ]
