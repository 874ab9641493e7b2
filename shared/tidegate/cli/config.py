"""``tidegate config``: what the settings are, and where each of them came from."""

import json
from pathlib import Path

import click

from tidegate.cli.options import config_option, store_option
from tidegate.cli.output import emit, examples, json_option, table


@click.group(epilog=examples("tidegate config show"))
def config() -> None:
    """Show the settings in force."""


@config.command(epilog=examples("tidegate config show --config tidegate.toml"))
@config_option
@store_option
@json_option
def show(config: Path | None, store: str | None, json_to: str | None) -> None:
    """Print every setting and its origin, after checking all of them.

    Passwords and keys are never printed.
    """
    from tidegate.settings import load_settings

    settings = load_settings(config=config, flags={"store": store})
    shown = list(settings.shown())
    lines = [
        table(("setting", "value", "origin"), [(x.key, _text(x.value), x.origin) for x in shown])
    ]
    lines += [
        f"[{section}] was not checked: the package {package} is not installed"
        for section, package in settings.unavailable.items()
    ]
    answer = {
        "settings": {x.key: {"value": x.value, "origin": x.origin} for x in shown},
        "unavailable": settings.unavailable,
    }
    emit(answer, json_to=json_to, text="\n".join(lines))


def _text(value: object) -> str:
    """Write a value as the file would, but for the quotes; ``-`` where there is none."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)
