"""``tidegate keys``: who may predict, operate and submit jobs."""

from collections.abc import Mapping
from math import ceil, isnan
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.options import config_option
from tidegate.cli.output import emit, examples, json_option, table

if TYPE_CHECKING:
    from tidegate.keys.key import Key

SCOPES = ("predict", "admin", "jobs")

file_option = click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file of keys.  [default: the setting keys_file]",
)


@click.group(
    epilog=examples(
        "tidegate keys create --file keys.json --scope predict --tenant shop",
        "tidegate keys list --file keys.json",
    )
)
def keys() -> None:
    """Make the keys that callers and operators show, and take them back.

    A gateway that runs with the file takes changes over within a second or so.
    """


@keys.command(
    epilog=examples(
        "tidegate keys create --file keys.json --scope predict --tenant shop --model risk",
        "tidegate keys create --file keys.json --scope predict --tenant lab --rate 200",
        "tidegate keys create --file keys.json --scope admin --tenant ops --expires-in-days 90",
    )
)
@file_option
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    required=True,
    help="What it is good for; may be given several times.",
)
@click.option("--tenant", required=True, metavar="NAME", help="Whom its requests are counted for.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="A model that it may be used for; may be given several times.  [default: all]",
)
@click.option(
    "--best-priority",
    type=click.IntRange(1, 3),
    default=1,
    show_default=True,
    help="The best class it may ask for: 1 highest, 2 normal, 3 bulk.",
)
@click.option(
    "--rate",
    type=click.FloatRange(1e-3, 1e6),
    metavar="ROWS",
    help="Rows a second that its tenant may ask one gateway for; more is 429.  [default: any]",
)
@click.option(
    "--burst",
    type=click.IntRange(1, 1_000_000_000),
    metavar="ROWS",
    help="Rows at once, with --rate.  [default: those of one second]",
)
@click.option(
    "--expires-in-days",
    type=click.IntRange(1, 36_500),
    metavar="DAYS",
    help="How long it works.  [default: until it is revoked]",
)
@config_option
@json_option
def create(scopes: tuple[str, ...], tenant: str, models: tuple[str, ...], **others: object) -> None:
    """Make a key and show its secret, once: the file holds a digest of it."""
    from datetime import timedelta

    import msgspec

    from tidegate.clock.system import SystemClock
    from tidegate.errors import SettingError
    from tidegate.ids import parse_model_name
    from tidegate.keys.file import add_key
    from tidegate.keys.key import Key, Token

    token, now, days = Token.new(), SystemClock().utc_now(), others["expires_in_days"]
    wanted = {
        "id": token.id,
        "secret_sha256": token.secret_sha256,
        "scopes": list(dict.fromkeys(scopes)),
        "tenant": tenant,
        "models": [parse_model_name(name) for name in dict.fromkeys(models)] or None,
        "best_priority": others["best_priority"],
        "quota": _quota(others["rate"], others["burst"]),
        "created_at": now,
        "expires_at": now + timedelta(days=days) if isinstance(days, int) else None,
    }
    try:
        key = msgspec.convert(wanted, Key)
    except msgspec.ValidationError as error:
        raise SettingError(f"no such key can be made: {error}") from error
    add_key(_file(others), key)
    text = (
        f"created {key.id} for {_said(key)}\n\n  {token.reveal()}\n\n"
        "Its secret is not shown again: the file holds only a digest of it."
    )
    emit({**_shown(key), "token": token.reveal()}, json_to=_json_to(others), text=text)


@keys.command("list", epilog=examples("tidegate keys list --file keys.json"))
@file_option
@config_option
@json_option
def list_keys(**others: object) -> None:
    """List the keys, without their secrets."""
    from tidegate.keys.file import load_keys

    found = load_keys(_file(others)).keys
    rows = [(key.id, *_columns(key)) for key in found]
    titles = ("id", "tenant", "scopes", "models", "best priority", "rate", "created", "expires")
    text = table(titles, rows) if rows else "there is no key yet"
    emit({"keys": [_shown(key) for key in found]}, json_to=_json_to(others), text=text)


@keys.command(epilog=examples("tidegate keys revoke 7f3a9c21b0de --file keys.json"))
@click.argument("id_", metavar="ID")
@file_option
@config_option
@json_option
def revoke(id_: str, **others: object) -> None:
    """Take a key out of the file; whoever holds it is refused from then on."""
    from tidegate.keys.file import remove_key

    file = _file(others)
    remove_key(file, id_)
    text = f"revoked {id_}; gateways that read {file} refuse it within a second or so"
    emit({"revoked": id_}, json_to=_json_to(others), text=text)


def _quota(rate: object, burst: object) -> dict[str, float | int] | None:
    if not isinstance(rate, float):
        if burst is not None:
            raise click.UsageError("--burst goes with --rate: how many rows a second?")
        return None
    if isnan(rate):  # the only number that is in no range
        raise click.UsageError("--rate is how many rows a second, 0.001 to 1000000.")
    of_a_second = ceil(rate)
    return {"rows_per_second": rate, "burst_rows": burst if isinstance(burst, int) else of_a_second}


def _file(others: Mapping[str, object]) -> Path:
    from tidegate.errors import SettingError
    from tidegate.settings import load_settings

    named, config = others["file"], others["config"]
    if isinstance(named, Path):
        return named
    settings = load_settings(config=config if isinstance(config, Path) else None)
    if settings.base.keys_file is None:
        raise SettingError("which file? Name it with --file keys.json, or set keys_file")
    return settings.base.keys_file


def _json_to(others: Mapping[str, object]) -> str | None:
    json_to = others["json_to"]
    return json_to if isinstance(json_to, str) else None


def _columns(key: "Key") -> tuple[str, ...]:
    return (
        key.tenant,
        ",".join(key.scopes),
        ",".join(key.models) if key.models is not None else "all",
        str(key.best_priority),
        f"{key.quota.rows_per_second:g} rows/s" if key.quota else "any",
        f"{key.created_at:%Y-%m-%d}",
        f"{key.expires_at:%Y-%m-%d}" if key.expires_at else "never",
    )


def _said(key: "Key") -> str:
    tenant, scopes, models, _, rate, _, expires = _columns(key)
    return f"tenant {tenant}: {scopes}; models: {models}; rate: {rate}; expires: {expires}"


def _shown(key: "Key") -> dict[str, object]:
    """Everything but the digest, which nobody needs to see."""
    return {name: getattr(key, name) for name in key.__struct_fields__ if name != "secret_sha256"}
