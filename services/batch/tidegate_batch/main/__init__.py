"""``tidegate batch``: submit a job, look at it, resume it, verify what it wrote."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, TypeVar, Unpack

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.options import config_option, store_option
from tidegate.cli.output import emit, examples, json_option

if TYPE_CHECKING:
    from tidegate_batch.main.session import Answer, Session

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Common(TypedDict):
    """Options of every command here, as click passes them."""

    store: str | None
    config: Path | None
    json_to: str | None
    wait: NotRequired[bool]
    engine: NotRequired[str | None]
    workers: NotRequired[int | None]
    chunk_rows: NotRequired[int | None]


class _Submit(_Common):
    """Options of ``submit``."""

    model: str
    inputs: tuple[str, ...]
    output: str
    key: tuple[str, ...]
    keep: tuple[str, ...]
    client_token: str | None


def _crew_options(command: _Command) -> _Command:
    command = click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes that score at once.  [default: one for each core]",
    )(command)
    return click.option(
        "--engine",
        type=click.Choice(["ray", "local"]),
        help="What runs them: Ray actors, or plain processes.  [default: ray]",
    )(command)


def _common_options(command: _Command) -> _Command:
    return store_option(config_option(json_option(command)))


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
@_crew_options
@click.option("--wait", is_flag=True, help="Run it here, and return when it is published.")
@_common_options
def submit(**options: Unpack[_Submit]) -> ExitCode:
    """Score rows and publish the answers as Parquet.

    Inputs are checked first, and everything that is wrong with them is said at once. Without
    --wait a process of its own scores them, and this command returns the job's id.
    """
    from tidegate.ids import ModelRef
    from tidegate_batch.main.session import run_submitted
    from tidegate_batch.pipeline.submission import Submission

    session = _session(options)
    submission = Submission(
        model=ModelRef.parse(options["model"]),
        inputs=options["inputs"],
        output=options["output"],
        key=options["key"],
        keep=options["keep"] or None,
        chunk_rows=session.batch.chunk_rows,
        client_token=options["client_token"],
    )
    return _tell(run_submitted(session, submission, wait=options["wait"]), options)


@batch.command(epilog=examples("tidegate batch status 0123456789abcdef"))
@click.argument("job")
@click.option("--wait", is_flag=True, help="Watch it until it ends.")
@_common_options
def status(job: str, **options: Unpack[_Common]) -> ExitCode:
    """Show how far JOB is; exits 1 if it failed, or if nobody drives it any more."""
    session = _session(options)
    record = session.record(job)
    return _tell(session.watch(record) if options["wait"] else session.look(record), options)


@batch.command(epilog=examples("tidegate batch resume 0123456789abcdef --wait"))
@click.argument("job")
@_crew_options
@click.option("--wait", is_flag=True, help="Run it here, and return when it is published.")
@_common_options
def resume(job: str, **options: Unpack[_Common]) -> ExitCode:
    """Go on with JOB where it stopped; chunks that are committed are not scored again."""
    from tidegate_batch.main.session import run_or_explain

    session = _session(options)
    record = session.record(job)
    answer = run_or_explain(session, record) if options["wait"] else session.run_alone(record)
    return _tell(answer, options)


@batch.command(epilog=examples("tidegate batch verify 0123456789abcdef"))
@click.argument("job")
@click.option("--wait", is_flag=True, help="Wait until the job has ended.")
@_common_options
def verify(job: str, **options: Unpack[_Common]) -> ExitCode:
    """Read all that JOB published again; exits 1 unless every row stands there exactly once."""
    from tidegate_batch.core.wording import counted
    from tidegate_batch.pipeline.verifying import verify as verify_output

    session = _session(options)
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


def _session(options: _Common) -> "Session":
    """Read the settings; what was typed as an option of the same name wins."""
    from tidegate_batch.main.session import Session

    flags: dict[str, object] = {"store": options["store"]}
    for name in ("engine", "workers", "chunk_rows"):
        flags[f"batch.{name}"] = options.get(name)
    return Session(flags, config=options["config"])


def _tell(answer: "Answer", options: _Common) -> ExitCode:
    from tidegate_batch.main.telling import describe

    emit(answer.as_json(), json_to=options["json_to"], text=describe(answer))
    is_well = answer.status.failure is None and not answer.is_left_alone
    return ExitCode.OK if is_well else ExitCode.FAILED
