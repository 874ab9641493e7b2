import json
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import IO

import click
import pytest

import tidegate
from tidegate.cli import run
from tidegate.cli.exits import ExitCode
from tidegate.cli.failures import catching
from tidegate.cli.output import emit, examples, json_option, table
from tidegate.cli.root import LazyGroup
from tidegate.errors import DigestMismatchError, PartUnavailableError, SettingError
from tidegate.ids import parse_model_name

Captured = pytest.CaptureFixture[str]

HEAVY = {"numpy", "onnx", "onnxruntime", "pydantic", "structlog", "asyncio", "rich", "msgspec"}
FOREIGN = {"fastapi", "starlette", "uvicorn", "granian", "ray", "pyarrow", "boto3"}


def fail_with(error: BaseException, *arguments: str) -> int:
    def invoke() -> object:
        raise error

    return catching(invoke, arguments)


def tidegate_process(
    *arguments: str, stdout: int | IO[bytes] = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("tidegate")), *arguments]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )


def test_help_lists_every_command_with_what_it_is_for(capsys: Captured) -> None:
    assert run(["--help"]) == ExitCode.OK
    text = capsys.readouterr().out
    for name in ("batch", "config", "model", "serve"):
        assert any(line.startswith(f"  {name} ") for line in text.splitlines())
    assert "not installed" not in text
    assert "tidegate model publish risk model.onnx --alias stable" in text


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from tidegate.cli import run; run(['--help']);"
        f"loaded = {HEAVY | FOREIGN!r} & set(sys.modules); assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_is_the_package_version(option: str, capsys: Captured) -> None:
    assert run([option]) == ExitCode.OK
    assert capsys.readouterr().out == f"tidegate {tidegate.__version__}\n"


def test_an_unknown_command_names_the_nearest(capsys: Captured) -> None:
    assert run(["sreve"]) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: No such command 'sreve'. Did you mean 'serve'?")
    assert captured.err.endswith("(code: usage)\n")


@pytest.mark.parametrize("arguments", [[], ["config"]])
def test_a_group_without_a_command_shows_its_help(arguments: list[str], capsys: Captured) -> None:
    assert run(arguments) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out.startswith("Usage: tidegate")
    assert captured.err == ""


def test_an_unknown_option_is_one_line_that_names_the_help(capsys: Captured) -> None:
    assert run(["config", "show", "--stores", "x"]) == ExitCode.USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert "--store" in line
    assert "'tidegate config show --help'" in line


