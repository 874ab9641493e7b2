"""``[batch]`` in ``tidegate.toml``: how offline jobs are run on this machine."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from tidegate.settings import Section
from tidegate.units import Nanoseconds, ms_to_ns
from tidegate_batch.core.planning import DEFAULT_CHUNK_ROWS
from tidegate_batch.pipeline.notices import checked_address
from tidegate_batch.ports import NoticeSetup


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

    webhook_secret_file: Path | None = None
    """What messages of a job's end are signed with; ``TIDEGATE_WEBHOOK_SECRET`` goes before it."""
    notify_hosts: tuple[str, ...] = ()
    """The only hosts, each with or without a port, that jobs sent to ``tidegate jobs serve`` may
    have told of their end. Without any: anybody, and nobody where keys are asked for, since the
    service reaches what whoever has a key may not, such as loopback."""
    ray_address: str | None = None
    """Of a Ray cluster that runs already, such as ``10.0.0.5:6379``, with this Tidegate installed
    on its nodes; without it Ray is started on this machine for each job."""
    preemption_file: Path | None = None
    """Workers leave when this file appears; it may hold the seconds that are left."""
    preemption_cloud: Literal["aws", "gcp"] | None = None
    """Whose metadata service workers ask whether their machine will be taken away."""
    preemption_address: str = "http://169.254.169.254"
    """Of that service; both clouds have it there."""
    rehearse_faults: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    """Share of the calls to a store that fail on purpose, each way in which stores fail: to see
    before a bad night that a job survives one."""

    @property
    def notice(self) -> NoticeSetup:
        """Where workers hear that their machine will be taken away.

        Raises:
            SettingError: The address is none.
        """
        return NoticeSetup(
            file=str(self.preemption_file.absolute()) if self.preemption_file else None,
            cloud=self.preemption_cloud,
            address=checked_address(self.preemption_address),
        )

    @property
    def no_commit_limit_ns(self) -> Nanoseconds:
        """The only place where this setting changes unit."""
        return ms_to_ns(self.no_commit_limit_ms)
