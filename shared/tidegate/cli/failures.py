"""The one place where an error becomes a line on stderr and an exit code.

What a user, an operator or a store did wrong is one sentence. Anything else is a bug of ours: it
is said in one line too, with how to see where it happened.
"""

import os
import re
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import requires
from itertools import pairwise, takewhile
from typing import Final, Self

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.output import STDOUT, discard_unwritable, write_json
from tidegate.errors import SettingError, TidegateError
from tidegate.ids import InvalidIdError

TRACEBACK_VARIABLE: Final = "TIDEGATE_TRACEBACK"


class ExtraMissingError(SettingError):
    """A command needs a package that only an extra installs."""

    code = "extra_missing"

    @classmethod
    def of_import(cls, error: ModuleNotFoundError) -> Self | None:
        """Describe a failed import by the extra that brings the module; ``None`` if none does."""
        module = (error.name or "").partition(".")[0]
        extra = _extra_with(module)
        if extra is None:
            return None
        return cls(f"this needs the package {module}: pip install 'tidegate[{extra}]'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How one error is told."""

    message: str
    code: str
    exit_code: ExitCode


def catching(invoke: Callable[[], object], arguments: Sequence[str]) -> int:
    """Call, and return the exit code; errors are told on stderr, and in JSON where it was asked."""
    try:
        answer = invoke()
    except (KeyboardInterrupt, click.Abort):  # the latter is what click makes of the former
        return ExitCode.INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:  # a group without a command
        click.echo(error.format_message())
        return ExitCode.USAGE
    except Exception as error:  # the outermost place: no user ever sees a stack trace
        failure = describe(_only(error), arguments)
        _tell(failure, json_to=_json_to(arguments, error))
        if os.environ.get(TRACEBACK_VARIABLE):
            with suppress(OSError):
                traceback.print_exception(error)
        discard_unwritable()
        return failure.exit_code
    return answer if isinstance(answer, int) else ExitCode.OK


def describe(error: Exception, arguments: Sequence[str] = ()) -> Failure:
    """Choose message, code and exit code by whose fault it was."""
    if isinstance(error, ModuleNotFoundError):
        error = ExtraMissingError.of_import(error) or error
    message, code, exit_code = str(error), TidegateError.code, ExitCode.FAILED
    match error:
        case click.ClickException():
            message = error.format_message() + _hint(error, arguments)
            code, exit_code = "usage", ExitCode.USAGE
        case TidegateError():
            code = error.code
            exit_code = ExitCode.USAGE if isinstance(error, SettingError) else ExitCode.FAILED
        case InvalidIdError():
            code, exit_code = "invalid_id", ExitCode.USAGE
        case OSError(filename=name):  # without a name: a stream, such as a full stdout
            reason = error.strerror or str(error)
            message, code = f"{reason}: {name}" if name else reason, "file_unusable"
        case _:
            hint = f"Please report it; {TRACEBACK_VARIABLE}=1 shows where it happened."
            message = f"a bug in Tidegate: {type(error).__name__}: {error}. {hint}"
            exit_code = ExitCode.BUG
    return Failure(message=message, code=code, exit_code=exit_code)


def _tell(failure: Failure, *, json_to: str | None) -> None:
    """Say it wherever it was asked for; a place that takes nothing must not hide the exit code."""
    message = failure.message.encode(errors="backslashreplace").decode()  # a file's odd name
    with suppress(OSError):
        click.echo(f"error: {message} (code: {failure.code})", err=True)
    if json_to is not None:
        with suppress(OSError, SettingError):
            write_json({"error": message, "code": failure.code}, json_to)


def _json_to(arguments: Sequence[str], error: Exception) -> str | None:
    """Look at what was typed, as click reads it: the error may be older than its parsing."""
    json_to = None
    for argument, following in pairwise([*takewhile(lambda x: x != "--", arguments), "--"]):
        if argument.startswith("--json="):
            json_to = argument.removeprefix("--json=")
        elif argument == "--json":
            json_to = STDOUT if following.startswith("-") or _was_eaten(error) else following
    return json_to


def _was_eaten(error: Exception) -> bool:
    """Tell whether ``--json [FILE]`` may have taken an argument of the command for its file.

    Such a file must survive: it may be the model that was to be published.
    """
    return isinstance(error, click.MissingParameter)


def _only(error: Exception) -> Exception:
    """Take an error out of the groups that a TaskGroup wrapped around it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _hint(error: click.ClickException, arguments: Sequence[str]) -> str:
    """Say what became of an argument that ``--json [FILE]`` took for its file."""
    following = dict(pairwise(arguments)).get("--json", "-")
    if _was_eaten(error) and not following.startswith("-"):
        return f" ({following!r} was taken for the file of --json: write --json last)"
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f" Try '{context.command_path} --help'." if context else ""


def _extra_with(module: str) -> str | None:
    for requirement in requires("tidegate") or ():
        found = re.match(r"([\w.-]+).*extra == ['\"](\w+)['\"]", requirement)
        if found and re.sub(r"[.-]", "_", found[1]).lower() == module.lower():
            return found[2]
    return None
