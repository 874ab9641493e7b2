"""Reads curves and traces; the formats are in ``docs/formats.md``, "Traffic".

A trace is recognised by its columns, since every publisher of one names them in his own way:

=================================  ==========================================================
columns                            meaning
=================================  ==========================================================
``at_ns``                          instants in nanoseconds
``time_s`` or ``t_s``              instants in seconds
``timestamp_ms``                   instants in milliseconds
``TIMESTAMP`` or ``timestamp``     instants as ISO 8601, or a Parquet timestamp; UTC
``end_timestamp``, ``duration``    instants as their difference, both in seconds
``period``, ``count``              ISO 8601 and the requests until the next one
``t_s``, ``rate_rps``              seconds and the mean rate until the next one; rows with the
                                   same time, one for each client, are added up
``time_s``, ``rate_rps``           a curve: linear between points
=================================  ==========================================================

Other columns are ignored. Instants count from the first one. Those of a clock coarser than its
column are spread (``recorded.spread_evenly``).
"""

import csv
import gzip
import io
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from tidegate.errors import SettingError
from tidegate.units import NS_PER_MS, NS_PER_SECOND
from tidegate_loadtest.arrivals.curve import CurveArrivals, RateCurve
from tidegate_loadtest.arrivals.port import Arrivals, Instants
from tidegate_loadtest.arrivals.recorded import RecordedArrivals, spread_evenly
from tidegate_loadtest.arrivals.renewal import Renewal

Columns: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""By name, each of shape ``(rows,)``; text from CSV, typed from Parquet."""


class CurveFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A curve in TOML: points, and how bursty the traffic between them is."""

    points: list[tuple[float, float]]
    """``[time_s, rate_rps]``, linear between points."""
    process: Literal["poisson", "gamma"] = "poisson"
    cv: float = 1.0
    """Coefficient of variation of the gaps; only with ``process = "gamma"``."""


def load_curve(file: Path) -> CurveArrivals:
    """Read a curve from CSV (``time_s,rate_rps``; Poisson) or from TOML (``CurveFile``).

    Raises:
        SettingError: The file is not there, or is no curve.
    """
    if file.suffix == ".toml":
        return _from_toml(file)
    arrivals = load_trace(file)
    if not isinstance(arrivals, CurveArrivals):
        raise SettingError(f"{file} has no column rate_rps or count; replay it with trace:{file}.")
    return arrivals


def load_trace(file: Path) -> Arrivals:
    """Read recorded traffic from CSV (also gzipped) or Parquet, whatever its known layout.

    Raises:
        SettingError: The file is not there, or nothing in it says when requests arrived.
    """
    columns = _columns(file)
    for names, build in _LAYOUTS:
        if all(name in columns for name in names):
            try:
                return build(columns, str(file))
            except ValueError as error:
                raise SettingError(f"{file}: {', '.join(names)}: {error}") from error
    known = "; ".join(", ".join(names) for names, _ in _LAYOUTS)
    raise SettingError(
        f"{file} has the columns {', '.join(columns) or '(none)'}; known are: {known}."
    )


def _from_toml(file: Path) -> CurveArrivals:
    try:
        parsed = msgspec.convert(tomllib.loads(_read(file).decode()), CurveFile)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise SettingError(f"{file}: {error}") from error
    if parsed.process == "poisson" and parsed.cv != 1:
        raise SettingError(f'{file}: cv={parsed.cv} needs process = "gamma"; poisson has cv 1.')
    points = np.asarray(parsed.points, float).reshape(-1, 2)
    curve = RateCurve.through(points[:, 0], points[:, 1], where=str(file))
    return CurveArrivals(curve=curve, gaps=Renewal(cv=parsed.cv))


def _columns(file: Path) -> Columns:
    content = _read(file)
    if file.suffix == ".parquet":
        return _of_parquet(content, file)
    lines = (line for line in io.StringIO(_text(content, file)) if not line.startswith("#"))
    rows = [row for row in csv.reader(lines) if row]
    if not rows[1:] or any(len(row) != len(rows[0]) for row in rows):
        raise SettingError(f"{file}: a CSV needs a line of names and rows of as many columns.")
    return {name: np.array(values) for name, *values in zip(*rows, strict=True)}


