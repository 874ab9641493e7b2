"""Looking for the rows that make a batch fail, so that all others get their answers.

A batch that raises is run again in halves, and a half that raises in halves of its own, until a
row fails alone. Of ``b`` rows ``k`` that fail alone cost at most ``2 * k * ceil(log2(b))`` more
runs; a batch that only fails together costs one for each part of it that does not. The gateway
bounds its re-runs, because somebody waits; here nobody does, and no row is given up untried.

When memory runs out no row is to blame: the same rows are tried again in smaller batches, and all
that follow are as small.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Successive rows of a batch, for one call of the model."""

    first: int
    """Counted from 0 within the batch."""
    rows: int


class Bisection:
    """The parts of one batch that are still to be tried, in the order of their rows."""

    def __init__(self, *, rows: int, most_rows: int) -> None:
        """Begin with the whole batch.

        Args:
            rows: Of the batch; 0 leaves nothing to try.
            most_rows: Of one call of the model, at least 1.
        """
        self.most_rows = most_rows
        """What one call may have by now; pass it on to the next batch."""
        self._waiting = [Part(0, rows)] if rows else []

    def take(self) -> Part | None:
        """Remove the part to run next; ``None`` if every row is answered, or failed alone."""
        if not self._waiting:
            return None
        part = self._waiting.pop()
        if part.rows > self.most_rows:
            rest = Part(part.first + self.most_rows, part.rows - self.most_rows)
            self._waiting.append(rest)
            part = Part(part.first, self.most_rows)
        return part

    def on_failed(self, part: Part) -> bool:
        """Learn that a part raised, and say whether it is a row alone, which is to blame."""
        if part.rows == 1:
            return True
        half = (part.rows + 1) // 2
        self._waiting.append(Part(part.first + half, part.rows - half))
        self._waiting.append(Part(part.first, half))
        return False

    def on_out_of_memory(self, part: Part) -> bool:
        """Learn that memory did not suffice for a part, and say whether it could be no smaller."""
        if part.rows == 1:
            return True
        self.most_rows = part.rows // 2
        self._waiting.append(part)
        return False
