"""``tidegate batch status``, ``resume`` and ``verify``: one job, after it was submitted."""

from typing import TYPE_CHECKING, Unpack

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.output import emit, examples
from tidegate_batch.main.options import (
    Common,
    common_options,
    crew_options,
    open_session,
    tell,
)

if TYPE_CHECKING:
    from tidegate_batch.pipeline.verifying import Verdict


@click.command(epilog=examples("tidegate batch status 0123456789abcdef"))
@click.argument("job")
@click.option("--wait", is_flag=True, help="Watch it until it ends.")
@common_options
def status(job: str, **options: Unpack[Common]) -> ExitCode:
    """Show how far JOB is; exits 1 if it failed, or if nobody drives it any more."""
    session = open_session(options)
    record = session.record(job)
    return tell(session.watch(record) if options["wait"] else session.look(record), options)


@click.command(epilog=examples("tidegate batch resume 0123456789abcdef --wait"))
@click.argument("job")
@crew_options
@click.option("--wait", is_flag=True, help="Run it here, and return when it is published.")
@common_options
def resume(job: str, **options: Unpack[Common]) -> ExitCode:
    """Go on with JOB where it stopped; chunks that are committed are not scored again."""
    from tidegate_batch.main.session import run_or_explain

    session = open_session(options)
    record = session.record(job)
    answer = run_or_explain(session, record) if options["wait"] else session.run_alone(record)
    return tell(answer, options)


@click.command(epilog=examples("tidegate batch verify 0123456789abcdef"))
@click.argument("job")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
@common_options
def verify(job: str, **options: Unpack[Common]) -> ExitCode:
    """Read all that JOB published again; exits 1 unless every row stands there exactly once."""
    from tidegate_batch.pipeline.verifying import verify as verify_output

    session = open_session(options)
    record = session.record(job)
    if options["wait"]:
        session.watch(record)
    verdict = verify_output(record, parts=session.parts)
    emit(
        {
            "job": job,
            "sound": verdict.is_sound,
            "rows": verdict.rows,
            "rows_dlq": verdict.rows_dlq,
            "parts": verdict.parts,
            "problems": verdict.problems,
        },
        json_to=options["json_to"],
        text=_describe(verdict),
    )
    return ExitCode.OK if verdict.is_sound else ExitCode.FAILED


def _describe(verdict: "Verdict") -> str:
    from tidegate_batch.core.wording import counted

    if verdict.is_sound:
        rows, parts = counted(verdict.rows, "row"), counted(verdict.parts, "part")
        dead = f" and {counted(verdict.rows_dlq, 'dead letter')}" if verdict.rows_dlq else ""
        return f"job {verdict.job} is sound: {rows} in {parts}{dead}, each row once"
    lines = [f"job {verdict.job} is not sound: {counted(len(verdict.problems), 'problem')}"]
    lines += [f"  {problem}" for problem in verdict.problems]
    lines.append("Restore the output from a backup, or submit the job again, to another --output.")
    return "\n".join(lines)
