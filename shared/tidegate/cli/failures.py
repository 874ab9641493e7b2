"""The one place where an error becomes a line on stderr and an exit code.

What a user, an operator or a store did wrong is one sentence. Anything else is a bug of ours: it
is said in one line too, with how to see where it happened.
"""

import os
import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import requires
from itertools import pairwise
from typing import Final, Self

import click

from tidegate.cli.exits import ExitCode
from tidegate.cli.output import STDOUT, emit
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
        _tell(failure, as_json=_asked_for_json(arguments))
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exception(error)
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
        case OSError(filename=str() as name, strerror=str() as reason):
            message, code = f"{reason}: {name}", "file_unusable"
        case _:
            hint = f"Please report it; {TRACEBACK_VARIABLE}=1 shows where it happened."
            message = f"a bug in Tidegate: {type(error).__name__}: {error}. {hint}"
            exit_code = ExitCode.BUG
    return Failure(message=message, code=code, exit_code=exit_code)


def _tell(failure: Failure, *, as_json: bool) -> None:
    click.echo(f"error: {failure.message} (code: {failure.code})", err=True)
    if as_json:
        emit({"error": failure.message, "code": failure.code}, json_to=STDOUT, text="")


def _asked_for_json(arguments: Sequence[str]) -> bool:
    """Look at what was typed: the error may be older than the parsing of this option."""
    return any(argument == "--json" or argument.startswith("--json=") for argument in arguments)


def _only(error: Exception) -> Exception:
    """Take an error out of the groups that a TaskGroup wrapped around it."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _hint(error: click.ClickException, arguments: Sequence[str]) -> str:
    """Say what became of an argument that ``--json [FILE]`` took for its file."""
    following = dict(pairwise(arguments)).get("--json", "-")
    if isinstance(error, click.MissingParameter) and not following.startswith("-"):
        return f" ({following!r} was taken for the file of --json: write --json last)"
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f" Try '{context.command_path} --help'." if context else ""


def _extra_with(module: str) -> str | None:
    for requirement in requires("tidegate") or ():
        found = re.match(r"([\w.-]+).*extra == ['\"](\w+)['\"]", requirement)
        if found and re.sub(r"[.-]", "_", found[1]).lower() == module.lower():
            return found[2]
    return None
