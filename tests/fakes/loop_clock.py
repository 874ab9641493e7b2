"""The running loop's time as a ``Clock``: exact and virtual under looptime."""

import asyncio

from tidegate.units import Nanoseconds, seconds_to_ns


class LoopClock:
    """Reads ``loop.time()``."""

    def now_ns(self) -> Nanoseconds:
        return seconds_to_ns(asyncio.get_running_loop().time())
