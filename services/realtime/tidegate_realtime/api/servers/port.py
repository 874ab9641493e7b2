"""What a server is to whoever starts and stops it."""

from typing import Protocol


class HttpServer(Protocol):
    """One listener in the running loop; it leaves signals alone."""

    async def serve(self) -> None:
        """Listen and answer until ``stop``, then return when what was begun has been answered.

        Cancelling drops what has not been answered.
        """
        ...

    async def started(self) -> None:
        """Wait until a connection is accepted."""
        ...

    def stop(self) -> None:
        """Accept nothing more; call it on the loop."""
        ...
