"""The root command: finds sub-commands by name and imports one only when it is needed."""

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click

from tidegate import __version__
from tidegate.cli.output import examples

GROUP: Final = "tidegate.commands"
BUILT_IN: Final = {
    "config": "tidegate.cli.config:config",
    "keys": "tidegate.cli.keys:keys",
    "model": "tidegate.cli.model:model",
}
"""Commands of this package; those of the services are installed as entry points."""


class LazyGroup(click.Group):
    """A group whose sub-commands are entry points, so that shared code never imports a service."""

    def __init__(self, *, entries: dict[str, EntryPoint], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type] # click's own keywords, passed through
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every command, without importing one."""
        return sorted(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command.

        A command whose dependencies are not installed stays in the list and says what to
        install when it is run; its help must not take the others' away.
        """
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        try:
            command = entry.load()
        except ModuleNotFoundError as error:
            return _unavailable(cmd_name, error)
        assert isinstance(command, click.Command), f"{entry.value} is no command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or name the one that was probably meant."""
        if args[0] not in self._entries:
            raise click.UsageError(_no_such_command(args[0], self.list_commands(ctx)), ctx)
        return super().resolve_command(ctx, args)


def _no_such_command(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(known)}."
    return f"No such command {name[:80]!r}. {hint}"


def _unavailable(name: str, error: ModuleNotFoundError) -> click.Command:
    def refuse(**_: object) -> None:
        raise error

    return click.Command(
        name,
        callback=refuse,
        help=f"(not installed: {error.name})",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _entries() -> dict[str, EntryPoint]:
    built_in = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}
    return {entry.name: entry for entry in entry_points(group=GROUP)} | built_in


root = LazyGroup(
    name="tidegate",
    entries=_entries(),
    help="Serve one model two ways: interactively inside a latency objective, and offline over "
    "files. Every prediction carries the name, version and digest of the model that made it.",
    epilog=examples(
        "tidegate model publish risk model.onnx --alias stable",
        "tidegate serve --model risk@stable --slo-ms 50",
        "tidegate batch submit --model risk@stable --input 'in/*.parquet' --output out --wait",
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
root = click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")(root)
