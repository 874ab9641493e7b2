"""What every server must do with bad input: a refusal that explains, and nothing else."""

import gzip
import socket
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from select import select

import httpx
import orjson
import pytest

from tests.fixtures.bombs import bomb
from tests.fixtures.gateways import Gateway

ALLOWED = {200, 400, 404, 405, 413, 414, 415, 422, 431}
ROW = b'{"inputs":[{"name":"input","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}'
INFER = "/v2/models/echo/infer"
PREDICT = "/v1/models/table:predict"


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield client


def assert_explained(reply: httpx.Response) -> dict[str, object]:
    """A refusal is the one body, exactly JSON, without a trace or a path."""
    assert reply.headers["content-type"] == "application/json"
    content: dict[str, object] = reply.json()
    assert content.keys() >= {"error", "code", "request_id", "details"}
    assert isinstance(content["error"], str)
    for internal in ("Traceback", ".py", "/home", "/tmp", "site-packages", "onnxruntime"):
        assert internal not in reply.text
    return content


def bodies() -> list[bytes]:
    tensor = {"name": "input", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
    changes: list[dict[str, object]] = [
        {"shape": [2, 3]},
        {"shape": [-1, 3]},
        {"shape": [2**4, 2**60 + 2]},
        {"shape": [1] * 100},
        {"shape": []},
        {"shape": "1,3"},
        {"shape": [0, 3], "data": []},
        {"shape": [1, 2], "data": [1, 2]},
        {"datatype": "FP16"},
        {"datatype": "INT64"},
        {"datatype": "FP8"},
        {"datatype": None},
        {"name": "other"},
        {"name": "../../etc/passwd"},
        {"name": "x" * 100_000},
        {"data": ["1", 2, 3]},
        {"data": [None, 2, 3]},
        {"data": [[1, 2], [3]]},
        {"data": {"b64": "AAAA"}},
        {"data": [1e39, 2, 3]},
        {"parameters": {"shared_memory_region": "x", "shared_memory_byte_size": 12}},
        {"parameters": {"binary_data_size": 12}},
    ]
    tensors = [orjson.dumps({"inputs": [tensor | change]}) for change in changes]
    rows: list[object] = [
        [],
        [[]],
        [None],
        ["x"],
        [{}],
        [{"id": 1}],
        [{"id": "1", "a": 1}],
        [{"id": True, "a": 1}],
        [[1, 2]],
        [[1, 2, 3], {"id": 1}],
        [{"b64": "AAAA"}],
        [{"b64": 5}],
        {"id": 1},
        "x",
        [[[1, 2, 3]]],
        [{"id": 1e308, "a": 1}],
    ]
    instances = [orjson.dumps({"instances": value}) for value in rows]
    raw = [b"", b"{", b"null", b"[]", b"\xff", b"[" * 100_000, b"{" * 40, b'"' * 1000, b"NaN"]
    raw += [ROW.replace(b"[1,2,3]", b"[NaN,2,3]"), ROW + b"x", ROW[:-1], b"\x80\x04K\x01.", b"a=1"]
    return tensors + instances + raw


@pytest.mark.field_fault("P-09", "P-15", "P-18", "P-25")
def test_no_body_becomes_a_500_or_a_stack_trace(client: httpx.Client) -> None:
    for path in (INFER, PREDICT, "/v2/models/ids/infer", "/v1/models/ids:predict"):
        for body in bodies():
            reply = client.post(path, content=body)
            assert reply.status_code in {400, 413, 422}, (path, body[:80], reply.text)
            assert_explained(reply)


def test_a_refusal_names_input_expected_and_found(client: httpx.Client) -> None:
    wrong = ROW.replace(b"FP32", b"FP64")
    content = assert_explained(client.post(INFER, content=wrong))
    assert content["code"] == "signature_mismatch"
    assert content["details"] == {"input": "input", "expected": "FP32", "found": "FP64"}


def test_a_model_that_raises_is_a_500_that_keeps_its_reason(
    client: httpx.Client, gateway: Gateway
) -> None:
    tensor = {"name": "input", "shape": [1], "datatype": "INT64", "data": [99]}
    reply = client.post("/v2/models/lookup/infer", json={"inputs": [tensor]})
    assert reply.status_code == 500
    assert assert_explained(reply)["code"] == "model_failed"
    assert "batch_failed" in gateway.log.read_text()
    again = client.post("/v2/models/lookup/infer", json={"inputs": [tensor | {"data": [3]}]})
    assert again.json()["outputs"][0]["data"] == [3.0]


def send_raw(gateway: Gateway, request: bytes, *, half_close: bool = False) -> bytes:
    """Send bytes and return everything that comes until the connection is closed."""
    with gateway.connect() as connection:
        try:
            connection.sendall(request)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except OSError:  # the server has answered and closed before it took everything
            pass
        return received(connection)


def received(connection: socket.socket) -> bytes:
    answer = b""
    try:
        while part := connection.recv(65_536):
            answer += part
    except ConnectionResetError:
        pass
    return answer


def request(method: str, target: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.mark.field_fault("P-13", "P-19", "P-20")
@pytest.mark.parametrize(
    "path",
    [
        "/v2/",
        "//v2",
        "/V2",
        "/v2//models/echo",
        "/v2/models/echo/",
        "/v2/./models/echo",
        "/v2/models/../models/echo",
        "/v2/models/%2e%2e/models/echo",
        "/v2/models/..%5c..%5cetc/infer",
        "/v2/models/echo%00",
        "/v2/models/ECHO",
        "/v2/models/%252e%252e",
        "/v2/models/e%2563ho",
        "/v2/models/echo%ff",
        "/v2/models/echo/versions/1.2",
        "/v2/models/echo/versions/0",
        "/v2/models/echo/versions/-1",
        "/v2/models/echo/versions/01",
        "/v2/models/echo/versions/9223372036854775808",
        "/v2/models/echo/versions/7",
        "/v2/models/none",
        "/v2/systemsharedmemory/status",
        "/v2/logging",
        "/v2/repository/index",
        "/metrics",
        "/docs",
        "/",
        "*",
    ],
)
def test_no_other_spelling_of_a_path_is_served(gateway: Gateway, path: str) -> None:
    assert status_of(send_raw(gateway, request("GET", path))) == 404


def test_a_segment_may_be_percent_encoded_once(gateway: Gateway) -> None:
    assert status_of(send_raw(gateway, request("GET", "/v2/models/%65cho?any=query"))) == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
def test_another_method_is_told_the_right_one(gateway: Gateway, method: str) -> None:
    answer = send_raw(gateway, request(method, INFER))
    if method == "BREW" and status_of(answer) == 400:  # llhttp knows all methods, and not this one
        return
    assert status_of(answer) == 405
    assert b"\r\nallow: post\r\n" in answer.lower()


@pytest.mark.field_fault("P-16")
def test_a_body_that_is_too_long_is_refused_before_it_is_sent(gateway: Gateway) -> None:
    head = request("POST", INFER, f"Content-Length: {(64 << 20) + 1}", "Expect: 100-continue")
    answer = send_raw(gateway, head)
    assert status_of(answer) == 413
    assert b'"limit":67108864' in answer


@pytest.mark.field_fault("P-16")
def test_a_chunked_body_is_counted_as_it_comes(gateway: Gateway) -> None:
    chunk = b"100000\r\n" + b"1" * (1 << 20) + b"\r\n"
    head = request("POST", INFER, "Transfer-Encoding: chunked")
    answer = send_raw(gateway, head + chunk * 65)
    assert status_of(answer) in {413, 0}  # 0: reset, because we went on sending
    assert status_of(send_raw(gateway, request("GET", "/v2/health/live"))) == 200


def test_a_chunked_body_is_read(gateway: Gateway) -> None:
    chunks = b"".join(b"1\r\n" + bytes([byte]) + b"\r\n" for byte in ROW) + b"0\r\n\r\n"
    answer = send_raw(gateway, request("POST", INFER, "Transfer-Encoding: chunked", body=chunks))
    assert status_of(answer) == 200


@pytest.mark.field_fault("P-14")
def test_very_many_tiny_chunks_are_answered_or_refused(gateway: Gateway) -> None:
    chunks = b"1\r\n \r\n" * 200_000 + b"0\r\n\r\n"
    with ThreadPoolExecutor() as senders:
        head = request("POST", INFER, "Transfer-Encoding: chunked")
        answer = senders.submit(send_raw, gateway, head + chunks)
        assert status_of(send_raw(gateway, request("GET", "/v2/health/live"))) == 200
        assert status_of(answer.result()) == 400


@pytest.mark.parametrize("path", ["/v2", "/nowhere", "/v2/models/none/infer"])
def test_a_refusal_before_the_body_has_come_keeps_the_connection(
    gateway: Gateway, path: str
) -> None:
    head = b"PUT %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" % path.encode()
    health = request("GET", "/v2/health/live")
    with gateway.connect() as connection:
        connection.sendall(head)
        select([connection], [], [], 0.05)  # the reply may come now, or once the body is there
        connection.sendall(b"x" * 1_000 + health)
        answers = received(connection)
    assert [int(answer[:3]) for answer in answers.split(b"HTTP/1.1 ")[1:]][-1] == 200
    assert answers.count(b"HTTP/1.1 40") == 1


@pytest.mark.parametrize(
    "head",
    [
        ("Content-Length: 10", "Content-Length: 11"),
        ("Content-Length: -1",),
        ("Content-Length: 1e3",),
        ("Content-Length: 99999999999999999999999999",),
        ("Transfer-Encoding: gzip",),
    ],
)
@pytest.mark.field_fault("P-37")
def test_a_length_that_can_be_read_in_two_ways_is_refused(
    gateway: Gateway, head: tuple[str, ...]
) -> None:
    answer = send_raw(gateway, request("POST", INFER, *head, body=b"0123456789"))
    assert status_of(answer) in {400, 413}


@pytest.mark.field_fault("P-37")
def test_two_kinds_of_length_end_the_connection(gateway: Gateway) -> None:
    """RFC 9112 6.3: refuse it, or take the chunks; what follows is no request in any case."""
    body = b"%x\r\n%s\r\n0\r\n\r\nGET /v2 HTTP/1.1\r\nHost: a\r\n\r\n" % (len(ROW), ROW)
    head = request("POST", INFER, "Content-Length: 4", "Transfer-Encoding: chunked")
    answer = send_raw(gateway, head.replace(b"Connection: close\r\n", b"") + body)
    assert status_of(answer) in {200, 400}
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS, where none is spoken
        b"hello\r\n\r\n",
        b"GET /v2 HTTP/3.9\r\nHost: a\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
    ],
)
def test_what_is_no_http_is_400_and_the_end_and_what_the_page_says_of_its_body_is_true(
    gateway: Gateway, sent: bytes
) -> None:
    head, _, body = send_raw(gateway, sent).partition(b"\r\n\r\n")
    assert status_of(head) == 400
    assert b"connection: close" in head.lower()
    if "uvicorn" in gateway.process.args:  # type: ignore[operator] # a list, as we gave it
        assert orjson.loads(body)["code"] == "malformed_request"
    else:
        assert body == b""


