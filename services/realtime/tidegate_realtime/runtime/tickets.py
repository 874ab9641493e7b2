"""Who waits for an outcome: with what each has sent, and what has come for it so far."""

import asyncio
from operator import itemgetter

from tidegate.inference.arrays import Tensors
from tidegate.units import Nanoseconds
from tidegate_realtime.core.commands import Batch, Piece
from tidegate_realtime.core.request import Request, State
from tidegate_realtime.runtime.arrays import cut, gather
from tidegate_realtime.runtime.outcomes import Answered, Outcome, time_spent
from tidegate_realtime.runtime.ticket import Ticket

ANSWERED = State.ANSWERED
"""A local name, because looking a member up in its class takes four times as long."""


class Tickets:
    """The tickets of one driver, from ``submit`` until they are settled."""

    def __init__(self) -> None:
        """Let nobody wait yet; call it on the running loop."""
        self.settled = 0
        """Requests that have ended so far."""
        self._open: dict[Request, Ticket] = {}
        self._probes: dict[Request, Tensors] = {}
        self._is_awaited = False
        self._all_ended = asyncio.Event()

    def __contains__(self, ticket: Ticket) -> bool:
        """Whether its request has not ended."""
        return ticket.request in self._open

    def add(self, ticket: Ticket) -> None:
        """Let somebody wait."""
        self._open[ticket.request] = ticket

    def settle(self, request: Request, outcome: Outcome) -> None:
        """End a request; the only place where a future is touched, in whatever state it is."""
        future = self._open.pop(request).future
        self.settled += 1
        if not future.done():
            future.set_result(outcome)
        if self._is_awaited and not self._open:
            self._all_ended.set()

    async def all_ended(self) -> None:
        """Wait until nobody waits, after the last one has come; cancelling changes nothing."""
        self._is_awaited = True
        if not self._open:
            self._all_ended.set()
        await self._all_ended.wait()

    def keep_probe(self, probe: Request, refused: Request) -> None:
        """Let a probe have the first rows of whom it stands in for, who is about to end."""
        self._probes[probe] = cut(self._open[refused].inputs, 0, probe.rows)

    def forget_probe(self, probe: Request) -> None:
        """Let go of the inputs of a probe that has ended."""
        del self._probes[probe]

    def inputs_of(self, batch: Batch) -> list[Tensors]:
        """Return the inputs of each piece of a batch, as views."""
        waiting = self._open
        return [
            waiting[piece.request].inputs
            if piece.rows == piece.request.rows and not piece.request.is_probe
            else self._rows_of(piece)
            for piece in batch.pieces
        ]

    def answer(self, batch: Batch, outputs: Tensors, now_ns: Nanoseconds) -> None:
        """Hand the outputs of a batch to those who wait for them."""
        stop = 0
        for piece in batch.pieces:
            start, stop = stop, stop + piece.rows
            request = piece.request
            ticket = self._open.get(request)
            if ticket is None:
                continue  # it has ended, and nobody wants these
            part = cut(outputs, start, stop)
            if piece.rows < request.rows:
                ticket.answered.append((piece.first_row, part))
                if request.state is not ANSWERED:
                    continue
                part = gather([part for _, part in sorted(ticket.answered, key=itemgetter(0))])
            self.settle(request, Answered(part, *time_spent(request, now_ns)))

    def _rows_of(self, piece: Piece) -> Tensors:
        request = piece.request
        inputs = self._probes[request] if request.is_probe else self._open[request].inputs
        if piece.rows == request.rows:
            return inputs
        return cut(inputs, piece.first_row, piece.first_row + piece.rows)
