"""``tidegate batch estimate``: what a job will take, from a sample that is really scored."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Final, Unpack

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.output import emit, examples
from tidegate_batch.core.bad_rows import parse_limit
from tidegate_batch.core.estimate import Cost, Estimate, Measured, advised_chunk_rows, scoring_s
from tidegate_batch.core.wording import counted, lasting, lasting_from_to, sized
from tidegate_batch.main.options import common_options, open_session
from tidegate_batch.main.submitting import Request, build_submission, request_options

if TYPE_CHECKING:
    from tidegate.prices import PriceRecord, Prices
    from tidegate_batch.pipeline.driving import Crew
    from tidegate_batch.pipeline.sampling import Sample

_INSTANCE: Final = "c7g.2xlarge"
_REGION: Final = "us-east-1"
_CENT: Final = Decimal("0.01")
_EXACT: Final = Decimal("0.0001")
_SECONDS_PER_HOUR: Final = 3600
_OF_SUBMIT: Final = frozenset(
    {"client_token", "engine", "finish_by", "notify", "priority", "queue", "wait"}
)
"""In a file that is meant for ``submit`` as well."""


class _Estimate(Request):
    """Options of ``estimate``."""

    instance: str
    region: str
    limit_s: float


@click.command(
    epilog=examples(
        "tidegate batch estimate --model risk@stable --input in --output out --key id",
        "tidegate batch estimate --spec nightly.toml --instance g6.xlarge --json",
    )
)
@partial(request_options, ignored=_OF_SUBMIT)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that score at once.  [default: one for each core]",
)
@click.option(
    "--instance",
    default=_INSTANCE,
    show_default=True,
    metavar="NAME",
    help="The machine whose price is asked for.",
)
@click.option("--region", default=_REGION, show_default=True, metavar="NAME", help="Where it is.")
@click.option(
    "--limit-s",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to score at most, or two chunks' worth of rows, whichever comes first.",
)
@common_options
def estimate(**options: Unpack[_Estimate]) -> ExitCode:
    """Check the inputs, score a sample, and say how long the job will take and what it will cost.

    The sample is scored on this machine by plain processes, and nothing of it is kept. What was
    measured is said beside what follows from it. Exits 1 if too many rows of it are bad.
    """
    from tidegate.prices import bundled_prices
    from tidegate_batch.main.display import build_display
    from tidegate_batch.main.wiring import build_crew
    from tidegate_batch.pipeline.sampling import measure

    session = open_session(options)
    prices = bundled_prices()
    price = prices.of(options["instance"], region=options["region"])  # before a second is spent
    settings = session.batch.model_copy(update={"engine": "local"})
    crew = build_crew(settings, cache_dir=session.cache_dir)
    display = build_display(session.parts.clock)
    try:
        sample = measure(
            build_submission(session, options),
            crew,
            store_url=session.store_url,
            parts=session.parts,
            display=display,
            limit_s=options["limit_s"],
        )
    finally:
        display.close()
    today = session.parts.wall.utc_now().date()
    answer = _estimate(
        sample, crew, lambda low_s, high_s: _cost(low_s, high_s, price, prices, today=today)
    )
    emit(answer, json_to=options["json_to"], text=_describe(answer))
    return ExitCode.FAILED if answer.too_many_bad_rows else ExitCode.OK


def _estimate(sample: "Sample", crew: "Crew", cost: Callable[[float, float], Cost]) -> Estimate:
    measured, plan, pace = sample.measured, sample.plan, sample.pace
    longest = max(chunk.rows for chunk in plan.chunks)
    scoring = scoring_s(plan.chunks, pace, workers=crew.workers)
    low_s = measured.start_s + scoring * (1 - pace.error)
    high_s = measured.start_s + scoring * (1 + pace.error)
    return Estimate(
        model=str(sample.spec.model),
        rows=plan.rows,
        files=len(plan.inputs),
        chunks=len(plan.chunks),
        chunk_rows=longest,
        rows_per_s=plan.rows / scoring,
        wall_s=measured.start_s + scoring,
        wall_low_s=low_s,
        wall_high_s=high_s,
        peak_rss_bytes=measured.peak_rss_bytes * crew.workers,
        output_bytes=measured.output_bytes * plan.rows // measured.rows,
        too_many_bad_rows=_has_too_many(measured, sample),
        advised_chunk_rows=advised_chunk_rows(longest, pace),
        cost=cost(low_s, high_s),
        measured=measured,
    )


def _has_too_many(measured: Measured, sample: "Sample") -> bool:
    rows, limit = sample.plan.rows, parse_limit(sample.spec.request.max_bad_rows)
    return limit.is_exceeded(measured.bad_rows * rows // measured.rows, seen=rows)


def _cost(
    low_s: float, high_s: float, price: "PriceRecord", prices: "Prices", *, today: date
) -> Cost:
    from tidegate_batch.main.wiring import available_cores

    share = available_cores() / price.vcpus if price.vcpus else 1.0

    def dollars(seconds: float, usd_per_hour: Decimal) -> Decimal:
        return (usd_per_hour * Decimal(seconds * share) / _SECONDS_PER_HOUR).quantize(_EXACT)

    return Cost(
        usd_low=dollars(low_s, price.lowest),
        usd_high=dollars(high_s, price.on_demand),
        instance=price.instance,
        region=price.region,
        share=share,
        usd_per_hour_low=price.lowest,
        usd_per_hour_high=price.on_demand,
        source=prices.source,
        taken_on=prices.taken_on.isoformat(),
        age_days=prices.age_days(today),
    )


def _describe(answer: Estimate) -> str:
    measured = answer.measured
    files, chunks = counted(answer.files, "file"), counted(answer.chunks, "chunk")
    wall = lasting_from_to(answer.wall_low_s, answer.wall_high_s)
    lines = [
        f"{answer.rows} rows in {files}, {chunks}, with {answer.model}",
        f"  speed     {answer.rows_per_s:,.0f} rows/s",
        f"  time      {lasting(answer.wall_s)} ({wall}), publishing comes on top",
        f"  memory    {sized(answer.peak_rss_bytes)} for all workers",
        f"  output    {sized(answer.output_bytes)}",
    ]
    if answer.cost:
        lines += _cost_lines(answer.cost)
    workers, threads = counted(measured.workers, "worker"), counted(measured.threads, "thread")
    lines.append(
        f"Measured: {measured.rows} rows in {counted(measured.chunks, 'chunk')}, "
        f"{measured.seconds:.1f} s in all by {workers} of this machine, each with {threads} and "
        f"at most {sized(measured.peak_rss_bytes)}, after a start of {measured.start_s:.1f} s; "
        "written to this machine's disk."
    )
    if measured.bad:
        lines += _bad_row_lines(answer)
    if answer.advised_chunk_rows < answer.chunk_rows:
        lines.append(
            f"A chunk of {answer.chunk_rows} rows would take more than a minute: submit with "
            f"--chunk-rows {answer.advised_chunk_rows}."
        )
    return "\n".join(lines)


def _bad_row_lines(answer: Estimate) -> list[str]:
    bad = answer.measured.bad
    rows = counted(sum(reason.rows for reason in bad), "row")
    lines = [f"{rows} of the sample could not be scored:"]
    lines += [f"  {reason.code} {reason.rows}, first {reason.first}" for reason in bad]
    if answer.too_many_bad_rows:
        lines.append(
            "With so many bad rows the job would fail: correct the input, or submit it with a "
            "higher --max-bad-rows."
        )
    return lines


def _cost_lines(cost: Cost) -> list[str]:
    low, high = (usd.quantize(_CENT) for usd in (cost.usd_low, cost.usd_high))
    usd = f"{low} to {high} USD" if high >= _CENT else "less than a cent"
    per_hour = f"{cost.usd_per_hour_low} (spot) to {cost.usd_per_hour_high} (on demand) USD/h"
    part = "a" if cost.share == 1 else f"{cost.share:.2g} of a"
    stale = f", {cost.age_days} days ago: look it up again" if _is_stale(cost) else ""
    return [
        f"  cost      {usd} for {part} {cost.instance}, were it as fast as this",
        f"  price     {per_hour} in {cost.region} on {cost.taken_on}{stale}",
    ]


def _is_stale(cost: Cost) -> bool:
    from tidegate.prices import STALE_AFTER_DAYS

    return cost.age_days > STALE_AFTER_DAYS