@pytest.mark.parametrize("half_close", [True, False])
def test_a_body_that_ends_early_is_not_executed(gateway: Gateway, *, half_close: bool) -> None:
    batches = gateway.metric("tidegate_batches_total", model="echo")
    cancelled = gateway.metric("tidegate_arrivals_total", model="echo")
    head = request("POST", INFER, f"Content-Length: {len(ROW)}", body=ROW[:-5])
    if half_close:
        assert status_of(send_raw(gateway, head, half_close=True)) in {0, 400}
    else:
        with gateway.connect() as connection:
            connection.sendall(head)
    gateway.wait_for(cancelled + 1, "tidegate_arrivals_total", model="echo")
    gateway.wait_for(0, "tidegate_in_flight_requests", model="echo")
    assert gateway.metric("tidegate_batches_total", model="echo") == batches


@pytest.mark.parametrize(
    "headers",
    [[f"X-Large: {'a' * 200_000}"], [f"X-{n}: {n}" for n in range(150)]],
)
def test_headers_have_a_limit(gateway: Gateway, headers: list[str]) -> None:
    assert status_of(send_raw(gateway, request("GET", "/v2", *headers))) in {431, 0}
    assert status_of(send_raw(gateway, request("GET", "/v2", "X-Fine: " + "a" * 8_000))) == 200


