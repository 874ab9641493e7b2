"""What every server must do with bytes in bodies, Triton's look-ups, and what is broken."""

import json
import struct
from collections.abc import Iterator
from random import Random

import httpx
import pytest

from tests.fixtures.gateways import Gateway

INFER = "/v2/models/echo/infer"
HEADER = "inference-header-content-length"
DOCUMENTED = {200, 400, 404, 408, 413, 415, 422}
"""What a body can bring about; 500 and above are never the caller's doing."""


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


def binary_body(values: list[float], **outside: object) -> tuple[bytes, bytes]:
    tensor = {
        "name": "input",
        "shape": [len(values) // 3, 3],
        "datatype": "FP32",
        "parameters": {"binary_data_size": 4 * len(values)},
    }
    return json.dumps({"inputs": [tensor], **outside}).encode(), struct.pack(
        f"<{len(values)}f", *values
    )


def test_bytes_go_in_and_come_out(client: httpx.Client) -> None:
    asked = {"parameters": {"binary_data_output": True}}
    text, blob = binary_body([1, 2, 3, 4, 5, 6], **asked)
    reply = client.post(INFER, content=text + blob, headers={HEADER: str(len(text))})
    assert reply.headers["content-type"] == "application/octet-stream"
    length = int(reply.headers[HEADER])
    described = json.loads(reply.content[:length])
    assert described["outputs"][0]["parameters"] == {"binary_data_size": 24}
    assert reply.content[length:] == blob
    assert reply.headers["x-tidegate-digest"] == described["parameters"]["tidegate_digest"]
    raw = client.post(INFER, content=blob[:12], headers={HEADER: "0"})
    assert raw.content[int(raw.headers[HEADER]) :] == blob[:12]


@pytest.mark.field_fault("P-42")
def test_a_header_that_comes_twice_is_refused_even_if_both_agree(client: httpx.Client) -> None:
    text, blob = binary_body([1, 2, 3])
    for second in (len(text), len(text) + 1):
        twice = [(HEADER, str(len(text))), (HEADER, str(second))]
        reply = client.post(INFER, content=text + blob, headers=twice)
        assert (reply.status_code, reply.json()["code"]) == (400, "binary_layout")


@pytest.mark.field_fault("P-42")
@pytest.mark.parametrize("said", ["99999999999", "-1", "0x1", "", "1e2", "9" * 400])
def test_a_header_out_of_range_is_refused(client: httpx.Client, said: str) -> None:
    text, blob = binary_body([1, 2, 3])
    reply = client.post(INFER, content=text + blob, headers={HEADER: said})
    assert (reply.status_code, reply.json()["code"]) == (400, "binary_layout")


@pytest.mark.field_fault("P-10")
def test_each_extension_that_is_named_answers(client: httpx.Client) -> None:
    named = client.get("/v2").json()["extensions"]
    assert named == [
        "binary_tensor_data",
        "classification",
        "model_configuration",
        "parameters",
        "schedule_policy",
        "statistics",
    ]
    text, blob = binary_body([3, 1, 2], parameters={"timeout": 20_000_000, "priority": 1})
    outputs = [{"name": "output", "parameters": {"classification": 2}}]
    text = json.dumps({**json.loads(text), "outputs": outputs}).encode()
    reply = client.post(INFER, content=text + blob, headers={HEADER: str(len(text))})
    assert reply.json()["outputs"][0]["data"] == ["3.0:0", "2.0:2"]
    for at in ("", "/versions/1", "/versions/stable"):
        config = client.get(f"/v2/models/echo{at}/config").json()
        assert (config["name"], config["input"][0]["dims"]) == ("echo", [3])
        (statistics,) = client.get(f"/v2/models/echo{at}/stats").json()["model_stats"]
        assert statistics["inference_stats"]["success"]["count"] >= 1
    metadata = client.get("/v2/models/echo").json()
    assert metadata["inputs"][0]["shape"] == [-1, *config["input"][0]["dims"]]
    for path in ("config", "stats"):
        assert client.get(f"/v2/models/none/{path}").status_code == 404
        refused = client.post(f"/v2/models/echo/{path}")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_statistics_and_metrics_tell_the_same(client: httpx.Client, gateway: Gateway) -> None:
    client.post(INFER, content=b"{")
    statistics = {
        each["name"]: each for each in client.get("/v2/models/stats").json()["model_stats"]
    }["echo"]
    counted = statistics["inference_stats"]
    for name, stage in (
        ("compute_input", "decode"),
        ("queue", "queue"),
        ("compute_infer", "execute"),
        ("compute_output", "encode"),
    ):
        spent_s = gateway.metric("tidegate_stage_seconds_total", model="echo", stage=stage)
        assert counted[name]["ns"] == pytest.approx(spent_s * 1e9)
    answered = gateway.metric("tidegate_requests_total", model="echo", outcome="answered")
    every = gateway.metric("tidegate_requests_total", model="echo")
    assert counted["success"]["count"] == answered
    assert counted["fail"]["count"] == every - answered
    calls = gateway.metric("tidegate_execution_seconds_count", model="echo")
    assert statistics["execution_count"] == calls
    assert statistics["inference_count"] == gateway.metric("tidegate_batch_rows_sum", model="echo")


def broken(random: Random, text: bytes, blob: bytes) -> tuple[bytes, str | None]:
    """Break a sound request: cut it, flip bytes, repeat a piece, or say another length."""
    body = bytearray(text + blob)
    for _ in range(random.randint(0, 3)):
        place = random.randrange(len(body) + 1)
        match random.randrange(4):
            case 0:
                del body[place : place + random.randint(1, 20)]
            case 1:
                body[place:place] = random.randbytes(random.randint(1, 8))
            case 2:
                body[place:place] = body[max(0, place - 12) : place]
            case _:
                body[place : place + 1] = random.choice([b"-", b"9", b"[", b"}", b'"', b"\0", b""])
    length = random.choice([len(text), len(text), len(body), 0, len(text) - 1, len(body) + 1])
    return bytes(body), random.choice([str(length), None, "x"])


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_broken_in_a_body_is_the_callers_and_has_the_one_error(
    client: httpx.Client, seed: int
) -> None:
    random = Random(seed)
    text, blob = binary_body([1, 2, 3], outputs=[{"name": "output", "parameters": {}}], id="a")
    for _ in range(150):
        body, said = broken(random, text, blob)
        headers = {} if said is None else {HEADER: said}
        reply = client.post(INFER, content=body, headers=headers)
        assert reply.status_code in DOCUMENTED, (seed, body, said, reply.text)
        if reply.status_code != 200:
            assert reply.headers["content-type"] == "application/json"
            assert reply.json().keys() == {"error", "code", "request_id", "details"}
            assert len(reply.json()["error"]) < 1_000
