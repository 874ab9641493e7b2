"""tritonclient.http, unmodified, against a gateway: ``triton_http.py HOST:PORT``."""

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import tritonclient.http as triton
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
ONLY_BINARY = {"BF16", "FP16"}


def values(datatype: str) -> Array:
    if datatype == "BYTES":
        return np.array([["é".encode(), b""], [b"a\nb", b"c"]], np.object_)
    return np.array([[0, 1], [1, 0]], DTYPES[datatype])


def tensor(name: str, datatype: str, array: Array, *, binary: bool = True) -> triton.InferInput:
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def as_bytes(value: str | bytes) -> bytes:
    """BYTES are str where they came as JSON, and bytes where they came as bytes."""
    return value if isinstance(value, bytes) else value.encode()


def look_around(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("scaled")
    assert client.is_model_ready("scaled", "2")
    assert not client.is_model_ready("none")
    server = client.get_server_metadata()
    assert server["name"] == "tidegate"
    assert "binary_tensor_data" in server["extensions"], server
    metadata = client.get_model_metadata("same-fp32")
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}]
    assert client.get_model_config("same-fp32")["input"][0]["data_type"] == "TYPE_FP32"
    client.infer("same-fp32", [tensor("x", "FP32", values("FP32"))])
    (statistics,) = client.get_inference_statistics("same-fp32")["model_stats"]
    assert statistics["inference_stats"]["success"]["count"] >= 1
    assert len(client.get_inference_statistics()["model_stats"]) > 5


def every_datatype(client: triton.InferenceServerClient) -> None:
    for datatype in DTYPES:
        for binary_in in [True] if datatype in ONLY_BINARY else [True, False]:
            for binary_out in [None, True] if datatype in ONLY_BINARY else [None, True, False]:
                there_and_back(client, datatype, binary_in=binary_in, binary_out=binary_out)


def there_and_back(
    client: triton.InferenceServerClient,
    datatype: str,
    *,
    binary_in: bool,
    binary_out: bool | None,
) -> None:
    """Send a tensor and get it back; without outputs the client asks for all of them as bytes."""
    sent = values(datatype)
    outputs = None
    if binary_out is not None:
        outputs = [triton.InferRequestedOutput("y", binary_data=binary_out)]
    inputs = [tensor("x", datatype, sent, binary=binary_in)]
    got = client.infer(f"same-{datatype.lower()}", inputs, outputs=outputs).as_numpy("y")
    assert got.shape == sent.shape, (datatype, got)
    if datatype == "BYTES":
        assert [as_bytes(value) for value in got.ravel()] == sent.ravel().tolist()
    else:
        assert got.dtype == sent.dtype, (datatype, got)
        assert (got == sent).all(), (datatype, binary_in, binary_out, got)


def options(client: triton.InferenceServerClient) -> None:
    row = [tensor("input", "FP32", np.array([[1, 10, 100]], np.float32))]
    for binary in (True, False):
        wanted = [triton.InferRequestedOutput("output", binary_data=binary, class_count=2)]
        top = client.infer("labelled", row, outputs=wanted).as_numpy("output")
        assert [as_bytes(v) for v in top.ravel()] == [b"100.0:2:high", b"10.0:1:middle"], top
    scaled = [tensor("input", "FP32", np.array([[1, 2]], np.float32))]
    for version, by in (("", 2), ("1", 2), ("2", 3), ("candidate", 3)):
        result = client.infer("scaled", scaled, model_version=version, request_id="mine")
        assert result.as_numpy("output").tolist() == [[by, 2 * by]]
        response = result.get_response()
        assert response["id"] == "mine"
        assert response["parameters"]["tidegate_digest"].startswith("sha256:")
    for wish in ({"timeout": 10_000_000}, {"priority": 1}, {"priority": 3, "timeout": 9_999_999}):
        client.infer("scaled", scaled, **wish)
    for algorithm in ("gzip", "deflate"):
        client.infer("scaled", scaled, request_compression_algorithm=algorithm)
        client.infer("scaled", scaled, response_compression_algorithm=algorithm)
    for request in [client.async_infer("scaled", scaled) for _ in range(8)]:
        assert request.get_result().as_numpy("output").tolist() == [[2, 4]]


def refused(call: Callable[[], object]) -> InferenceServerException:
    try:
        call()
    except InferenceServerException as error:
        return error
    raise AssertionError("it was not refused")


def refusals(client: triton.InferenceServerClient) -> None:
    scaled = [tensor("input", "FP32", np.array([[1, 2]], np.float32))]
    wrong = [tensor("input", "INT64", np.array([[1, 2]], np.int64))]
    for status, call in {
        "404": lambda: client.infer("none", scaled),
        "422": lambda: client.infer("scaled", wrong),
        "400": lambda: client.infer("scaled", scaled, sequence_id=1, sequence_start=True),
    }.items():
        error = refused(call)
        assert error.status() == status, error
        assert error.message().endswith("."), error
    too_short = refused(lambda: client.infer("scaled", scaled, timeout=1))
    assert "timeout is in microseconds" in too_short.message(), too_short


with triton.InferenceServerClient(sys.argv[1], concurrency=8) as http_client:
    look_around(http_client)
    every_datatype(http_client)
    options(http_client)
    refusals(http_client)
sys.stdout.write("ok\n")
