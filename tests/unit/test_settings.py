from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import pytest
from pydantic import Field, SecretStr

from tidegate.errors import SettingError
from tidegate.settings import LatencyObjective, Section, Settings, load_settings
from tidegate.settings.loading import read_settings
from tidegate.settings.sections import Registered
from tidegate.units import ms_to_ns


class Pier(Section):
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    names: tuple[str, ...] = ()
    token: SecretStr | None = None
    length_m: float = 1.0
    berths: int | None = None


class Unregistered(Section):
    pass


REGISTERED = Registered(sections={"pier": Pier}, unavailable={"dock": "ray"})


def read(text: str = "", flags: Mapping[str, object] = MappingProxyType({})) -> Settings:
    Path("tidegate.toml").write_text(text, encoding="utf-8")
    return read_settings(REGISTERED, config=None, flags=flags)


def mistakes(text: str = "", flags: Mapping[str, object] = MappingProxyType({})) -> list[str]:
    with pytest.raises(SettingError) as caught:
        read(text, flags)
    return str(caught.value).splitlines()


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_without_a_file_every_setting_has_its_default(tmp_path: Path) -> None:
    settings = read_settings(REGISTERED, config=None, flags={})
    assert settings.store == "./tidegate-store"
    assert settings.cache_dir == tmp_path / "tidegate"
    assert settings.section(Pier) == Pier()
    assert set(settings.origins.values()) == {"default"}


def test_the_installed_sections_are_found_and_hold_without_a_file() -> None:
    settings = load_settings(config=None)
    assert {"store", "cache_dir"} <= set(settings.origins)
    assert settings.unavailable == {}


def test_a_relative_cache_home_is_ignored_as_the_xdg_specification_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert read().cache_dir == Path.home() / ".cache" / "tidegate"


def test_flags_beat_the_environment_and_the_environment_beats_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = 'store = "from-file"\n[pier]\nport = 1\nnames = ["file"]'
    monkeypatch.setenv("TIDEGATE_STORE", "from-environment")
    monkeypatch.setenv("TIDEGATE_PIER__PORT", "2")
    settings = read(text, {"pier.port": 3})
    assert settings.store == "from-environment"
    assert settings.section(Pier) == Pier(port=3, names=("file",))


def test_each_value_knows_what_to_change_to_change_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_STORE", "x")
    monkeypatch.setenv("TIDEGATE_PIER", '{"names": ["a"]}')
    settings = read("[models.risk]\nslo_ms = 50", {"pier.port": 3, "cache_dir": None})
    assert settings.origin("store") == "environment TIDEGATE_STORE"
    assert settings.origin("models.risk.slo_ms") == "tidegate.toml"
    assert settings.origin("models.risk.percentile") == "default"
    assert settings.origin("pier.port") == "flag --port"
    assert settings.origin("pier.names") == "environment TIDEGATE_PIER"
    assert settings.origin("cache_dir") == "default"
    assert settings.origin("models.unknown.slo_ms") == "default"


def test_a_flag_may_set_the_objective_of_a_model_whose_name_holds_dots() -> None:
    settings = read(flags={"models.risk.v2.slo_ms": 20})
    assert settings.objective("risk.v2") == LatencyObjective(slo_ms=20)
    assert settings.origin("models.risk.v2.slo_ms") == "flag --slo-ms"


def test_an_option_that_may_be_repeated_is_named_as_it_was_typed() -> None:
    (mistake,) = mistakes(flags={"pier.names": ("a", 7)})
    assert mistake.startswith("flag --name: pier.names.1: ")


def test_a_model_without_a_table_has_the_default_objective() -> None:
    assert read().objective("risk") == LatencyObjective(slo_ms=100, percentile=0.99)


def test_an_objective_changes_unit_in_one_place() -> None:
    assert LatencyObjective(slo_ms=0.25).slo_ns == ms_to_ns(0.25) == 250_000


@pytest.mark.parametrize(
    ("slo_ms", "percentile"),
    [(0, 0.99), (-1, 0.99), (float("nan"), 0.99), (float("inf"), 0.99), (50, 0), (50, 1)],
)
def test_an_objective_that_no_server_could_promise_is_refused(
    slo_ms: float, percentile: float
) -> None:
    with pytest.raises(SettingError, match=r"For 50 ms at p99 write 50 and 0\.99"):
        LatencyObjective(slo_ms=slo_ms, percentile=percentile)


def test_all_mistakes_are_told_at_once_each_with_file_and_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_PIER__NAMES", "a,b")
    lines = mistakes(
        'stores = "x"\n[pier]\nprot = 1\n[models.risk]\nslo_ms = -3\n[models.Bad]',
        {"pier.port": 70000},
    )
    assert lines[0] == "6 settings cannot be used:"
    told = "\n".join(sorted(lines[1:]))
    assert "tidegate.toml: stores is no setting. Did you mean 'store'?" in told
    assert "tidegate.toml: pier.prot is no setting. Did you mean 'port'?" in told
    assert "tidegate.toml: models.risk.slo_ms: Input should be greater than 0 (found -3)" in told
    assert "tidegate.toml: models.Bad: 'Bad' is no model name" in told
    assert "flag --port: pier.port: Input should be less than or equal to 65535" in told
    assert (
        "environment TIDEGATE_PIER__NAMES: pier.names: expected a JSON list, such as "
        """["a", "b"] (found 'a,b')"""
    ) in told


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("port = true", "port: Input should be a valid integer (found True)"),
        ("port = 8000.0", "port: Input should be a valid integer (found 8000.0)"),
        ("berths = false", "berths: Input should be a valid integer (found False)"),
        ("length_m = true", "length_m: Input should be a valid number (found True)"),
    ],
)
def test_what_only_python_takes_for_a_number_is_refused(written: str, reason: str) -> None:
    assert mistakes(f"[pier]\n{written}") == [f"tidegate.toml: pier.{reason}"]


