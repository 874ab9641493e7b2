"""The cores of this machine that the gateway may use."""

import os

from tidegate.errors import SettingError


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_threads(threads: int, *, cores: int) -> None:
    """Refuse more threads for a model call than there are cores: they would only wait.

    Raises:
        SettingError: There are more.
    """
    if threads > cores:
        raise SettingError(
            f"serve.threads = {threads}, and this process may use {cores} cores: more threads than "
            f"cores only slow each other down. Set it to at most {cores}, or allow more cores."
        )
