"""What is typed after ``--arrivals``."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tidegate.errors import SettingError
from tidegate_loadtest.arrivals.curve import CurveArrivals, RateCurve
from tidegate_loadtest.arrivals.files import load_curve, load_trace
from tidegate_loadtest.arrivals.port import Arrivals
from tidegate_loadtest.arrivals.renewal import Renewal
from tidegate_loadtest.arrivals.steady import SteadyArrivals

FORMS: Final = "poisson:RATE, gamma:RATE:CV, curve:FILE[:SCALE] or trace:FILE"


def parse_arrivals(text: str) -> Arrivals:
    """Build the traffic that a person describes in one word.

    Raises:
        SettingError: It is none of ``FORMS``, a number is none, or a file cannot be used.
    """
    kind, _, rest = text.partition(":")
    build = _KINDS.get(kind)
    if build is None or not rest:
        raise SettingError(f"arrivals {text!r} are none of: {FORMS}.")
    return build(rest)


def _poisson(rest: str) -> Arrivals:
    return SteadyArrivals(rate_rps=_number(rest, "RATE"))


def _gamma(rest: str) -> Arrivals:
    rate, _, cv = rest.partition(":")
    return SteadyArrivals(rate_rps=_number(rate, "RATE"), gaps=Renewal(cv=_number(cv, "CV")))


def _curve(rest: str) -> Arrivals:
    name, separator, scale = rest.rpartition(":")
    if not separator:
        return load_curve(Path(rest))
    loaded, times = load_curve(Path(name)), _number(scale, "SCALE")
    curve = RateCurve.through(
        loaded.curve.times_s, loaded.curve.rates_rps * times, where=f"curve:{rest}"
    )
    return CurveArrivals(curve=curve, gaps=loaded.gaps)


def _trace(rest: str) -> Arrivals:
    return load_trace(Path(rest))


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{name} must be a number, found {text!r}; {FORMS}.") from None


_KINDS: Final[dict[str, Callable[[str], Arrivals]]] = {
    "poisson": _poisson,
    "gamma": _gamma,
    "curve": _curve,
    "trace": _trace,
}
