"""What a dead worker wrote to stderr last: the end of a traceback, or what the system said."""

from typing import IO, Final

_MOST_BYTES: Final = 2000
_MOST_LINES: Final = 3
_OF_RAY: Final = (":job_id:", ":actor_name:")
"""What lines begin with that Ray puts at the head of each worker's stderr."""


def last_words(stderr: IO[bytes]) -> str:
    """Return the last lines of a file, to be put behind a reason; empty if there are none."""
    size = stderr.seek(0, 2)
    stderr.seek(max(0, size - _MOST_BYTES))
    lines = [line.strip() for line in stderr.read().decode(errors="replace").splitlines()]
    words = " | ".join(
        [line for line in lines if line and not line.startswith(_OF_RAY)][-_MOST_LINES:]
    )
    return f"; its last words: {words}" if words else ""