def test_a_number_in_a_variable_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_PIER__PORT", "80")
    monkeypatch.setenv("TIDEGATE_PIER__BERTHS", "4")
    monkeypatch.setenv("TIDEGATE_PIER__LENGTH_M", "2")
    assert read("[models.risk]\nslo_ms = 50").section(Pier) == Pier(port=80, berths=4, length_m=2)


def test_a_table_that_is_none_is_told_where_its_keys_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_PIER", "north")
    assert mistakes() == [
        "environment TIDEGATE_PIER: pier: expected a table; set its keys one by one (found 'north')"
    ]


def test_a_gateway_needs_two_ports_whoever_reads_its_settings() -> None:
    told = "serve.admin_port: both listeners have this port; change it or serve.port"
    with pytest.raises(SettingError, match=f"^default: {told} .found 8002"):
        load_settings(flags={"serve.host": "::1", "serve.port": 8002})
    with pytest.raises(SettingError, match=f"^flag --admin-port: {told} .found 8000"):
        load_settings(flags={"serve.host": "::1", "serve.admin_port": 8000})
    told = "serve.grpc_port: serve.admin_port has this port, too; change either, or 0: no gRPC"
    with pytest.raises(SettingError, match=f"^flag --grpc-port: {told} .found 8002"):
        load_settings(flags={"serve.grpc_port": 8002})
    load_settings(flags={"serve.grpc_port": 0})


def test_an_unknown_key_that_resembles_none_lists_those_that_exist() -> None:
    assert mistakes("[pier]\nxyzzy = 1") == [
        "tidegate.toml: pier.xyzzy is no setting. There are: port, names, token, length_m, berths."
    ]


def test_an_unknown_variable_is_a_mistake_like_an_unknown_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_STORES", "x")
    monkeypatch.setenv("TIDEGATE_PIER__PROT", "x")
    assert set(mistakes()[1:]) == {
        "  environment TIDEGATE_PIER__PROT: pier.prot is no setting. Did you mean 'port'?",
        "  environment TIDEGATE_STORES: stores is no setting. Did you mean 'store'?",
    }


@pytest.mark.parametrize(
    "name",
    [
        "TIDEGATE_PORT",
        "TIDEGATE_PORT_8000_TCP_ADDR",
        "TIDEGATE_SERVICE_HOST",
        "TIDEGATE_BATCH_SERVICE_PORT_HTTP",
        "TIDEGATE_TRACEBACK",
    ],
)
def test_variables_that_kubernetes_adds_for_a_service_are_no_mistakes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:8000")
    assert read().store == "./tidegate-store"


def test_a_section_that_cannot_be_loaded_is_accepted_unchecked_and_said_so() -> None:
    settings = read("[dock]\nanything = 1")
    assert settings.unavailable == {"dock": "ray"}
    assert settings.origin("dock.anything") == "tidegate.toml"


def test_a_section_that_nobody_registered_is_a_bug_not_a_default() -> None:
    with pytest.raises(LookupError, match="Unregistered"):
        read().section(Unregistered)


def test_a_named_file_must_exist_and_an_unnamed_one_need_not() -> None:
    with pytest.raises(SettingError, match=r"prod\.toml: there is no such file"):
        read_settings(REGISTERED, config=Path("prod.toml"), flags={})


def test_a_missing_file_that_a_variable_named_is_told_by_that_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDEGATE_CONFIG", "./prod.toml")
    for file, named_by in {"prod.toml": "TIDEGATE_CONFIG", "test.toml": "--config"}.items():
        with pytest.raises(SettingError, match=rf"no such file; {named_by} named it"):
            read_settings(REGISTERED, config=Path(file), flags={})


@pytest.mark.parametrize("content", [b"store = ", b"\xff"])
def test_a_file_that_is_no_toml_is_named(content: bytes) -> None:
    Path("tidegate.toml").write_bytes(content)
    with pytest.raises(SettingError, match=r"tidegate\.toml cannot be read: "):
        read_settings(REGISTERED, config=None, flags={})


def test_a_secret_is_told_neither_when_it_is_right_nor_when_it_is_wrong() -> None:
    shown = {setting.key: setting.value for setting in read('[pier]\ntoken = "hunter2"').shown()}
    assert shown["pier.token"] == "**********"
    assert mistakes("[pier]\ntoken = 7777") == [
        "tidegate.toml: pier.token: Input should be a valid string (found a secret)"
    ]


def test_a_password_in_a_url_is_masked() -> None:
    shown = {x.key: x.value for x in read('store = "s3://me:hunter2@host/bucket"').shown()}
    assert shown["store"] == "s3://***@host/bucket"
    assert "hunter2" not in mistakes('[pier]\nport = "redis://me:hunter2@host"')[0]


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read().section(Pier).port = 1
