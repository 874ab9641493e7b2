"""``tidegate batch submit``: what is asked for, typed or out of a file."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import click
from click.core import ParameterSource

from tidegate.cli.exits import ExitCode
from tidegate.cli.output import examples
from tidegate.errors import SettingError
from tidegate_batch.core.bad_rows import DEFAULT_MAX_BAD_ROWS
from tidegate_batch.core.formats import (
    INPUT_FORMATS,
    OUTPUT_FORMATS,
    InputFormat,
    OutputFormat,
)
from tidegate_batch.core.wishes import NORMAL_PRIORITY, Wishes, parse_finish_by
from tidegate_batch.main.options import (
    CREW_OPTIONS,
    Common,
    common_options,
    crew_options,
    open_session,
    tell,
)
from tidegate_batch.main.spec_file import spec_option

if TYPE_CHECKING:
    from tidegate_batch.main.session import Session
    from tidegate_batch.pipeline.submission import Submission

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Request(Common):
    """Options that say what is to be scored, as click passes them."""

    model: str
    inputs: tuple[str, ...]
    input_format: InputFormat | None
    output: str
    output_format: OutputFormat
    key: tuple[str, ...]
    unique_key: bool
    keep: tuple[str, ...] | None
    """``None`` where nobody named any; a file can ask for none of them."""
    column_types: tuple[str, ...]
    max_bad_rows: str


class Submit(Request):
    """Options of ``submit``."""

    client_token: str | None
    finish_by: str | None
    notify: str | None
    queue: bool
    priority: int | None


def _none_unless_said(
    context: click.Context, option: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Tell ``keep = []`` of a file from no word about it: click passes no names for both."""
    is_said = context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
    return value if is_said else None


_REQUEST = (
    click.option("--model", required=True, metavar="NAME[@ALIAS|@VERSION]", help="What scores."),
    click.option(
        "--input",
        "inputs",
        required=True,
        multiple=True,
        metavar="PATH|GLOB|s3://…",
        help="Parquet, JSON Lines, CSV or Arrow files, or a folder of one kind of them; may be "
        "repeated.",
    ),
    click.option(
        "--input-format",
        type=click.Choice(INPUT_FORMATS),
        help="What the inputs are.  [default: what their names end in]",
    ),
    click.option(
        "--output",
        required=True,
        metavar="PATH|s3://…",
        help="An empty folder or prefix, which the job will own. {date} stands for the day of the "
        "submission in UTC, {job} for the job's id, {version} for the model's version.",
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(OUTPUT_FORMATS),
        default="parquet",
        show_default=True,
        help="What the output's files are.",
    ),
    click.option("--key", multiple=True, metavar="COL", help="A column that names a row; copied."),
    click.option(
        "--unique-key",
        is_flag=True,
        help="Read all keys first, and refuse inputs in which two rows have the same.",
    ),
    click.option(
        "--keep",
        multiple=True,
        callback=_none_unless_said,
        metavar="COL",
        help="A column to copy.  [default: all that the model does not read]",
    ),
    click.option(
        "--column-type",
        "column_types",
        multiple=True,
        metavar="COL=TYPE",
        help="What a copied column of a text file is: integer, number, boolean or text.",
    ),
    click.option(
        "--chunk-rows",
        type=click.IntRange(min=1),
        metavar="N",
        help="Most rows that are scored and committed as one.  [default: 20000]",
    ),
    click.option(
        "--max-bad-rows",
        metavar="N|P%",
        default=DEFAULT_MAX_BAD_ROWS,
        show_default=True,
        help="The job fails when more rows than this cannot be scored.",
    ),
)


def request_options(command: _Command, *, ignored: Collection[str] = frozenset()) -> _Command:
    """Give a command the options that say what is to be scored, and ``--spec``."""
    for option in reversed(_REQUEST):
        command = option(command)
    return spec_option(command, ignored=ignored)