def _text(content: bytes, file: Path) -> str:
    try:
        return (gzip.decompress(content) if file.suffix == ".gz" else content).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} cannot be read: {error}") from error


def _of_parquet(content: bytes, file: Path) -> Columns:
    import pyarrow as pa  # noqa: PLC0415 - only who reads Parquet needs it
    import pyarrow.parquet as pq  # noqa: PLC0415 - likewise

    try:
        read = pq.read_table(pa.BufferReader(content))
    except pa.ArrowInvalid as error:
        raise SettingError(f"{file} is no Parquet file: {error}") from error
    return {name: read[name].to_numpy() for name in read.column_names}


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error


def _iso_ns(texts: npt.NDArray[Any]) -> Instants:
    if texts.dtype.kind != "M":
        texts = texts.astype(str)
        texts = np.strings.replace(np.strings.replace(texts, "Z", ""), "+00:00", "")
    return texts.astype("datetime64[ns]").astype(np.int64)


def _scaled_ns(values: npt.NDArray[Any], unit_ns: int) -> Instants:
    return np.asarray(np.rint(values.astype(float) * unit_ns), np.int64)


def _recorded(at_ns: Instants, *, resolution_ns: int) -> RecordedArrivals:
    ordered = np.sort(at_ns)
    return RecordedArrivals(at_ns=spread_evenly(ordered - ordered[0], resolution_ns=resolution_ns))


def _nanoseconds(columns: Columns, _: str) -> Arrivals:
    return _recorded(columns["at_ns"].astype(np.int64), resolution_ns=1)


def _milliseconds(columns: Columns, _: str) -> Arrivals:
    return _recorded(_scaled_ns(columns["timestamp_ms"], NS_PER_MS), resolution_ns=NS_PER_MS)


def _ends(columns: Columns, _: str) -> Arrivals:
    ended_s, took_s = columns["end_timestamp"].astype(float), columns["duration"].astype(float)
    return _recorded(_scaled_ns(ended_s - took_s, NS_PER_SECOND), resolution_ns=NS_PER_MS)


def _seconds(name: str) -> Callable[[Columns, str], Arrivals]:
    return lambda columns, _: _recorded(
        _scaled_ns(columns[name], NS_PER_SECOND), resolution_ns=NS_PER_MS
    )


def _dates(name: str) -> Callable[[Columns, str], Arrivals]:
    return lambda columns, _: _recorded(_iso_ns(columns[name]), resolution_ns=NS_PER_MS)


def _counted(columns: Columns, where: str) -> Arrivals:
    times_s = _iso_ns(columns["period"]) / NS_PER_SECOND
    widths_s = np.diff(times_s, append=2 * times_s[-1] - times_s[-2]) if times_s.size > 1 else 1.0
    rates = columns["count"].astype(float) / widths_s
    return CurveArrivals(curve=RateCurve.of_steps(times_s, rates, where=where))


def _steps(columns: Columns, where: str) -> Arrivals:
    times_s, place = np.unique(columns["t_s"].astype(float), return_inverse=True)
    rates = np.bincount(place, weights=columns["rate_rps"].astype(float))
    return CurveArrivals(curve=RateCurve.of_steps(times_s, rates, where=where))


def _points(columns: Columns, where: str) -> Arrivals:
    times_s, rates = columns["time_s"].astype(float), columns["rate_rps"].astype(float)
    return CurveArrivals(curve=RateCurve.through(times_s, rates, where=where))


_LAYOUTS: Final[tuple[tuple[tuple[str, ...], Callable[[Columns, str], Arrivals]], ...]] = (
    (("time_s", "rate_rps"), _points),
    (("t_s", "rate_rps"), _steps),
    (("period", "count"), _counted),
    (("end_timestamp", "duration"), _ends),
    (("at_ns",), _nanoseconds),
    (("timestamp_ms",), _milliseconds),
    (("TIMESTAMP",), _dates("TIMESTAMP")),
    (("timestamp",), _dates("timestamp")),
    (("time_s",), _seconds("time_s")),
    (("t_s",), _seconds("t_s")),
)
"""The first whose columns are all there is meant."""
