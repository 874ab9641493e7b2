"""What a server of models must never do, since others did; each case under every server."""

import json
import pickle
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from select import select
from time import perf_counter

import httpx
import pytest

from tests.fixtures.gateways import Gateway

INFER = "/v2/models/echo/infer"
PREDICT = "/v1/models/echo:predict"
Body = dict[str, object]
TENSOR: Body = {"name": "input", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
KINDS = [
    "application/vnd.bentoml+pickle",
    "application/octet-stream",
    "application/x-pickle",
    "application/python-pickle",
    "application/pickle",
    "application/x-python-serialize",
    "application/dill",
    "application/joblib",
    "application/x-torch",
    "application/x-npy",
    "application/x-npz",
    "application/x-msgpack",
    "application/x-protobuf",
    "application/x-yaml",
    "text/yaml",
    "application/json; payload=pickle",
    "application/vnd.apache.arrow.stream",
    "multipart/form-data; boundary=x",
    "text/plain",
    "*/*",
]


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, timeout=60) as client:
        yield client


@pytest.mark.field_fault("P-25", "P-29", "P-31", "P-32")
@pytest.mark.parametrize("kind", KINDS)
def test_no_header_makes_it_run_what_a_body_says(client: httpx.Client, kind: str) -> None:
    bodies = [
        pickle.dumps([1, 2, 3]),
        pickle.dumps({"instances": [[1, 2, 3]]}, protocol=0),
        b"!!python/object/apply:os.system ['true']",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'}",
    ]
    for path in (INFER, PREDICT):
        for body in bodies:
            chosen = {"content-type": kind, "payload-container": "pickle", "accept": kind}
            reply = client.post(path, content=body, headers=chosen)
            assert (reply.status_code, reply.json()["code"]) == (400, "malformed_json")


