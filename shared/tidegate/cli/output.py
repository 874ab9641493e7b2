"""What every command uses to answer: text for people, JSON for programs, examples for both."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tidegate.errors import SettingError

STDOUT: Final = "-"

_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_option(command: _Command) -> _Command:
    """Give a command ``--json [FILE]``, as the argument ``json_to`` for ``emit``."""
    option = click.option(
        "--json",
        "json_to",
        is_flag=False,
        flag_value=STDOUT,
        default=None,
        metavar="[FILE]",
        help="Answer in JSON, instead of text or into FILE.",
    )
    return option(command)


def emit(answer: object, *, json_to: str | None, text: str) -> None:
    """Give a command's answer on stdout: as text, unless JSON was asked for there.

    Args:
        answer: Whatever JSON can say: mappings, sequences, structs, dataclasses; other values
            (a path, a time) are written as ``str`` writes them.
        json_to: The value of ``json_option``: ``None`` for text alone, ``-`` for JSON alone, else
            a file that gets the JSON beside the text.
        text: The same answer for a person.

    Raises:
        SettingError: The file cannot be written.
    """
    if json_to is not None:
        write_json(answer, json_to)
    if json_to != STDOUT:
        _print(text + "\n")


def write_json(answer: object, json_to: str) -> None:
    """Write the JSON alone, on stdout or over a file.

    Raises:
        SettingError: The file cannot be written.
        OSError: Stdout cannot.
    """
    import msgspec

    content = msgspec.json.format(msgspec.json.encode(answer, enc_hook=str), indent=2) + b"\n"
    if json_to == STDOUT:
        _print(content)
        return
    try:
        Path(json_to).write_bytes(content)
    except OSError as error:
        raise SettingError(f"--json cannot write {json_to}: {error.strerror}") from error


def _print(content: str | bytes) -> None:
    try:
        click.echo(content, nl=False)
    except OSError as error:  # EPIPE stays EPIPE: a reader who left is click's to deal with
        raise OSError(error.errno, error.strerror, "standard output") from error


def discard_unwritable() -> None:
    """Give up what a stream did not take, or the interpreter would try again and end with 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: closed before the start
        try:
            stream.flush()
        except OSError:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lay out rows as text: drawn on a terminal, else aligned columns for ``awk`` and ``diff``."""
    cells = [[str(cell) for cell in row] for row in rows]
    if sys.stdout and sys.stdout.isatty():  # None: closed before the start
        return _drawn(titles, cells)
    lines = [list(titles), *cells]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _drawn(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*titles, box=box.SIMPLE_HEAD)
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))  # Text: a value is never read as markup
    console = Console()
    with console.capture() as capture:
        console.print(drawn)
    return capture.get().rstrip()


def examples(*lines: str) -> str:
    r"""Build the epilog of a command's help: lines to copy, none of them rewrapped.

    ``@click.command(epilog=examples("tidegate model list"))``; a test demands one of every command.
    """
    return "\n".join(["\b", "Examples:" if lines[1:] else "Example:", *(f"  {x}" for x in lines)])