@pytest.mark.parametrize("name", ["Authorization", "Tidegate-Deadline-Ms", "X-Request-Id"])
def test_a_header_that_stands_for_one_value_is_taken_once(gateway: Gateway, name: str) -> None:
    """One server hears the first of two, another one the last."""
    answer = send_raw(gateway, request("GET", "/v2", f"{name}: 1", f"{name.lower()}: 2"))
    assert status_of(answer) == 400
    assert b'"code":"malformed_request"' in answer
    assert name.lower().encode() in answer


def test_uvicorn_learns_how_large_headers_may_be(gateway: Gateway) -> None:
    """What comes in one piece is counted too; granian has a limit of its own."""
    answer = send_raw(gateway, request("GET", "/v2", "X-Large: " + "a" * 20_000))
    if "uvicorn" in gateway.process.args:  # type: ignore[operator] # a list, as we gave it
        assert status_of(answer) == 431
        assert b'"code":"headers_too_large"' in answer
    else:
        assert status_of(answer) == 200


def test_a_path_has_a_limit(gateway: Gateway) -> None:
    assert status_of(send_raw(gateway, request("GET", "/" + "a" * 9_000))) == 414


@pytest.mark.field_fault("P-40")
def test_who_does_not_finish_a_header_is_cut_off_and_nobody_else_suffers(gateway: Gateway) -> None:
    with ThreadPoolExecutor(max_workers=3) as callers:
        silent, half, other = gateway.connect(), gateway.connect(), gateway.connect()
        half.sendall(b"GET /v2 HTTP/1.1\r\nHost: loc")
        other.sendall(request("GET", "/v2/health/live"))
        assert status_of(received(other)) == 200
        answers = list(callers.map(received, (silent, half)))  # returns when they are closed
    for connection in (silent, half, other):
        connection.close()
    assert [status_of(answer) for answer in answers] in ([0, 0], [0, 408], [408, 408])


