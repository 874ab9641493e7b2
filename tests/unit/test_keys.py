"""Keys: what is stored of them, what they open, and what becomes of a file that changes."""

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.project import product_files
from tidegate.keys.access import ANYBODY, Access, Principal
from tidegate.keys.errors import (
    ForbiddenError,
    KeyFileError,
    KeyNotFoundError,
    UnauthenticatedError,
)
from tidegate.keys.file import KeyFile, add_key, dump_keys, load_keys, parse_keys, remove_key
from tidegate.keys.key import Key, Quota, Scope, Token
from tidegate.keys.ring import Keyring

NOW = datetime(2026, 12, 1, tzinfo=UTC)
FIXTURE = Path(__file__).parents[1] / "fixtures/keys-schema-1.json"


class Calendar:
    """A wall clock that a test sets."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def utc_now(self) -> datetime:
        return self.now


def made(
    *scopes: Scope,
    models: tuple[str, ...] | None = None,
    best_priority: int = 1,
    expires_at: datetime | None = None,
) -> tuple[Key, str]:
    """Return a key and the header of its holder."""
    token = Token.new()
    key = Key(
        id=token.id,
        secret_sha256=token.secret_sha256,
        scopes=scopes or (Scope.PREDICT,),
        tenant="shop",
        models=models,
        best_priority=best_priority,
        created_at=NOW,
        expires_at=expires_at,
    )
    return key, f"Bearer {token.reveal()}"


def access(folder: Path, *keys: Key, clock: Calendar | None = None) -> Access:
    return Access(ring(folder, *keys, clock=clock))


def ring(folder: Path, *keys: Key, clock: Calendar | None = None) -> Keyring:
    file = folder / "keys.json"
    file.write_bytes(dump_keys(KeyFile(keys=keys)))
    return Keyring(file, clock or Calendar())


def test_a_key_opens_what_its_scopes_say_and_names_its_tenant(tmp_path: Path) -> None:
    key, header = made(Scope.PREDICT, Scope.JOBS, best_priority=2)
    ours = access(tmp_path, key)
    expected = Principal(tenant="shop", key_id=key.id, best_priority=2)
    assert ours.authorize(header, Scope.PREDICT, "risk") == expected
    assert ours.authorize(header.replace("Bearer", "bearer"), Scope.JOBS) == expected
    with pytest.raises(ForbiddenError, match=rf"{key.id} is not for admin.* predict, jobs"):
        ours.authorize(header, Scope.ADMIN)


def test_a_key_for_some_models_says_nothing_about_others(tmp_path: Path) -> None:
    key, header = made(models=("risk",))
    ours = access(tmp_path, key)
    assert ours.authorize(header, Scope.PREDICT, "risk").key_id == key.id
    assert ours.authorize(header, Scope.PREDICT).key_id == key.id
    with pytest.raises(ForbiddenError) as refused:
        ours.authorize(header, Scope.PREDICT, "other")
    assert "other" not in str(refused.value)
    key, header = made(models=())
    with pytest.raises(ForbiddenError):
        access(tmp_path, key).authorize(header, Scope.PREDICT, "risk")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer tg_0123456789ab",
        "Bearer tg_0123456789ab_short",
        "Bearer tg_0123456789AB_" + "a" * 43,
        "Bearer tg_0123456789ab_" + "a" * 44,
        "Bearer tg_0123456789ab_" + "é" * 43,
        "tg_0123456789ab_" + "a" * 43,
        "Bearer tg_0123456789ab_" + "a" * 43,
        "Bearer " * 100_000,
    ],
)
def test_whatever_is_no_key_of_ours_is_refused(tmp_path: Path, header: str | None) -> None:
    key, _ = made()
    with pytest.raises(UnauthenticatedError):
        access(tmp_path, key).authorize(header, Scope.PREDICT)


def test_a_wrong_secret_is_told_like_an_unknown_id(tmp_path: Path) -> None:
    key, header = made()
    wrong_secret = header[:-1] + ("A" if header[-1] != "A" else "B")
    unknown_id = header.replace(key.id, "f" * 12)
    said = []
    for wrong in (wrong_secret, unknown_id):
        with pytest.raises(UnauthenticatedError) as refused:
            access(tmp_path, key).authorize(wrong, Scope.PREDICT)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_a_key_ends_at_its_instant(tmp_path: Path) -> None:
    key, header = made(expires_at=NOW + timedelta(days=1))
    calendar = Calendar(NOW + timedelta(days=1, microseconds=-1))
    ours = access(tmp_path, key, clock=calendar)
    assert ours.authorize(header, Scope.PREDICT).tenant == "shop"
    calendar.now = NOW + timedelta(days=1)
    with pytest.raises(UnauthenticatedError, match="ended at 2026-12-02 00:00 UTC"):
        ours.authorize(header, Scope.PREDICT)


def test_without_keys_everybody_may_do_everything() -> None:
    for scope in Scope:
        assert Access().authorize("Basic whatever", scope, "risk") == ANYBODY


def test_anonymous_predict_opens_predict_alone(tmp_path: Path) -> None:
    key, header = made(Scope.PREDICT)
    ours = Access(ring(tmp_path, key), anonymous={Scope.PREDICT})
    assert ours.authorize(None, Scope.PREDICT, "risk") == ANYBODY
    assert ours.authorize(header, Scope.PREDICT).tenant == "shop"
    with pytest.raises(UnauthenticatedError):
        ours.authorize("Bearer tg_wrong", Scope.PREDICT)
    with pytest.raises(UnauthenticatedError):
        ours.authorize(None, Scope.ADMIN)


def test_what_is_open_is_open_with_any_header(tmp_path: Path) -> None:
    key, _ = made()
    assert access(tmp_path, key).authorize("Bearer nonsense", None) == ANYBODY


def test_no_text_of_a_key_shows_its_secret() -> None:
    key, header = made()
    token = Token.parse(header.removeprefix("Bearer "))
    assert token is not None
    for text in (repr(token), str(token), f"{token}", repr(key), dump_keys(KeyFile(keys=(key,)))):
        assert token.secret not in str(text)
    assert token.opens(key)


def test_digests_are_compared_in_one_place_and_in_constant_time() -> None:
    found = [file.name for file in product_files() if "compare_digest" in file.read_text("utf-8")]
    assert found == ["key.py"]


def test_the_file_of_keys_reads_back_and_the_released_schema_loads(tmp_path: Path) -> None:
    key, _ = made(Scope.ADMIN, models=("risk",), expires_at=NOW)
    keys = KeyFile(keys=(key,))
    assert parse_keys(dump_keys(keys), where="here") == keys
    first, second = load_keys(FIXTURE).keys
    assert (first.scopes, first.models, first.expires_at) == ((Scope.PREDICT,), None, None)
    assert (second.tenant, second.models, second.best_priority) == ("ops", ("risk",), 2)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"schema": 2, "keys": []}',
        b'{"schema": 1, "keys": [], "extra": 1}',
        b'{"schema": 1, "keys": [{"id": "../../etc"}]}',
        b"\x80\x04K\x01.",
    ],
)
def test_another_file_is_refused_by_its_name(content: bytes) -> None:
    with pytest.raises(KeyFileError, match="here is no file of keys"):
        parse_keys(content, where="here")


@pytest.mark.parametrize(
    ("rate", "is_sound"), [(1e-300, False), (0.001, True), (1e6, True), (2e6, False)]
)
def test_a_rate_is_one_that_can_be_reckoned_with(rate: float, is_sound: bool) -> None:
    key = replace(made()[0], quota=Quota(rows_per_second=rate, burst_rows=1))
    keys = KeyFile(keys=(key,))
    if is_sound:
        assert parse_keys(dump_keys(keys), where="here") == keys
    else:
        with pytest.raises(KeyFileError, match=r"rows_per_second|0\.001|1000000"):
            parse_keys(dump_keys(keys), where="here")


def test_one_id_cannot_stand_there_twice() -> None:
    key, _ = made()
    with pytest.raises(ValueError, match="there twice"):
        KeyFile(keys=(key, key))


def test_keys_are_added_and_revoked_in_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    keys = [made()[0] for _ in range(3)]
    for key in keys:
        add_key(file, key)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o640)
    remove_key(file, keys[1].id)
    assert load_keys(file).keys == (keys[0], keys[2])
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    with pytest.raises(KeyNotFoundError, match=keys[1].id):
        remove_key(file, keys[1].id)


def test_a_folder_that_takes_no_file_is_told(tmp_path: Path) -> None:
    key, _ = made()
    with pytest.raises(KeyFileError, match="cannot be written"):
        add_key(tmp_path / "none" / "keys.json", key)
    with pytest.raises(KeyFileError, match="tidegate keys create"):
        load_keys(tmp_path / "keys.json")
    with pytest.raises(KeyFileError, match="cannot be read"):
        load_keys(tmp_path)


def test_a_change_of_the_file_is_taken_over_and_a_broken_one_keeps_the_old_keys(
    tmp_path: Path,
) -> None:
    file = tmp_path / "keys.json"
    (old, of_old), (new, of_new) = made(), made()
    add_key(file, old)
    keys = Keyring(file, Calendar())
    ours = Access(keys)
    add_key(file, new)
    keys.reread()
    assert ours.authorize(of_new, Scope.PREDICT).key_id == new.id
    remove_key(file, old.id)
    keys.reread()
    with pytest.raises(UnauthenticatedError):
        ours.authorize(of_old, Scope.PREDICT)
    file.write_text("{broken")
    keys.reread()
    assert ours.authorize(of_new, Scope.PREDICT).key_id == new.id
    file.unlink()
    keys.reread()
    assert ours.authorize(of_new, Scope.PREDICT).key_id == new.id
    file.write_bytes(dump_keys(KeyFile()))
    keys.reread()
    with pytest.raises(UnauthenticatedError):
        ours.authorize(of_new, Scope.PREDICT)
