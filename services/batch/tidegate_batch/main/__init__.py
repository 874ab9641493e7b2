"""``tidegate batch``: submit a job, look at it, resume it, verify what it wrote; and the rest."""

from importlib.metadata import EntryPoint
from typing import Final

import click

from tidegate.cli.output import examples
from tidegate.cli.root import LazyGroup

COMMANDS: Final = {
    "cancel": "overseeing:cancel",
    "dead-letters": "dead_letters:dead_letters",
    "estimate": "estimating:estimate",
    "gc": "overseeing:gc",
    "list": "overseeing:list_command",
    "resume": "continuing:resume",
    "retry-dlq": "dead_letters:retry_dlq",
    "status": "continuing:status",
    "submit": "submitting:submit",
    "verify": "continuing:verify",
    "watch": "overseeing:watch",
}
"""Imported when they are asked for: ``tidegate --help`` needs none of them."""


@click.group(
    cls=LazyGroup,
    entries={
        name: EntryPoint(name, f"{__name__}.{value}", "tidegate.batch.commands")
        for name, value in COMMANDS.items()
    },
    epilog=examples(
        "tidegate batch submit --model risk@stable --input 'in/*.parquet' --output out --wait",
        "tidegate batch status 0123456789abcdef --wait",
        "tidegate batch resume 0123456789abcdef --wait",
    ),
)
def batch() -> None:
    """Score files with one model version: each row once, whatever is killed meanwhile."""
