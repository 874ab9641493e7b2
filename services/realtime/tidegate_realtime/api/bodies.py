"""How much of all bodies together this process holds."""

from typing import Final

from tidegate_realtime.api.errors import BodiesHeldError

HELD_LIMIT_BYTES: Final = 512 << 20


class HeldBodies:
    """Counts the bytes of bodies from their arrival until their requests end.

    A body lives until the batch that reads it has run: 64 MiB each, many callers could fill the
    memory long before the queue has a row too many.
    """

    def __init__(self, limit_bytes: int = HELD_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self.held_bytes = 0

    def take(self, number_of_bytes: int) -> None:
        """Count what is about to come, or has just come.

        Raises:
            BodiesHeldError: It would be more than may be held; it is not counted.
        """
        if self.held_bytes + number_of_bytes > self._limit_bytes:
            raise BodiesHeldError(
                f"The bodies of all requests in progress would have more than {self._limit_bytes} "
                "bytes together; nothing of this one was kept."
            )
        self.held_bytes += number_of_bytes

    def give_back(self, number_of_bytes: int) -> None:
        """Count no longer what was taken."""
        self.held_bytes -= number_of_bytes
