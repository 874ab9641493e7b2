"""``--spec job.toml``: a command's options out of a file; what is typed beside it wins."""

import tomllib
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tidegate.errors import SettingError

_Command = TypeVar("_Command", bound=Callable[..., Any])
_NOT_IN_A_FILE: Final = frozenset({"spec", "json", "config"})


def spec_option(command: _Command, *, ignored: Collection[str] = frozenset()) -> _Command:
    """Give a command ``--spec FILE``; the file becomes the defaults of its other options.

    Args:
        command: Whose options they are.
        ignored: Keys of another command, for which the same file is meant.
    """

    def use(context: click.Context, _: click.Parameter, file: Path | None) -> None:
        if file is not None:
            context.default_map = read_spec(file, context.command, ignored=ignored)

    return click.option(
        "--spec",
        type=click.Path(path_type=Path, dir_okay=False),
        is_eager=True,  # before the options that it fills in
        expose_value=False,
        callback=use,
        metavar="FILE",
        help="These options out of a TOML file, such as chunk_rows = 5000; what is typed wins.",
    )(command)


def read_spec(
    file: Path, command: click.Command, *, ignored: Collection[str] = frozenset()
) -> dict[str, object]:
    """Read the options of a command from a file.

    Args:
        file: TOML; a key is an option's long name with ``_`` for ``-``. Paths in it mean what
            they would if they were typed.
        command: Whose options these are.
        ignored: Keys that are passed over.

    Returns:
        By the names of the command's parameters.

    Raises:
        SettingError: It cannot be read, or a key or value cannot be meant; all of them are told.
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{file} is no TOML: {error}") from error
    meant = {key: value for key, value in content.items() if key not in ignored}
    return check_spec(meant, command, where=str(file), without=_NOT_IN_A_FILE)


def check_spec(
    content: Mapping[str, object], command: click.Command, *, where: str, without: Collection[str]
) -> dict[str, object]:
    """Hold keys and values against the options of a command.

    Args:
        content: By the long names of options, with ``_`` for ``-``.
        command: Whose options these are.
        where: What to call it in an error.
        without: Options that cannot be given here.

    Returns:
        By the names of the command's parameters.

    Raises:
        SettingError: A key or value cannot be meant; all of them are told.
    """
    options = {name: it for name, it in _options(command).items() if name not in without}
    mistakes = [text for key in content if (text := _mistake(key, content[key], options))]
    if mistakes:
        raise SettingError("\n  ".join([f"{where} cannot be meant:", *mistakes]))
    return {str(options[key].name): _value(options[key], content[key]) for key in content}


def _options(command: click.Command) -> dict[str, click.Option]:
    options = [option for option in command.params if isinstance(option, click.Option)]
    return {max(option.opts, key=len).lstrip("-").replace("-", "_"): option for option in options}


def _mistake(key: str, value: object, options: dict[str, click.Option]) -> str | None:
    option = options.get(key)
    if option is None:
        near = get_close_matches(key, options, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(options)}"
        return f"{key}: no such option; {hint}"
    values = value if option.multiple and isinstance(value, list) else [value]
    kind = _kind(option)
    if not all(type(item) is kind for item in values):
        many = f" or a list of {_NAMES[kind]}s" if option.multiple else ""
        return f"{key} = {value!r}: expected a {_NAMES[kind]}{many}"
    return None


_NAMES: Final[dict[type, str]] = {bool: "boolean", int: "whole number", str: "string"}


def _kind(option: click.Option) -> type:
    if option.is_flag:
        return bool
    return int if isinstance(option.type, click.types.IntParamType) else str


def _value(option: click.Option, value: object) -> object:
    return [value] if option.multiple and not isinstance(value, list) else value