@pytest.mark.field_fault("P-28")
def test_no_address_in_a_request_is_ever_called(client: httpx.Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/model.onnx"
        named: list[Body] = [
            {"name": url},
            {"datatype": url},
            {"data": [url] * 3},
            {"parameters": {"url": url}},
        ]
        bodies: list[Body] = [{"inputs": [TENSOR | change]} for change in named]
        bodies += [
            {"inputs": [TENSOR], "id": url},
            {"inputs": [TENSOR], "outputs": [{"name": url}]},
            {"inputs": [TENSOR], "parameters": {"model_url": url, "callback": url}},
            {"instances": [url]},
            {"instances": [{"b64": url}]},
            {"instances": [{"url": url}]},
        ]
        headers = {"referer": url, "x-forwarded-host": url, "x-callback": url, "location": url}
        for body in bodies:
            for path in (INFER, PREDICT):
                client.post(path, json=body, headers=headers, params={"url": url})
        assert select([listener], [], [], 0.2)[0] == []


@pytest.mark.field_fault("P-15", "P-21")
@pytest.mark.parametrize("listener", ["public", "admin"])
def test_there_is_no_shared_memory_and_no_setting_of_logs_or_traces(
    gateway: Gateway, listener: str
) -> None:
    url = gateway.url if listener == "public" else gateway.admin_url
    kind = {"content-type": "application/json"}
    for path in (
        "/v2/systemsharedmemory/status",
        "/v2/systemsharedmemory/region/x/register",
        "/v2/cudasharedmemory/status",
        "/v2/cudasharedmemory/region/x/register",
        "/v2/logging",
        "/v2/trace/setting",
        "/v2/models/echo/trace/setting",
        "/v2/models/echo/generate",
    ):
        for method in ("GET", "POST"):
            reply = httpx.request(method, url + path, headers=kind)
            assert reply.status_code == 404, (method, path)


@pytest.mark.field_fault("P-17", "P-18")
def test_nothing_is_allocated_by_a_number_of_the_request(
    gateway: Gateway, client: httpx.Client
) -> None:
    shapes: list[list[int]] = [
        [2**4, 2**60 + 2],
        [2**2, 2**60 + 2],
        [2**31, 2**31],
        [2**62, 4],
        [-1, 3],
        [1, -3],
        [2**63],
        [2**200],
        [1] * 1_000_000,
    ]
    bodies: list[Body] = [{"inputs": [TENSOR | {"shape": shape}]} for shape in shapes]
    bodies += [
        {"inputs": [TENSOR], "outputs": [{"name": f"o{n}"} for n in range(100_000)]},
        {"inputs": [TENSOR], "outputs": [{"name": "output"}] * 2},
        {"inputs": [TENSOR | {"name": f"i{n}"} for n in range(10_000)]},
    ]
    raw = [json.dumps(body).encode() for body in bodies]  # orjson knows no 2**200
    for _ in range(2):  # once, so that the second time shows what remains
        before_kib = gateway.resident_kib()
        for body in raw:
            reply = client.post(INFER, content=body)
            assert reply.status_code in {400, 413}, (body[:120], reply.text)
    assert gateway.resident_kib() - before_kib < 16 << 10


@pytest.mark.field_fault("P-38")
@pytest.mark.parametrize("piece", [b"[", b'{"a":', b'[{"inputs":'])
def test_depth_costs_neither_stack_nor_memory(
    gateway: Gateway, client: httpx.Client, piece: bytes
) -> None:
    for depth in (33, 1_000_000):
        before_kib = gateway.resident_kib()
        for path in (INFER, PREDICT):
            reply = client.post(path, content=piece * depth)
            assert (reply.status_code, reply.json()["code"]) == (400, "malformed_json")
    assert gateway.resident_kib() - before_kib < 64 << 10
    assert "1" in client.get("/v2").json()["version"]


@pytest.mark.field_fault("P-14")
def test_500_000_chunks_cost_little_memory_and_hold_nobody_up(gateway: Gateway) -> None:
    head = f"POST {INFER} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    body = b"6\r\n 1234,\r\n" * 500_000 + b"0\r\n\r\n"
    before_kib = gateway.resident_kib()

    def upload() -> bytes:
        with gateway.connect() as connection, suppress(ConnectionError):
            connection.sendall(head + body)
            return connection.recv(65_536)
        return b""

    took_s = []
    with ThreadPoolExecutor() as senders, httpx.Client(base_url=gateway.url) as other:
        answer = senders.submit(upload)
        while not answer.done():
            began_s = perf_counter()
            assert other.get("/v2/health/live").status_code == 200
            took_s.append(perf_counter() - began_s)
    status = answer.result()[9:12]
    assert status in {b"400", b""}  # the latter: it went on sending, and was cut off
    assert sorted(took_s)[len(took_s) // 2] < 0.1
    assert gateway.resident_kib() - before_kib < 64 << 10


def test_requests_in_one_packet_are_answered_in_their_order(gateway: Gateway) -> None:
    def request(path: str, body: bytes) -> bytes:
        length = f"Content-Length: {len(body)}"
        return f"POST {path} HTTP/1.1\r\nHost: a\r\n{length}\r\n\r\n".encode() + body

    rows = [b'{"instances":[[%d,0,0]]}' % number for number in range(20)]
    packet = b"".join(
        request(PREDICT, body) + request("/nowhere", b"{}") + request(PREDICT, b"{")
        for body in rows
    )
    answers = b""
    with gateway.connect() as connection:
        connection.sendall(packet)
        while answers.count(b"HTTP/1.1 ") < 60 or not answers.endswith(b"}"):
            answers += connection.recv(1 << 20)
    statuses = [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"404", b"400"] * 20
    places = [answers.index(b'"predictions":[[%d.0,0.0,0.0]]' % number) for number in range(20)]
    assert places == sorted(places)


@pytest.mark.parametrize("form", ["announced", "chunked"])
def test_a_long_body_that_ends_early_is_not_executed(gateway: Gateway, form: str) -> None:
    """Long enough to be read in pieces, of which the last one is missing.

    Where a length was announced it alone tells; chunks that end early look whole to granian.
    """
    body = b'{"instances":[[1,2,3]]' + (b"" if form == "chunked" else b"}")
    size = 3 << 20
    arrivals = gateway.metric("tidegate_arrivals_total", model="echo")
    batches = gateway.metric("tidegate_batches_total", model="echo")
    framing = "Transfer-Encoding: chunked" if form == "chunked" else f"Content-Length: {size}"
    start = f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n".encode()
    start += f"{size:x}\r\n".encode() if form == "chunked" else b""
    with gateway.connect() as connection:
        connection.sendall(start + body + b" " * (1 << 20))
    gateway.wait_for(arrivals + 1, "tidegate_arrivals_total", model="echo")
    gateway.wait_for(0, "tidegate_in_flight_requests", model="echo")
    assert gateway.metric("tidegate_batches_total", model="echo") == batches
