"""``tidegate model load`` and ``unload``: what one running gateway has in memory."""

from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote

import click

from tidegate.cli.operators import DEFAULT_URL, ask_gateway
from tidegate.cli.output import emit, examples, json_option

_PATIENCE_S: Final = 600.0
"""A large model is fetched, checked, loaded and measured meanwhile."""
_Command = TypeVar("_Command", bound=Callable[..., Any])


def _gateway_options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--timeout-s",
            type=click.FloatRange(min=0, min_open=True),
            default=_PATIENCE_S,
            show_default=True,
            metavar="SECONDS",
            help="How long to wait; what was begun goes on all the same.",
        ),
        click.option(
            "--url",
            default=DEFAULT_URL,
            show_default=True,
            metavar="URL",
            help="The gateway's listener for operators.",
        ),
    ):
        command = option(command)
    return command


@click.command(
    epilog=examples(
        "tidegate model load risk --url http://127.0.0.1:8002", "tidegate model load risk@8 --json"
    )
)
@click.argument("ref", metavar="NAME[@ALIAS|@VERSION]")
@_gateway_options
@json_option
def load(ref: str, url: str, timeout_s: float, json_to: str | None) -> None:
    """Let a running gateway load a version, and wait until it answers.

    Without a version: whatever the alias 'stable' names in the store now. A version that cannot be
    loaded changes nothing. A gateway with keys asks for one of scope admin: put it into the
    variable TIDEGATE_KEY.
    """
    from tidegate.ids import ModelRef

    path = f"/admin/v1/models/{quote(str(ModelRef.parse(ref)))}/load"
    answer = ask_gateway(url, path, timeout_s=timeout_s, method="POST")
    version, aliases = str(answer["version"]), map(str, answer["aliases"])
    names = [version, *aliases, *(["no version"] if answer["is_default"] else [])]
    tag = f"{answer['name']}@{version} ({answer['digest']})"
    emit(answer, json_to=json_to, text=f"{tag} answers who asks for {' or '.join(names)}")


@click.command(
    epilog=examples(
        "tidegate model unload risk@7 --url http://127.0.0.1:8002", "tidegate model unload risk"
    )
)
@click.argument("ref", metavar="NAME[@ALIAS|@VERSION]")
@_gateway_options
@json_option
def unload(ref: str, url: str, timeout_s: float, json_to: str | None) -> None:
    """Let a running gateway unload a version, or a whole model, and wait until it is gone.

    What was accepted is answered first. What the gateway was started for stays, and so does a
    version that an alias names: the gateway says why, and this command exits 1.
    """
    from tidegate.ids import ModelRef

    ModelRef.parse(ref)  # what cannot be meant is refused here
    path = f"/admin/v1/models/{quote(ref)}/unload"
    answer = ask_gateway(url, path, timeout_s=timeout_s, method="POST")
    gone = ", ".join(f"{answer['name']}@{version}" for version in answer["unloaded"])
    left = ", ".join(map(str, answer["versions"])) or "none"
    emit(answer, json_to=json_to, text=f"unloaded {gone}; versions that answer: {left}")
