"""Whom a listener lets in before it listens: by its address, its keys and what was said."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from tidegate.clock.system import SystemClock
from tidegate.errors import SettingError
from tidegate.keys.errors import KeyFileError, UnauthenticatedError
from tidegate.keys.file import KeyFile, dump_keys
from tidegate.keys.key import Scope
from tidegate.keys.ring import Keyring
from tidegate_realtime.main.guarding import build_policy, check_reach, open_keys
from tidegate_realtime.settings import ServeSettings


def serve(**values: object) -> ServeSettings:
    return ServeSettings.model_validate(values)


LOOPBACK = ["127.0.0.1", "127.5.5.5", "::1"]
OUTSIDE = ["0.0.0.0", "::", "192.0.2.7", "2001:db8::7"]


@pytest.fixture
def keys(tmp_path: Path) -> Keyring:
    file = tmp_path / "keys.json"
    file.write_bytes(dump_keys(KeyFile()))
    return Keyring(file, SystemClock())


@pytest.mark.field_fault("P-30")
@pytest.mark.parametrize("host", LOOPBACK)
def test_on_loopback_nothing_is_needed(host: str) -> None:
    check_reach(host, serve(), None)


@pytest.mark.field_fault("P-30")
@pytest.mark.parametrize("host", OUTSIDE)
def test_beyond_loopback_somebody_must_say_who_may_ask(host: str, keys: Keyring) -> None:
    with pytest.raises(SettingError, match=r"--keys-file keys\.json.*--anonymous-predict"):
        check_reach(host, serve(), None)
    check_reach(host, serve(), keys)
    check_reach(host, serve(anonymous_predict=True), None)


def test_anonymous_predict_opens_nothing_but_predict(keys: Keyring) -> None:
    access = build_policy(serve(anonymous_predict=True), keys).access
    access.authorize(None, Scope.PREDICT)
    for scope in (Scope.ADMIN, Scope.JOBS):
        with pytest.raises(UnauthenticatedError):
            access.authorize(None, scope)


def test_the_default_address_is_loopback() -> None:
    assert serve().host == "127.0.0.1"


def test_a_file_of_keys_that_is_none_stops_the_start(tmp_path: Path) -> None:
    assert open_keys(None) is None
    with pytest.raises(KeyFileError):
        open_keys(tmp_path / "keys.json")


def test_names_are_compared_without_case() -> None:
    policy = build_policy(serve(hosts=["API.Example"], admin_hosts=["Ops"]), None)
    assert [*policy.hosts, *policy.admin_hosts] == ["api.example", "ops"]


@pytest.mark.parametrize("name", ["a:80", "http://a", "a/", "", "*", "::1", "a b"])
def test_a_name_that_no_request_could_bear_is_refused(name: str) -> None:
    for setting in ("hosts", "admin_hosts"):
        with pytest.raises(ValidationError, match="without a port"):
            serve(**{setting: [name]})
    assert serve(hosts=["API.example", "192.0.2.7", "[::1]"]).hosts[2] == "[::1]"
