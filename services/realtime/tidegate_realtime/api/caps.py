"""The cap of a model version and where it comes from, as metadata, metrics and explanations say."""

from typing import Literal, NamedTuple, TypeAlias

from tidegate_realtime.core.cap import Cap, CapReason, Infeasible
from tidegate_realtime.core.pace import Pace
from tidegate_realtime.runtime.buckets import BucketedDriver, Driver

CapLimit: TypeAlias = CapReason | Literal["too_slow", "set"]
"""Beyond the bounds of ``core.cap``: not even one row is answered in time; nothing is derived, for
nothing was promised."""


class CapNumbers(NamedTuple):
    """Rows of a model call; each bound as if it were the only one."""

    effective: int
    """The most, even for rows in a hurry."""
    calm: int
    """What leaves room for a request that just missed a call: batches are full with it."""
    slo: int
    """The same as the objective alone allows it; 0: not even one row leaves so much room."""
    knee: int
    memory: int
    need: int
    """What the present load asks for."""
    limited_by: CapLimit

    def rows(self) -> dict[str, int]:
        """Return each number by its name."""
        return {
            "effective": self.effective,
            "slo": self.slo,
            "knee": self.knee,
            "memory": self.memory,
            "need": self.need,
        }


def cap_numbers(pace: Pace) -> CapNumbers:
    """Read them as they are now."""
    cap, rows = pace.cap, pace.cap_rows
    match cap:
        case Cap():
            return CapNumbers(
                effective=rows,
                calm=pace.calm_rows,
                slo=cap.slo_rows,
                knee=cap.knee_rows,
                memory=cap.memory_rows,
                need=pace.need_rows,
                limited_by=cap.limited_by,
            )
        case Infeasible():
            return CapNumbers(rows, rows, 0, rows, rows, pace.need_rows, "too_slow")
        case None:
            return CapNumbers(rows, rows, rows, rows, rows, pace.need_rows, "set")


def caps_by_tokens(driver: Driver) -> dict[str, str]:
    """Say the cap of each length of texts, and which one is shown; nothing without lengths."""
    if not isinstance(driver, BucketedDriver):
        return {}
    caps = [
        (each, cap_numbers(part.pace))
        for each, part in zip(driver.ranges, driver.parts, strict=True)
    ]
    return {
        "cap_tokens": driver.ranges[driver.parts.index(driver.busiest)],
        "cap_rows_by_tokens": ", ".join(
            f"{each}: {'too slow' if cap.limited_by == 'too_slow' else cap.effective}"
            for each, cap in caps
        ),
    }
