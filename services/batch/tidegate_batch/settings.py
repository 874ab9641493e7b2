"""``[batch]`` in ``tidegate.toml``: how offline jobs are run on this machine."""

from typing import Annotated, Literal

from pydantic import Field

from tidegate.settings import Section
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_batch.core.planning import DEFAULT_CHUNK_ROWS


class BatchSettings(Section):
    """Who scores, and in what portions; nothing here changes an answer."""

    engine: Literal["ray", "local"] = "ray"
    """What runs the workers: Ray actors, or plain processes of this machine."""
    workers: Annotated[int, Field(ge=1)] | None = None
    """How many processes score at once; without it, one for each core."""
    chunk_rows: Annotated[int, Field(ge=1)] = DEFAULT_CHUNK_ROWS
    """Most rows of one chunk, the unit that is scored, committed and repeated as a whole."""
    no_commit_limit_ms: Annotated[float, Field(gt=0)] = 600_000
    """A job in which no chunk was committed for this long ends with an error. Ten minutes: ten
    times what a chunk should take at most."""

    @property
    def no_commit_limit_ns(self) -> Nanoseconds:
        """The only place where this setting changes unit."""
        return ms_to_ns(self.no_commit_limit_ms)
