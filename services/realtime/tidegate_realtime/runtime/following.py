"""Follows the store's aliases: looks at them again and again, each replica at its own moments."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from tidegate.ids import ModelName
from tidegate.units import Nanoseconds, ns_to_seconds

_JITTER: Final = 0.2
"""Of the pause, up and down, so that replicas that started together do not ask together."""


class FollowsAliases(Protocol):
    """What is needed of ``ModelHost``."""

    @property
    def followed(self) -> Sequence[ModelName]:
        """The models to look at."""
        ...

    async def read_aliases(self, name: ModelName) -> None:
        """Look once; never raises because the store is away."""
        ...


async def follow_aliases(
    host: FollowsAliases, *, every_ns: Nanoseconds, draw: Callable[[], float]
) -> None:
    """Follow for ever, one model after the other; cancel it to end it.

    Args:
        host: Told to look.
        every_ns: The pause between two looks.
        draw: Uniform in 0…1.
    """
    while True:
        await asyncio.sleep(ns_to_seconds(every_ns) * (1 - _JITTER + 2 * _JITTER * draw()))
        for name in host.followed:
            await host.read_aliases(name)
