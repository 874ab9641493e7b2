"""How a job is to be treated: what is asked for beside the output, and changes nothing about it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

import msgspec

from tidegate.errors import SettingError
from tidegate_batch.core.outlook import Outlook

NORMAL_PRIORITY = 2


class Wishes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Part of ``spec.json``."""

    priority: Annotated[int, msgspec.Meta(ge=1, le=3)] = NORMAL_PRIORITY
    """Among jobs that wait in the queue of a store: 1 highest, 2 normal, 3 bulk."""
    finish_by: str | None = None
    """When it should be done: ISO 8601 with its zone."""
    notify: str | None = None
    """Whom to tell of its end: an ``http(s)`` URL without credentials."""


Timeliness: TypeAlias = Literal["in_time", "at_risk", "late"]


def parse_finish_by(text: str, now: datetime) -> datetime:
    """Read the time by which a job should be done.

    Args:
        text: ISO 8601 with a zone, such as ``2026-12-02T06:00+01:00``.
        now: The present, with a zone.

    Raises:
        SettingError: It is no time, has no zone, or is over.
    """
    try:
        finish_by = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingError(
            f"{text!r} is no time. Write it like 2026-12-02T06:00+01:00, with its zone."
        ) from error
    if finish_by.tzinfo is None:
        raise SettingError(f"{text!r} has no zone. Add one, such as +01:00, or Z for UTC.")
    if finish_by <= now:
        raise SettingError(f"{text!r} is over: it is {now.isoformat(timespec='seconds')} now.")
    return finish_by


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time by which a job should be done."""

    at: datetime

    def warning(self, outlook: Outlook, now: datetime) -> str | None:
        """Say that it will or may be missed; ``None`` if it looks as if it would be kept."""
        match timeliness(outlook, now=now, finish_by=self.at):
            case "late":
                return f"will miss {self.at:%H:%M %Z}"
            case "at_risk":
                return f"may miss {self.at:%H:%M %Z}"
            case "in_time":
                return None


def timeliness(outlook: Outlook, *, now: datetime, finish_by: datetime) -> Timeliness:
    """Hold the range of a job's end against the time by which it should be done.

    ``late``: even the early end of the range is too late. ``at_risk``: the late end is.
    """
    left_s = (finish_by - now).total_seconds()
    early_s = outlook.eta_s if outlook.eta_low_s is None else outlook.eta_low_s
    late_s = outlook.eta_s if outlook.eta_high_s is None else outlook.eta_high_s
    if early_s > left_s:
        return "late"
    return "at_risk" if late_s > left_s else "in_time"
