"""Every setting and every command is explained, with an example to copy."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefinedType

from tests.project import ROOT
from tidegate.artifacts.manifest import TransformSpec, load_manifest
from tidegate.cli.root import root
from tidegate.settings import load_settings
from tidegate.settings.sections import BaseSection, ModelSection, registered_sections
from tidegate_loadtest.arrivals.files import CurveFile

SETTINGS = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
ANSWERS_NOTHING = {"tidegate serve", "tidegate jobs serve"}


def settings() -> dict[str, str]:
    """Return the row that ``docs/settings.md`` must have, by key."""
    tables: dict[str, type[BaseModel]] = {"": BaseSection, "models.<name>.": ModelSection}
    tables |= {f"{name}.": kind for name, kind in registered_sections().sections.items()}
    return {
        f"{table}{name}": default(field.get_default())
        for table, kind in tables.items()
        for name, field in kind.model_fields.items()
        if f"{table}{name}" != "models"
    }


def default(value: object) -> str:
    """Write a default as TOML would; computed ones are explained in words."""
    match value:
        case None | () | [] | {} | PydanticUndefinedType():
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case str():
            return f'`"{value}"`'
        case _:
            return f"`{value}`"


def commands(
    command: click.Command = root, above: click.Context | None = None
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(command, parent=above, info_name=command.name)
    yield context.command_path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, context)


every_command = pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*found, id=found[0]) for found in commands()]
)


def test_every_setting_is_documented_with_its_default() -> None:
    rows = [f"| `{key}` | {value}" for key, value in settings().items()]
    assert [row for row in rows if row not in SETTINGS] == []


def test_no_setting_is_documented_that_does_not_exist() -> None:
    rows = [line for line in SETTINGS.splitlines() if line.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == set(settings())


@every_command
def test_a_command_has_help_with_an_example_and_is_documented(
    path: str, command: click.Command
) -> None:
    assert command.help, f"{path} does not say what it does"
    assert "Example" in (command.epilog or "")
    assert f"{path} " in (command.epilog or "")
    assert f"`{path}" in COMMANDS


def test_the_changelog_names_every_command() -> None:
    names = root.list_commands(click.Context(root))
    assert [name for name in names if f"`tidegate {name}" not in CHANGES] == []


@every_command
def test_a_command_that_answers_can_answer_in_json(path: str, command: click.Command) -> None:
    if isinstance(command, click.Group) or path in ANSWERS_NOTHING:
        return
    assert any("--json" in parameter.opts for parameter in command.params)


@every_command
def test_every_option_of_a_command_says_what_it_does(path: str, command: click.Command) -> None:
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert [f"{path} {option.opts[0]}" for option in options if not option.help] == []


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_documented_formats_can_be_read() -> None:
    (curve,) = blocks("formats.md", "toml")
    (manifest,) = blocks("formats.md", "json")
    transforms = [
        msgspec.convert(tomllib.loads(block), TransformSpec)
        for block in blocks("transforms.md", "toml")
    ]
    kinds = {
        name for spec in transforms for name in msgspec.structs.asdict(spec) if getattr(spec, name)
    }
    assert kinds == set(TransformSpec.__struct_fields__)
    assert load_manifest(manifest.encode(), where="docs/formats.md").schema == 1
    assert msgspec.convert(tomllib.loads(curve), CurveFile).process == "gamma"


def test_the_documented_settings_can_be_read(tmp_path: Path) -> None:
    (example,) = blocks("settings.md", "toml")
    file = tmp_path / "tidegate.toml"
    file.write_text(example)
    assert load_settings(config=file).objective("risk").slo_ms == 50
