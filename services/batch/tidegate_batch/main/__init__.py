"""``tidegate batch``: submit a job, look at it, resume it, verify what it wrote; and the rest."""

from typing import Unpack

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
from tidegate_batch.main.overseeing import cancel, gc, list_command, watch


class _Submit(Common):
    """Options of ``submit``."""

    model: str
    inputs: tuple[str, ...]
    output: str
    key: tuple[str, ...]
    keep: tuple[str, ...]
    client_token: str | None


@click.group(
    epilog=examples(
        "tidegate batch submit --model risk@stable --input 'in/*.parquet' --output out --wait",
        "tidegate batch status 0123456789abcdef --wait",
        "tidegate batch resume 0123456789abcdef --wait",
    )
)
def batch() -> None:
    """Score files with one model version: each row once, whatever is killed meanwhile."""


@batch.command(
    epilog=examples(
        "tidegate batch submit --model risk@stable --input in --output out --key id --wait",
        "tidegate batch submit --model risk@7 --input 's3://rows/2024-*.parquet' "
        "--output s3://scores/2024 --client-token nightly-2024",
    )
)
@click.option("--model", required=True, metavar="NAME[@ALIAS|@VERSION]", help="What scores.")
@click.option(
    "--input",
    "inputs",
    required=True,
    multiple=True,
    metavar="PATH|GLOB|s3://…",
    help="Parquet files, or a folder of them; may be repeated.",
)
@click.option(
    "--output",
    required=True,
    metavar="PATH|s3://…",
    help="An empty folder or prefix; the job will own it.",
)
@click.option("--key", multiple=True, metavar="COL", help="A column that names a row; copied.")
@click.option(
    "--keep",
    multiple=True,
    metavar="COL",
    help="A column to copy.  [default: all that the model does not read]",
)
@click.option(
    "--chunk-rows",
    type=click.IntRange(min=1),
    metavar="N",
    help="Most rows that are scored and committed as one.  [default: 20000]",
)
@click.option(
    "--client-token",
    metavar="TEXT",
    help="Submitting again with the same one finds the same job.",
)
@crew_options
@click.option("--wait", is_flag=True, help="Run it here, and return when it is published.")
@common_options
def submit(**options: Unpack[_Submit]) -> ExitCode:
    """Score rows and publish the answers as Parquet.

    Inputs are checked first, and everything that is wrong with them is said at once. Without
    --wait a process of its own scores them, and this command returns the job's id.
    """
    from tidegate.ids import ModelRef
    from tidegate_batch.main.session import run_submitted
    from tidegate_batch.pipeline.submission import Submission

    session = open_session(options)
    submission = Submission(
        model=ModelRef.parse(options["model"]),
        inputs=options["inputs"],
        output=options["output"],
        key=options["key"],
        keep=options["keep"] or None,
        chunk_rows=session.batch.chunk_rows,
        client_token=options["client_token"],
    )
    return tell(run_submitted(session, submission, wait=options["wait"]), options)


@batch.command(epilog=examples("tidegate batch status 0123456789abcdef"))
@click.argument("job")
@click.option("--wait", is_flag=True, help="Watch it until it ends.")
@common_options
def status(job: str, **options: Unpack[Common]) -> ExitCode:
    """Show how far JOB is; exits 1 if it failed, or if nobody drives it any more."""
    session = open_session(options)
    record = session.record(job)
    return tell(session.watch(record) if options["wait"] else session.look(record), options)


@batch.command(epilog=examples("tidegate batch resume 0123456789abcdef --wait"))
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


@batch.command(epilog=examples("tidegate batch verify 0123456789abcdef"))
@click.argument("job")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
@common_options
def verify(job: str, **options: Unpack[Common]) -> ExitCode:
    """Read all that JOB published again; exits 1 unless every row stands there exactly once."""
    from tidegate_batch.core.wording import counted
    from tidegate_batch.pipeline.verifying import verify as verify_output

    session = open_session(options)
    record = session.record(job)
    if options["wait"]:
        session.watch(record)
    verdict = verify_output(record, parts=session.parts)
    rows, parts = counted(verdict.rows, "row"), counted(verdict.parts, "part")
    sound = f"job {job} is sound: {rows} in {parts}, each row once"
    emit(
        {
            "job": job,
            "sound": verdict.is_sound,
            "rows": verdict.rows,
            "parts": verdict.parts,
            "problems": verdict.problems,
        },
        json_to=options["json_to"],
        text="\n".join(verdict.problems) or sound,
    )
    return ExitCode.OK if verdict.is_sound else ExitCode.FAILED


for command in (list_command, watch, cancel, gc):
    batch.add_command(command)
