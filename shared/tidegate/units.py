"""Units that a number carries: inside, time is integer nanoseconds; outside, milliseconds."""

from typing import Final, NewType

Nanoseconds = NewType("Nanoseconds", int)
"""A duration or a monotonic instant. Only differences of instants mean anything."""

NS_PER_MS: Final = 1_000_000
NS_PER_SECOND: Final = 1_000_000_000


def ms_to_ns(milliseconds: float) -> Nanoseconds:
    """Convert a setting or a header to inside time, rounded to the nearest nanosecond.

    ``ns_to_ms(ms_to_ns(x)) == x`` for every ``x`` with at most six decimals below 2**53 ns.
    """
    return Nanoseconds(round(milliseconds * NS_PER_MS))


def ns_to_ms(nanoseconds: int) -> float:
    """Convert inside time to what people read."""
    return nanoseconds / NS_PER_MS


def ns_to_seconds(nanoseconds: int) -> float:
    """Convert inside time to the base unit of metrics and of asyncio."""
    return nanoseconds / NS_PER_SECOND


def seconds_to_ns(seconds: float) -> Nanoseconds:
    """Convert asyncio's float seconds to inside time, rounded to the nearest nanosecond."""
    return Nanoseconds(round(seconds * NS_PER_SECOND))
