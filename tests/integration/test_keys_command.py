"""``tidegate keys``, as an operator types it."""

import json
from pathlib import Path

import pytest

from tidegate.cli import run
from tidegate.cli.exits import ExitCode
from tidegate.keys.file import load_keys
from tidegate.keys.key import Quota, Token

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_is_shown_once_and_opens_what_is_stored(file: Path, capsys: Captured) -> None:
    create = ["keys", "create", "--file", str(file), "--scope", "predict", "--tenant", "shop"]
    assert run([*create, "--model", "risk", "--expires-in-days", "90"]) == ExitCode.OK
    said = capsys.readouterr().out
    shown = next(line.strip() for line in said.splitlines() if line.startswith("  tg_"))
    token = Token.parse(shown)
    (key,) = load_keys(file).keys
    assert token is not None
    assert token.opens(key)
    assert token.secret not in file.read_text()
    assert (key.tenant, key.models, key.best_priority) == ("shop", ("risk",), 1)
    assert key.expires_at is not None
    assert (key.expires_at - key.created_at).days == 90
    assert run(["keys", "list", "--file", str(file)]) == ExitCode.OK
    listed = capsys.readouterr().out
    assert key.id in listed
    assert token.secret not in listed
    assert key.secret_sha256 not in listed


def test_the_same_in_json_and_by_the_setting(
    file: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_KEYS_FILE", str(file))
    create = ["keys", "create", "--scope", "admin", "--scope", "jobs", "--tenant", "ops", "--json"]
    assert run(create) == ExitCode.OK
    made = json.loads(capsys.readouterr().out)
    assert (made["scopes"], made["models"], made["expires_at"]) == (["admin", "jobs"], None, None)
    assert Token.parse(made["token"]) is not None
    assert run(["keys", "list", "--json"]) == ExitCode.OK
    (listed,) = json.loads(capsys.readouterr().out)["keys"]
    assert listed == {name: value for name, value in made.items() if name != "token"}


def test_a_rate_is_stored_and_listed_and_its_burst_is_a_second_of_it(
    file: Path, capsys: Captured
) -> None:
    create = ["keys", "create", "--file", str(file), "--scope", "predict", "--tenant", "lab"]
    assert run([*create, "--rate", "2.5"]) == ExitCode.OK
    assert "rate: 2.5 rows/s" in capsys.readouterr().out
    assert run([*create, "--rate", "200", "--burst", "1000"]) == ExitCode.OK
    quotas = [key.quota for key in load_keys(file).keys]
    assert quotas == [
        Quota(rows_per_second=2.5, burst_rows=3),
        Quota(rows_per_second=200.0, burst_rows=1_000),
    ]
    capsys.readouterr()
    assert run(["keys", "list", "--file", str(file)]) == ExitCode.OK
    assert "200 rows/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["--burst", "9"],
        ["--rate", "0"],
        ["--rate", "-1"],
        ["--rate", "nan"],
        ["--rate", "2e6"],
        ["--rate", "1e-4"],
    ],
)
def test_a_rate_that_cannot_be_meant_is_refused(file: Path, options: list[str]) -> None:
    create = ["keys", "create", "--file", str(file), "--scope", "predict", "--tenant", "lab"]
    assert run([*create, *options]) == ExitCode.USAGE
    assert not file.exists()


def test_a_revoked_key_is_gone_and_another_try_says_so(file: Path, capsys: Captured) -> None:
    create = ["keys", "create", "--file", str(file), "--scope", "predict", "--tenant", "shop"]
    run([*create, "--json"])
    made = json.loads(capsys.readouterr().out)
    revoke = ["keys", "revoke", made["id"], "--file", str(file)]
    assert run(revoke) == ExitCode.OK
    assert load_keys(file).keys == ()
    assert run(revoke) == ExitCode.USAGE
    assert "key_not_found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list"], "set keys_file"),
        (["list", "--file", "none.json"], "tidegate keys create --file none.json"),
        (["create", "--file", "k", "--tenant", "x"], "scope"),
        (["create", "--file", "k", "--tenant", "x", "--scope", "root"], "root"),
        (["create", "--file", "k", "--tenant", "a b", "--scope", "admin"], "tenant"),
        (["create", "--file", "k", "--tenant", "x", "--scope", "admin", "--model", ".."], "model"),
    ],
)
def test_what_cannot_be_meant_is_said_and_leaves_no_file(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["keys", *arguments]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
