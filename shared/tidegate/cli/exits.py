"""Exit codes: what a script may rely on; listed in ``docs/cli.md``."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command ended with."""

    OK = 0
    FAILED = 1
    """It could not be done, or the answer to the question is no."""
    USAGE = 2
    """Something that was typed or configured cannot be meant; nothing was started."""
    DEAD_LETTERS = 3
    """Done, but for rows that lie in the dead letters."""
    BUG = 70
    """Tidegate itself is wrong (sysexits' EX_SOFTWARE)."""
    INTERRUPTED = 130
    """Ctrl-C (128 + SIGINT); or a job's driver was told to stop in another way."""
