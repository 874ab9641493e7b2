"""What ``tidegate serve`` refuses, in one sentence and before anything listens."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.fixtures import onnx_models
from tests.fixtures.gateways import command, free_port, publish_models
from tidegate.artifacts.store import ArtifactStore
from tidegate.cli import run
from tidegate.clock.system import SystemClock
from tidegate.errors import BackendError, SettingError
from tidegate.ids import Alias, ModelName
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, publish
from tidegate_realtime.api.servers.granian import check_loop
from tidegate_realtime.main.gateway import tell


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish_models(tmp_path_factory.mktemp("start"))


def serve(store: Path, *arguments: str, ports: bool = True) -> int:
    given = ["--port", str(free_port()), "--admin-port", str(free_port())] if ports else []
    return run(["serve", "--store", str(store), "--grpc-port", "0", *given, *arguments])


@pytest.mark.parametrize(
    ("arguments", "exit_code", "hint"),
    [
        (["--model", "nothing"], 1, "no model 'nothing'"),
        (["--model", "echo@9"], 1, "echo@9 is not in"),
        (["--model", "echo@candidate"], 1, "echo@candidate is not in"),
        (["--model", "ECHO"], 2, "'ECHO' is no model name"),
        (["--model", "../echo"], 2, "is no model name"),
        (["--model", "echo@1.2"], 2, "is no version"),
        (["--host", "0.0.0.0"], 2, "--anonymous-predict"),
        (["--host", "::"], 2, "--anonymous-predict"),
        (["--host", "example.com"], 2, "is no address"),
        (["--host", "203.0.113.9", "--anonymous-predict"], 2, "cannot listen on 203.0.113.9"),
        (["--slo-ms", "0"], 2, "0"),
        (["--slo-ms", "nan", "--model", "echo"], 2, "nan"),
        (["--server", "gunicorn"], 2, "gunicorn"),
        (["--backend", "triton"], 2, "expected onnxruntime, or emulated:PROFILE"),
        (["--backend", "emulated:"], 2, "expected onnxruntime, or emulated:PROFILE"),
        (["--backend", "emulated:v100-resnet5"], 2, "Did you mean 'v100-resnet50'?"),
        (["--config", "missing.toml"], 2, "missing.toml"),
    ],
)
def test_what_cannot_be_served_is_refused_in_one_sentence(
    store: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    exit_code: int,
    hint: str,
) -> None:
    assert serve(store, *arguments) == exit_code
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert hint in last


def test_more_threads_than_cores_are_refused_before_they_stand_in_each_others_way(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_SERVE__THREADS", "9999")
    assert serve(store) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: serve.threads = 9999, and this process may use ")


@pytest.mark.field_fault("S-13", "S-19")
def test_an_objective_that_one_row_misses_is_one_sentence_at_the_start(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    emulated = ["--model", "echo", "--backend", "emulated:linear:1:60"]
    assert serve(store, *emulated, "--slo-ms", "50") == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.fullmatch(
        r"error: echo@1: one row takes 6\d(\.\d+)? ms at p99, the objective is 50 ms; raise "
        r"slo_ms, use a faster variant, or set best_effort = true \(code: setting_invalid\)",
        last,
    )


def test_memory_for_less_than_the_smallest_batch_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be found only when the cap is derived, by a batcher that cannot say so."""
    file = onnx_models.echo_fixed_rows(tmp_path / "fixed.onnx", rows=4)
    objects = LocalObjectStore(tmp_path / "store")
    candidate = Candidate(name=ModelName("fixed"), file=file, alias=Alias("stable"))
    publish(ArtifactStore(objects), candidate, clock=SystemClock())
    config = tmp_path / "tidegate.toml"
    config.write_text("[models.fixed]\nmemory_rows = 3\n")
    assert serve(tmp_path / "store", "--config", str(config)) == 2
    assert "memory_rows = 3, and its smallest batch has 4 rows" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_a_port_that_is_none_is_refused(
    store: Path, capsys: pytest.CaptureFixture[str], port: str
) -> None:
    assert serve(store, "--port", port, "--admin-port", "8002", ports=False) == 2
    assert "serve.port" in capsys.readouterr().err


def test_one_port_cannot_have_both_listeners(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(free_port())
    assert serve(store, "--port", port, "--admin-port", port, ports=False) == 2
    assert "both" in capsys.readouterr().err


def test_a_model_that_is_not_loaded_in_time_ends_the_start_with_the_setting(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "tidegate.toml"
    config.write_text('[serve]\nload_limit_ms = 1\nmodels = ["echo"]\n')  # less than any load takes
    assert serve(store, "--config", str(config)) == 1
    told = capsys.readouterr().err
    assert "echo@1 has not been loaded within 0.001 s. Raise serve.load_limit_ms" in told
    assert "(code: model_failed)" in told


def test_what_ended_a_start_is_told_where_the_process_must_be_left_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert tell(BackendError("it hangs")) == 1
    assert tell(SettingError("it cannot be meant")) == 2
    assert capsys.readouterr().err == (
        "error: it hangs (code: model_failed)\nerror: it cannot be meant (code: setting_invalid)\n"
    )


def test_an_empty_store_says_how_to_publish(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(tmp_path) == 1
    assert "tidegate model publish" in capsys.readouterr().err


@pytest.mark.parametrize("server", ["granian", "uvicorn"])
def test_a_changed_byte_stops_the_start_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], server: str
) -> None:
    store = publish_models(tmp_path)
    file = store / "models/echo/1/model.onnx"
    file.chmod(0o644)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert serve(store, "--model", "echo", "--server", server) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert "model.onnx is not the file that was published" in last
    assert "(code: digest_mismatch)" in last


def test_granian_is_not_run_at_half_its_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    check_loop()
    monkeypatch.setitem(sys.modules, "uvloop", None)
    with pytest.raises(SettingError, match="uvloop"):
        check_loop()


def test_a_stop_during_the_warm_up_does_not_wait_for_its_end(store: Path) -> None:
    admin_port = free_port()
    slow = ["--model", "echo", "--backend", "emulated:linear:5:300", "--slo-ms", "5000"]
    with subprocess.Popen(
        command(store, free_port(), admin_port, *slow),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as gateway:
        try:
            while "warming" not in states(admin_port):
                assert gateway.poll() is None
            gateway.send_signal(signal.SIGTERM)
            announced, logged = gateway.communicate(timeout=60)
        finally:
            gateway.kill()
    assert (gateway.returncode, announced) == (0, "")
    assert "model_ready" not in logged


def states(admin_port: int) -> str:
    """Return what the operator is told of the models; nothing while nobody listens."""
    try:
        return httpx.get(f"http://127.0.0.1:{admin_port}/admin/v1/models").text.lower()
    except httpx.TransportError:
        return ""
