"""``tidegate batch dead-letters`` and ``retry-dlq``: the rows of a job that have no answer."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.output import emit, examples, table
from tidegate_batch.core.wording import counted
from tidegate_batch.main.options import Common, common_options, crew_options, open_session, tell

if TYPE_CHECKING:
    from tidegate_batch.main.session import Session
    from tidegate_batch.pipeline.reading_dead_letters import Summary
    from tidegate_batch.pipeline.submission import Submission

_SHOWN_ROWS: Final = 10
_SHOWN_CHARS: Final = 100
"""Of a message in a table; the file of ``--out`` has all of it."""
_ALL: Final = "100%"
"""Of the rows that are tried again may fail again: every one of them has failed before."""


class _Show(Common):
    """Options of ``dead-letters``."""

    rows: int
    out: Path | None


class _Retry(Common):
    """Options of ``retry-dlq``."""

    output: str
    model: str | None
    max_bad_rows: str
    client_token: str | None


@click.command(
    "dead-letters",
    epilog=examples(
        "tidegate batch dead-letters 0123456789abcdef",
        "tidegate batch dead-letters 0123456789abcdef --out bad-rows.parquet",
    ),
)
@click.argument("job")
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    default=_SHOWN_ROWS,
    show_default=True,
    metavar="N",
    help="Show the first so many.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.parquet|FILE.jsonl",
    help="Write all of them there: each row as it was, with why it has no answer.",
)
@common_options
def dead_letters(job: str, **options: Unpack[_Show]) -> None:
    """Show which rows of JOB have no answer, and why, as far as it has come."""
    from tidegate_batch.pipeline.exporting_dead_letters import write_dead_letters
    from tidegate_batch.pipeline.reading_dead_letters import committed_dead_letters, summarize

    record = open_session(options).record(job)
    record.spec()  # there is such a job
    plan, out = record.plan(), options["out"]
    files = [file for _, file in committed_dead_letters(record, plan)] if plan else []
    summary = summarize(record.store, files, most=options["rows"])
    if out is not None:
        write_dead_letters(record.store, files, out)
    facts: dict[str, object] = {"job": job, "rows": summary.rows, "reasons": summary.reasons}
    emit(
        {**facts, "first": summary.first, **({"out": str(out)} if out else {})},
        json_to=options["json_to"],
        text=_described(job, summary, out),
    )


def _described(job: str, summary: "Summary", out: Path | None) -> str:
    if not summary.rows:
        return f"job {job} has no dead letters"
    parts = [
        f"job {job} has {counted(summary.rows, 'dead letter')}",
        table(
            ["reason", "rows", "the first", "why"],
            [
                [each.code, each.rows, each.first.place, _short(each.first.message)]
                for each in summary.reasons
            ],
        ),
    ]
    if summary.first:
        rows = [
            [one.source, one.row, "" if one.line is None else one.line, one.code]
            for one in summary.first
        ]
        parts.append(table(["source", "row", "line", "reason"], rows))
    if summary.rows > len(summary.first):
        parts.append(f"… and {summary.rows - len(summary.first)} more")
    if out:
        parts.append(f"all of them are in {out}")
    return "\n\n".join(parts)


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"


@click.command(
    "retry-dlq",
    epilog=examples(
        "tidegate batch retry-dlq 0123456789abcdef --output out-again --wait",
        "tidegate batch retry-dlq 0123456789abcdef --model risk@8 --output s3://scores/again",
    ),
)
@click.argument("job")
@click.option(
    "--output",
    required=True,
    metavar="PATH|s3://…",
    help="An empty folder or prefix; the new job will own it.",
)
@click.option(
    "--model",
    metavar="NAME[@ALIAS|@VERSION]",
    help="What scores.  [default: as JOB asked for it, an alias looked up anew]",
)
@click.option(
    "--max-bad-rows",
    metavar="N|P%",
    default=_ALL,
    show_default=True,
    help="The new job fails when more rows than this fail again.",
)
@click.option(
    "--client-token",
    metavar="TEXT",
    help="Submitting again with the same one finds the same job.",
)
@crew_options
@click.option("--wait", is_flag=True, help="Run it here, and return when it is published.")
@common_options
def retry_dlq(job: str, **options: Unpack[_Retry]) -> ExitCode:
    """Submit a new job over the rows of JOB that have no answer.

    Its output has their columns as they were, and where each stood in the first place:
    _retried_source and _retried_row_index. Rows that could not be read are left out.
    """
    from tidegate_batch.main.session import run_submitted

    session = open_session(options)
    submission, told = _retry(session, job, options)
    click.echo(told, err=True)
    return tell(run_submitted(session, submission, wait=options["wait"]), options)


def _retry(session: "Session", job: str, options: _Retry) -> tuple["Submission", str]:
    """Return what the new job asks for, and what of the old one it covers."""
    from tidegate.ids import ModelRef
    from tidegate_batch.pipeline.exporting_dead_letters import RETRIED, make_retry_input
    from tidegate_batch.pipeline.submission import Submission

    record = session.record(job)
    before = record.spec().request
    again = make_retry_input(record)
    submission = Submission(
        model=ModelRef.parse(options["model"] or before.model),
        inputs=[again.url],
        output=options["output"],
        output_format=before.output_format,
        key=before.key,
        keep=None if before.keep is None else [*before.keep, *RETRIED],
        chunk_rows=session.batch.chunk_rows,
        max_bad_rows=options["max_bad_rows"],
        client_token=options["client_token"],
    )
    told = f"{counted(again.rows, 'row')} of job {job} will be tried again"
    left_out = f"; {again.unread} could not be read and are left out" if again.unread else ""
    return submission, told + left_out
