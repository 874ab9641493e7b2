"""What every command of ``tidegate batch`` shares: its options, its settings, its answer."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict, TypeVar

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.options import config_option, store_option
from tidegate.cli.output import emit, json_option

if TYPE_CHECKING:
    from tidegate_batch.main.session import Answer, Session

_Command = TypeVar("_Command", bound=Callable[..., Any])

CREW_OPTIONS: Final = ("engine", "workers")
"""Those of ``crew_options``; a service has its own, so that a spec's are passed over there."""


class Common(TypedDict):
    """Options of every command here, as click passes them."""

    store: str | None
    config: Path | None
    json_to: str | None
    wait: NotRequired[bool]
    engine: NotRequired[str | None]
    workers: NotRequired[int | None]
    chunk_rows: NotRequired[int | None]


def crew_options(command: _Command) -> _Command:
    """Give a command the options that say who scores."""
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


def common_options(command: _Command) -> _Command:
    """Give a command ``--store``, ``--config`` and ``--json``."""
    return store_option(config_option(json_option(command)))


def open_session(options: Common) -> "Session":
    """Read the settings; what was typed as an option of the same name wins."""
    from tidegate_batch.main.session import Session

    flags: dict[str, object] = {"store": options["store"]}
    for name in ("engine", "workers", "chunk_rows"):
        flags[f"batch.{name}"] = options.get(name)
    return Session(flags, config=options["config"])


def tell(answer: "Answer", options: Common) -> ExitCode:
    """Say what became of a job, and exit by it."""
    from tidegate_batch.main.telling import describe

    emit(answer.as_json(), json_to=options["json_to"], text=describe(answer))
    has_failed = answer.status.failure is not None and not answer.is_queued
    if has_failed or answer.is_left_alone:
        return ExitCode.FAILED
    return ExitCode.DEAD_LETTERS if answer.status.rows_dlq else ExitCode.OK
