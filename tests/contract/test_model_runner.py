"""What every model runner promises; onnxruntime on the CPU is the first."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.fixtures import onnx_models
from tidegate.errors import ArtifactError, BackendError
from tidegate.inference.runner import ModelRunner


@pytest.fixture
def echo(tmp_path: Path) -> ModelRunner:
    return ModelRunner.load(onnx_models.echo(tmp_path / "echo.onnx"), threads=1)


def rows(*values: list[float]) -> dict[str, np.ndarray]:
    return {"input": np.array(values, np.float32)}


def test_the_signature_is_read_from_the_model(echo: ModelRunner) -> None:
    assert str(echo.signature) == "input FP32 [-1, 2] -> output FP32 [-1, 2]"


def test_each_row_gets_its_own_answer(echo: ModelRunner) -> None:
    assert echo.run(rows([1, 2], [3, 4]))["output"].tolist() == [[1, 2], [3, 4]]


def test_an_answer_is_not_a_view_of_the_input(echo: ModelRunner) -> None:
    batch = rows([1, 2])
    answer = echo.run(batch)["output"]
    batch["input"][:] = 0  # the caller may reuse its buffer once the call has returned
    assert answer.tolist() == [[1, 2]]


def test_threads_that_share_a_runner_get_their_own_rows(echo: ModelRunner) -> None:
    def score(caller: int) -> set[float]:
        return {float(echo.run(rows([caller, 0]))["output"][0, 0]) for _ in range(50)}

    with ThreadPoolExecutor(max_workers=8) as callers:
        assert list(callers.map(score, range(8))) == [{float(caller)} for caller in range(8)]


def test_a_model_that_raises_is_a_backend_error_and_the_runner_lives_on(tmp_path: Path) -> None:
    runner = ModelRunner.load(onnx_models.looks_up(tmp_path / "m.onnx", entries=4), threads=1)
    with pytest.raises(BackendError, match="2 rows"):
        runner.run({"input": np.array([1, 99], np.int64)})
    assert runner.run({"input": np.array([1, 2], np.int64)})["output"].tolist() == [1, 2]


def test_an_answer_with_another_number_of_rows_is_a_backend_error(tmp_path: Path) -> None:
    runner = ModelRunner.load(onnx_models.reshapes_to_one_row(tmp_path / "m.onnx"), threads=1)
    with pytest.raises(BackendError, match=r"'output' has shape \[1, 4\] for a batch of 2 rows"):
        runner.run(rows([1, 2], [3, 4]))


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x08"])
def test_a_file_that_is_no_model_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.onnx").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"bad\.onnx"):
        ModelRunner.load(tmp_path / "bad.onnx", threads=1)


@pytest.mark.field_fault("P-33")
@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname"])
def test_weights_outside_the_folder_are_never_read(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "version"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(np.ones(2, np.float32).tobytes())
    model = onnx_models.with_weights_at(folder / "m.onnx", location)
    with pytest.raises(ArtifactError, match=r"m\.onnx"):
        ModelRunner.load(model, threads=1)


def test_the_runtime_writes_and_reports_nothing_about_this_machine(tmp_path: Path) -> None:
    """onnxruntime keeps a device id and a queue of facts for its maker, if it is let."""
    model = onnx_models.echo(tmp_path / "m.onnx")
    script = (
        "import sys; from pathlib import Path; from tidegate.inference.runner import ModelRunner"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    environment.pop("ORT_DISABLE_TELEMETRY", None)  # set by this process when it imported us
    subprocess.run(
        [
            sys.executable,
            "-c",
            f"{script}; ModelRunner.load(Path(sys.argv[1]), threads=1)",
            model,
        ],
        env=environment,
        check=True,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_bf16_tensor_keeps_its_bits_beside_others(tmp_path: Path) -> None:
    bf16, fp32 = TensorProto.BFLOAT16, TensorProto.FLOAT
    file = onnx_models.save(
        tmp_path / "m.onnx",
        [
            helper.make_node("Identity", ["x"], ["same"]),
            helper.make_node("Cast", ["x"], ["wide"], to=fp32),
            helper.make_node("Identity", ["n"], ["number"]),
        ],
        [
            helper.make_tensor_value_info("x", bf16, ["rows", 2]),
            helper.make_tensor_value_info("n", TensorProto.INT64, ["rows"]),
        ],
        [
            helper.make_tensor_value_info("same", bf16, ["rows", 2]),
            helper.make_tensor_value_info("wide", fp32, ["rows", 2]),
            helper.make_tensor_value_info("number", TensorProto.INT64, ["rows"]),
        ],
    )
    x = np.array([[1.5, -2], [3.140625, np.inf]], ml_dtypes.bfloat16)
    inputs = {"x": x, "n": np.array([1, 2])}
    outputs = ModelRunner.load(file, threads=1).run(inputs)
    assert outputs["same"].tobytes() == x.tobytes()
    assert outputs["wide"].tolist() == [[1.5, -2], [3.140625, np.inf]]
    assert outputs["number"].tolist() == [1, 2]