def test_settings_are_shown_with_their_origins(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "prod.toml"
    file.write_text('store = "s3://models/prod"\n[models.risk]\nslo_ms = 50\n')
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", "/var/cache/tidegate")
    assert run(["config", "show", "--config", str(file), "--json"]) == ExitCode.OK
    answer = json.loads(capsys.readouterr().out)
    assert answer["settings"]["store"] == {"value": "s3://models/prod", "origin": str(file)}
    assert answer["settings"]["models.risk.slo_ms"] == {"value": 50.0, "origin": str(file)}
    assert answer["settings"]["models.risk.percentile"] == {"value": 0.99, "origin": "default"}
    assert answer["settings"]["cache_dir"] == {
        "value": "/var/cache/tidegate",
        "origin": "environment TIDEGATE_CACHE_DIR",
    }


def test_settings_are_shown_as_a_table_that_awk_can_read(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["config", "show", "--store", "here"]) == ExitCode.OK
    lines = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["setting", "value", "origin"]
    assert ["store", "here", "flag --store"] in lines
    assert ["serve.anonymous_predict", "false", "default"] in lines
    assert ["batch.workers", "-", "default"] in lines


def test_the_config_file_may_be_named_by_the_environment(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CONFIG", "absent.toml")
    assert run(["config", "show"]) == ExitCode.USAGE
    assert "absent.toml: there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "exit_code", "code"),
    [
        (SettingError("port 0"), ExitCode.USAGE, "setting_invalid"),
        (PartUnavailableError("no store"), ExitCode.FAILED, "part_unavailable"),
        (DigestMismatchError("changed"), ExitCode.FAILED, "digest_mismatch"),
        (click.UsageError("odd"), ExitCode.USAGE, "usage"),
        (FileNotFoundError(2, "No such file", "x.onnx"), ExitCode.FAILED, "file_unusable"),
        (OSError(28, "No space left on device"), ExitCode.FAILED, "file_unusable"),
        (KeyError("x"), ExitCode.BUG, "internal"),
        (ModuleNotFoundError("no", name="ray.tune"), ExitCode.USAGE, "extra_missing"),
        (ModuleNotFoundError("no", name="tidegate.nowhere"), ExitCode.BUG, "internal"),
        (ExceptionGroup("task", [SettingError("port 0")]), ExitCode.USAGE, "setting_invalid"),
    ],
)
def test_each_kind_of_error_has_its_line_exit_code_and_code(
    error: Exception, exit_code: ExitCode, code: str, capsys: Captured
) -> None:
    assert fail_with(error, "--json") == exit_code
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(f" (code: {code})")
    answer = json.loads(captured.out)
    assert answer == {"error": line[len("error: ") : -len(f" (code: {code})")], "code": code}


@pytest.mark.parametrize("typed", [["--json=answer.json"], ["--json", "answer.json", "--store=x"]])
def test_a_failure_replaces_the_answer_of_yesterday(
    typed: list[str], capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "answer.json"
    file.write_text('{"state": "succeeded"}')
    assert run(["batch", "status", "0" * 16, *typed]) == ExitCode.FAILED
    answer = json.loads(file.read_text())
    captured = capsys.readouterr()
    assert answer["code"] == "job_not_found"
    assert captured.err == f"error: {answer['error']} (code: job_not_found)\n"
    assert captured.out == ""


def test_an_argument_that_json_ate_is_not_written_over(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_text("a model")
    assert run(["model", "publish", "risk", "--json", "model.onnx"]) == ExitCode.USAGE
    assert (tmp_path / "model.onnx").read_text() == "a model"
    assert json.loads(capsys.readouterr().out)["code"] == "usage"


@pytest.mark.parametrize("argument", ["--json", "--json=/dev/full", "--json=absent/x"])
def test_an_answer_that_no_place_takes_is_one_line_on_stderr(argument: str) -> None:
    with open("/dev/full", "wb") as full:
        ended = tidegate_process("config", "show", argument, stdout=full)
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert "a bug" not in line
    assert ended.returncode in {ExitCode.FAILED, ExitCode.USAGE}


def test_a_full_stdout_is_named() -> None:
    with open("/dev/full", "wb") as full:
        ended = tidegate_process("config", "show", stdout=full)
    assert ended.stderr == (
        "error: No space left on device: standard output (code: file_unusable)\n"
    )


def test_a_file_whose_name_is_no_text_is_told_in_json_too(capsys: Captured) -> None:
    assert fail_with(FileNotFoundError(2, "No such file", "\udcff.onnx"), "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"] == r"No such file: \udcff.onnx"


def test_a_name_of_the_wrong_form_is_the_typists_mistake(capsys: Captured) -> None:
    assert catching(lambda: parse_model_name("../x"), []) == ExitCode.USAGE
    assert "'../x' is no model name" in capsys.readouterr().err


def test_a_missing_extra_names_what_to_install(capsys: Captured) -> None:
    fail_with(ModuleNotFoundError("no", name="pyarrow"))
    assert "pip install 'tidegate[batch]'" in capsys.readouterr().err


def test_a_bug_shows_where_it_happened_only_when_asked(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(KeyError("x"))
    line = capsys.readouterr().err
    assert "a bug in Tidegate: KeyError: 'x'" in line
    assert "TIDEGATE_TRACEBACK=1" in line
    assert "Traceback" not in line
    monkeypatch.setenv("TIDEGATE_TRACEBACK", "1")
    fail_with(KeyError("x"))
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_command_that_returns_an_exit_code_ends_with_it() -> None:
    assert catching(lambda: ExitCode.DEAD_LETTERS, []) == 3
    assert catching(lambda: "an answer", []) == 0


def test_ctrl_c_ends_with_130_and_without_a_stack_trace() -> None:
    script = (
        "import click, os, signal; from tidegate.cli.failures import catching\n"
        "command = click.Command('x', callback=lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "raise SystemExit(catching(lambda: command.main([], standalone_mode=False), []))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)  # noqa: PLW1510 - its exit code is the point
    assert ended.returncode == ExitCode.INTERRUPTED
    assert "Traceback" not in ended.stderr


def test_an_argument_eaten_by_json_is_explained(capsys: Captured) -> None:
    @click.command()
    @json_option
    @click.argument("name")
    def show(name: str, json_to: str | None) -> None:
        raise AssertionError(f"must not run: {name}, {json_to}")

    arguments = ["--json", "risk"]
    catching(lambda: show.main(arguments, "show", standalone_mode=False), arguments)
    assert "'risk' was taken for the file of --json: write --json last" in capsys.readouterr().err


def test_a_command_whose_package_is_missing_does_not_take_the_others_from_the_list(
    capsys: Captured,
) -> None:
    entry = EntryPoint("dive", "no_such_package_here.main:dive", "tidegate.commands")
    group = LazyGroup(name="tidegate", entries={"dive": entry})
    group.main(["--help"], "tidegate", standalone_mode=False)
    assert "dive  (not installed: no_such_package_here)" in capsys.readouterr().out


@pytest.mark.parametrize("json_to", [None, "-", "answer.json"])
def test_an_answer_is_text_or_json_or_both(
    json_to: str | None, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    emit({"rows": 3, "path": Path("a/b")}, json_to=json_to, text="3 rows")
    expected = {"rows": 3, "path": "a/b"}
    out = capsys.readouterr().out
    assert (out == "3 rows\n") == (json_to != "-")
    if json_to == "-":
        assert json.loads(out) == expected
    if json_to == "answer.json":
        assert json.loads((tmp_path / "answer.json").read_text()) == expected


def test_a_file_for_json_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"--json cannot write .*: Is a directory"):
        emit({}, json_to=str(tmp_path), text="")


def test_a_table_is_aligned_columns_where_nobody_looks() -> None:
    assert table(("model", "version"), [("risk", 1), ("fraud-scorer", 12)]) == (
        "model         version\nrisk          1\nfraud-scorer  12"
    )


def test_the_exit_code_of_a_real_process_is_the_commands() -> None:
    ended = tidegate_process("sreve")
    assert ended.returncode == ExitCode.USAGE
    assert ended.stderr.startswith("error: ")


def test_examples_are_kept_as_they_were_written(capsys: Captured) -> None:
    long = "tidegate " + "--store s3://bucket/prefix " * 5

    @click.command(epilog=examples("tidegate one", long.strip()))
    def command() -> None: ...

    command.main(["--help"], "x", standalone_mode=False)
    out = capsys.readouterr().out
    assert "Examples:\n" in out
    assert long.strip() in out