def test_a_compressed_body_is_undone_by_its_name(client: httpx.Client) -> None:
    for encoding, body, status in (
        ("gzip", gzip.compress(ROW), 200),
        ("GZIP", gzip.compress(ROW), 200),
        ("deflate", zlib.compress(ROW), 200),
        ("identity", ROW, 200),
        ("gzip", ROW, 400),
        ("gzip", gzip.compress(ROW)[:-4], 400),
        ("br", ROW, 415),
        ("gzip, gzip", gzip.compress(gzip.compress(ROW)), 415),
    ):
        reply = client.post(INFER, content=body, headers={"content-encoding": encoding})
        assert reply.status_code == status, (encoding, reply.text)
        assert ("accept-encoding" in reply.headers) == (status == 415)


@pytest.mark.field_fault("P-41")
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_is_refused_and_fills_no_memory(gateway: Gateway, encoding: str) -> None:
    body = bomb(encoding, mebibytes=1_024)
    before_kib = gateway.resident_kib()
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        for _ in range(3):
            reply = client.post(INFER, content=body, headers={"content-encoding": encoding})
            assert (reply.status_code, reply.json()["code"]) == (413, "body_too_large")
    assert gateway.resident_kib() - before_kib < 200 << 10


@pytest.mark.field_fault("P-34", "P-35")
def test_ranges_and_forms_are_nothing_special(client: httpx.Client) -> None:
    ranged = client.get("/v2", headers={"range": "bytes=" + "0-1," * 1_000})
    assert ranged.status_code == 200
    form = client.post(INFER, files={"file": b"x"})
    assert assert_explained(form)["code"] == "malformed_json"