def build_submission(session: "Session", options: Request) -> "Submission":
    """Put together what was asked for."""
    from tidegate.ids import ModelRef
    from tidegate_batch.pipeline.submission import Submission

    return Submission(
        model=ModelRef.parse(options["model"]),
        inputs=options["inputs"],
        input_format=options["input_format"],
        output=options["output"],
        output_format=options["output_format"],
        key=options["key"],
        unique_key=options["unique_key"],
        keep=options["keep"],
        column_types=options["column_types"],
        max_bad_rows=options["max_bad_rows"],
        chunk_rows=session.batch.chunk_rows,
        client_token=None,
    )


@click.command(
    epilog=examples(
        "tidegate batch submit --model risk@stable --input in --output out --key id --wait",
        "tidegate batch submit --model risk@7 --input 's3://rows/2024-*.parquet' "
        "--output s3://scores/2024 --client-token nightly-2024",
        "tidegate batch submit --spec nightly.toml --output 's3://scores/date={date}'",
    )
)
@request_options
@click.option(
    "--client-token",
    metavar="TEXT",
    help="Submitting again with the same one finds the same job.",
)
@click.option(
    "--finish-by",
    metavar="TIME",
    help="Warn when it will not be done by then: 2026-12-02T06:00+01:00, with the zone.",
)
@click.option(
    "--notify",
    metavar="URL",
    help="Send the job's status there when it has ended, signed (see docs/batch.md).",
)
@click.option("--queue", is_flag=True, help="Leave it to a 'tidegate jobs serve' of this store.")
@click.option(
    "--priority",
    type=click.IntRange(min=1, max=3),
    help="With --queue: 1 goes first, 3 last.  [default: 2]",
)
@crew_options
@click.option("--wait", is_flag=True, help="Run it here, and return when it is published.")
@common_options
def submit(**options: Unpack[Submit]) -> ExitCode:
    """Score rows and publish the answers.

    Inputs are checked first, and everything that is wrong with them is said at once. Without
    --wait a process of its own scores them, and this command returns the job's id.
    """
    from dataclasses import replace

    from tidegate_batch.main.session import queue_submitted, run_submitted

    _refuse_what_has_no_effect(options)
    session = open_session(options)
    submission = replace(
        build_submission(session, options),
        client_token=options["client_token"],
        wishes=build_wishes(session, options),
    )
    if options["queue"]:
        return tell(queue_submitted(session, submission), options)
    return tell(run_submitted(session, submission, wait=options["wait"]), options)


def _refuse_what_has_no_effect(options: Submit) -> None:
    if options["queue"]:
        source_of = click.get_current_context().get_parameter_source
        is_typed = {name: source_of(name) is ParameterSource.COMMANDLINE for name in CREW_OPTIONS}
        others = {"wait": options["wait"], **is_typed}  # a file may be for both kinds of submission
        if given := [f"--{name}" for name, is_given in others.items() if is_given]:
            raise click.UsageError(
                f"{' and '.join(given)} would have no effect with --queue: the service decides."
            )
    elif options["priority"] is not None:
        raise click.UsageError("--priority is for jobs that wait in a queue: add --queue.")


def build_wishes(session: "Session", options: Submit) -> Wishes:
    """Put together how the job is to be treated.

    Raises:
        SettingError: The time is none or over, or the URL cannot be told, or not with a signature.
    """
    from tidegate_batch.main.notifying import SECRET_VARIABLE, webhook_secret
    from tidegate_batch.pipeline.notifying import check_notify_url

    finish_by, notify = options["finish_by"], options["notify"]
    if finish_by is not None:
        finish_by = parse_finish_by(finish_by, session.parts.wall.utc_now()).isoformat()
    if notify is not None and not webhook_secret(session.batch.webhook_secret_file):
        raise SettingError(
            f"--notify needs a secret to sign with: put one into {SECRET_VARIABLE}, or name a file "
            "as batch.webhook_secret_file."
        )
    return Wishes(
        priority=options["priority"] or NORMAL_PRIORITY,
        finish_by=finish_by,
        notify=None if notify is None else check_notify_url(notify),
    )
