"""tritonclient.grpc, unmodified, against a gateway: ``triton_grpc.py HOST:PORT``."""

import queue
import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

Array = np.ndarray[Any, Any]
DTYPES = {
    "BF16": ml_dtypes.bfloat16,
    "BOOL": np.bool_,
    "BYTES": np.object_,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "INT64": np.int64,
    "UINT8": np.uint8,
}
ROW = np.array([[1, 2]], np.float32)


def values(datatype: str) -> Array:
    if datatype == "BYTES":
        return np.array([["é".encode(), b""], [b"a\nb", b"c"]], np.object_)
    return np.array([[0, 1], [1, 0]], DTYPES[datatype])


def tensor(name: str, datatype: str, array: Array) -> triton.InferInput:
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def look_around(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("scaled")
    assert client.is_model_ready("scaled", "2")
    assert client.get_server_metadata().name == "tidegate"
    metadata = client.get_model_metadata("same-fp32")
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [
        ("x", "FP32", [-1, -1])
    ]
    assert client.get_model_metadata("scaled", as_json=True)["versions"] == ["1", "2"]
    config = client.get_model_config("same-fp32").config
    assert config.input[0].name == "x"
    assert config.max_batch_size > 0
    client.infer("same-fp32", [tensor("x", "FP32", values("FP32"))])
    (statistics,) = client.get_inference_statistics("same-fp32").model_stats
    assert statistics.inference_stats.success.count >= 1
    assert len(client.get_inference_statistics().model_stats) > 5


def every_datatype(client: triton.InferenceServerClient) -> None:
    for datatype in DTYPES:
        sent = values(datatype)
        for outputs in (None, [triton.InferRequestedOutput("y")]):
            inputs = [tensor("x", datatype, sent)]
            got = client.infer(f"same-{datatype.lower()}", inputs, outputs=outputs).as_numpy("y")
            assert got.shape == sent.shape, (datatype, got)
            assert (got == sent).all(), (datatype, got)


def options(client: triton.InferenceServerClient) -> None:
    three = [tensor("input", "FP32", np.array([[1, 10, 100]], np.float32))]
    wanted = [triton.InferRequestedOutput("output", class_count=2)]
    top = client.infer("labelled", three, outputs=wanted).as_numpy("output")
    assert top.ravel().tolist() == [b"100.0:2:high", b"10.0:1:middle"], top
    scaled = [tensor("input", "FP32", ROW)]
    for version, by in (("", 2), ("1", 2), ("2", 3), ("candidate", 3)):
        result = client.infer("scaled", scaled, model_version=version, request_id="mine")
        assert result.as_numpy("output").tolist() == [[by, 2 * by]]
        response = result.get_response()
        assert response.id == "mine"
        assert response.model_version == str(by - 1)
        digest = response.parameters["tidegate_digest"].string_param
        assert digest.startswith("sha256:"), digest
    for wish in (
        {"timeout": 10_000_000},
        {"priority": 1},
        {"priority": 3, "timeout": 9_999_999},
        {"client_timeout": 20},
        {"headers": {"tidegate-deadline-ms": "9000", "x-request-id": "r-1"}},
        {"compression_algorithm": "gzip"},
        {"parameters": {"colour": "blue"}},
    ):
        result = client.infer("scaled", scaled, **wish)
        assert result.as_numpy("output").tolist() == [[2, 4]]


def callbacks(client: triton.InferenceServerClient) -> None:
    answers: queue.Queue[tuple[int, triton.InferResult, object]] = queue.Queue()
    for value in range(50):
        row = np.array([[value, 0]], np.float32)
        client.async_infer(
            "scaled",
            [tensor("input", "FP32", row)],
            callback=lambda result, error, value=value: answers.put((value, result, error)),
        )
    for _ in range(50):
        value, result, error = answers.get(timeout=20)
        assert error is None, error
        assert result.as_numpy("output").tolist() == [[2 * value, 0]]


def refused(call: Callable[[], object]) -> InferenceServerException:
    try:
        call()
    except InferenceServerException as error:
        return error
    raise AssertionError("it was not refused")


def refusals(client: triton.InferenceServerClient) -> None:
    scaled = [tensor("input", "FP32", ROW)]
    wrong = [tensor("input", "INT64", np.array([[1, 2]], np.int64))]
    soon = {"tidegate-deadline-ms": "soon"}
    for status, said, call in (
        ("NOT_FOUND", "not served", lambda: client.infer("none", scaled)),
        ("NOT_FOUND", "[1, 2]", lambda: client.infer("scaled", scaled, model_version="9")),
        ("NOT_FOUND", "not served", lambda: client.is_model_ready("none")),
        ("INVALID_ARGUMENT", "expected FP32", lambda: client.infer("scaled", wrong)),
        (
            "INVALID_ARGUMENT",
            "'sequence_",
            lambda: client.infer("scaled", scaled, sequence_id=1, sequence_start=True),
        ),
        ("INVALID_ARGUMENT", "microseconds", lambda: client.infer("scaled", scaled, timeout=1)),
        (
            "INVALID_ARGUMENT",
            "Tidegate-Deadline-Ms",
            lambda: client.infer("scaled", scaled, headers=soon),
        ),
        ("UNIMPLEMENTED", "", client.get_model_repository_index),
        ("UNIMPLEMENTED", "", lambda: client.load_model("scaled")),
        ("UNIMPLEMENTED", "", client.get_system_shared_memory_status),
    ):
        error = refused(call)
        assert error.status() == f"StatusCode.{status}", error
        assert said in error.message(), error


with triton.InferenceServerClient(sys.argv[1]) as grpc_client:
    look_around(grpc_client)
    every_datatype(grpc_client)
    options(grpc_client)
    callbacks(grpc_client)
    refusals(grpc_client)
sys.stdout.write("ok\n")
