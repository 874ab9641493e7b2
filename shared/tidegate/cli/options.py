"""Options that several commands share; each is an override of a setting of the same name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])


def store_option(command: _Command) -> _Command:
    """Give a command ``--store URL``, as ``store``; ``None`` where it was not typed.

    Pass it to ``load_settings(flags={"store": store}, …)``, which knows the default.
    """
    option = click.option(
        "--store",
        metavar="URL",
        help="Where models and jobs are kept: a directory or s3://bucket/prefix.  "
        "[default: ./tidegate-store]",
    )
    return option(command)


def config_option(command: _Command) -> _Command:
    """Give a command ``--config FILE``, as ``config``; ``None`` where none was named."""
    option = click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="TIDEGATE_CONFIG",
        metavar="FILE",
        help="Settings to read.  [default: ./tidegate.toml, if there is one]",
    )
    return option(command)
