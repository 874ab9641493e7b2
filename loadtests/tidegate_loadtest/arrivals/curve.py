"""A rate that changes with time, and arrivals drawn from it by a change of time.

The expected number of arrivals up to t, H(t), is the integral of the rate. Positions u of a
renewal process of rate 1 become instants by its inverse, t = H⁻¹(u) (Çinlar 1975, section 4.7;
for Gamma gaps Gerhardt and Nelson 2009). The mean is exact, the burstiness stays, and nothing is
drawn in vain as it is with thinning. Between two points the rate is linear, so that H is
quadratic and its inverse a square root.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from tidegate.errors import SettingError
from tidegate.units import NS_PER_SECOND
from tidegate_loadtest.arrivals.port import Instants, Span
from tidegate_loadtest.arrivals.renewal import POISSON, Renewal

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RateCurve:
    """Requests per second over time, linear between points; two points at one time are a jump."""

    times_s: Floats
    """Shape ``(points,)``, ascending, from the start of the run."""
    rates_rps: Floats
    """Shape ``(points,)``, none negative."""

    @classmethod
    def through(cls, times_s: npt.ArrayLike, rates_rps: npt.ArrayLike, *, where: str) -> Self:
        """Check and build; ``where`` names the source in messages.

        Raises:
            SettingError: Fewer than two points, times that go back, or rates that nobody can send.
        """
        times, rates = np.asarray(times_s, float), np.asarray(rates_rps, float)
        if not np.isfinite(times).all() or not np.isfinite(rates).all():
            raise SettingError(f"{where}: a time or a rate is not a finite number.")
        if not times.size or (np.diff(times) < 0).any() or np.ptp(times) == 0:
            raise SettingError(f"{where}: a curve needs two points or more, with ascending times.")
        if (rates < 0).any() or not rates.any():
            raise SettingError(f"{where}: rates must be 0 or more, and one of them above 0.")
        return cls(times_s=times - times[0], rates_rps=rates)

    @classmethod
    def of_steps(cls, times_s: npt.ArrayLike, rates_rps: npt.ArrayLike, *, where: str) -> Self:
        """Build a curve that keeps each rate until the next time.

        The last step is as long as the one before it; a single one lasts a second.
        """
        times = np.asarray(times_s, float)
        last_s = times[-1] - times[-2] if times[1:].size else 1.0
        ends = np.append(times[1:], times[-1] + last_s)
        edges = np.column_stack((times, ends)).ravel()
        return cls.through(edges, np.repeat(np.asarray(rates_rps, float), 2), where=where)

    @cached_property
    def expected(self) -> Floats:
        """Arrivals that are expected up to each point, of shape ``(points,)``."""
        steps = np.diff(self.times_s) * (self.rates_rps[1:] + self.rates_rps[:-1]) / 2
        return np.concatenate(([0.0], np.cumsum(steps)))

    @property
    def duration_s(self) -> float:
        """How long the curve lasts."""
        return float(self.times_s[-1])

    def lasting(self, duration_s: float) -> Self:
        """Play the same rates in another time."""
        stretch = duration_s / self.duration_s
        return type(self)(times_s=self.times_s * stretch, rates_rps=self.rates_rps)

    def expected_by(self, at_s: float) -> float:
        """Integrate the rate up to an instant."""
        at_s = min(at_s, self.duration_s)
        left = int(np.searchsorted(self.times_s, at_s, side="right")) - 1
        rate = float(np.interp(at_s, self.times_s[left:], self.rates_rps[left:]))
        part_s = at_s - float(self.times_s[left])
        return float(self.expected[left]) + part_s * (float(self.rates_rps[left]) + rate) / 2

    def instants_s(self, positions: Floats) -> Floats:
        """Invert ``expected_by``: when each expected arrival happens, of the same shape."""
        left = np.searchsorted(self.expected, positions, side="right") - 1
        left = np.clip(left, 0, self.times_s.size - 2)
        rate = self.rates_rps[left]
        width = self.times_s[left + 1] - self.times_s[left]
        slope = np.divide(
            self.rates_rps[left + 1] - rate, width, out=np.zeros_like(rate), where=width > 0
        )
        rest = positions - self.expected[left]
        # The root of rate·t + slope·t²/2 = rest, written so that a slope of 0 divides by no zero.
        root = np.sqrt(np.maximum(rate**2 + 2 * slope * rest, 0))
        ahead = np.divide(2 * rest, rate + root, out=np.zeros_like(rest), where=rest > 0)
        return np.asarray(self.times_s[left] + np.minimum(ahead, width))


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveArrivals:
    """Arrivals that follow a curve to its end, once."""

    curve: RateCurve
    gaps: Renewal = POISSON

    def draw(self, span: Span, *, seed: int, scale: float = 1.0) -> Instants:
        """Draw the curve, or its first part."""
        end_s = self.curve.duration_s if span.duration_s is None else span.duration_s
        expected = self.curve.expected_by(end_s) * scale
        if span.requests is None:
            positions = self.gaps.until(expected, seed=seed)
        else:
            positions = self.gaps.first(span.requests, seed=seed)
            positions = positions[: np.searchsorted(positions, expected)]
        return (self.curve.instants_s(positions / scale) * NS_PER_SECOND).astype(np.int64)
