"""A command that asks a gateway, where something else answers; the key stays here."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidegate.cli import run
from tidegate.cli.operators import ask_gateway
from tidegate.errors import PartUnavailableError, TidegateError
from tidegate.keys.errors import ForbiddenError, UnauthenticatedError

SECRET = "s3cret-" * 6 + "x"
KEY = f"tg_0123456789ab_{SECRET}"


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Answer each connection with the same bytes; yield the address and what was heard."""
    heard: list[bytes] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            heard.append(self.request.recv(65_536))
            self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="peer")
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", heard
        finally:
            server.shutdown()
            thread.join()


def http(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
def test_a_key_does_not_follow_a_redirect(monkeypatch: pytest.MonkeyPatch, status: str) -> None:
    monkeypatch.setenv("TIDEGATE_KEY", KEY)
    with (
        answering(http("200 OK", b"{}")) as (elsewhere, heard),
        answering(http(status, b"", f"Location: {elsewhere}/x")) as (url, asked),
        pytest.raises(PartUnavailableError, match="a redirect, which is not followed"),
    ):
        ask_gateway(url, "/x", timeout_s=5)
    assert KEY.encode() in asked[0]
    assert heard == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (http("200 OK", b"<html>Welcome</html>"), "sends no JSON"),
        (http("200 OK", b"\xff\xfe"), "sends no JSON"),
        (http("200 OK", b"[1]"), "sends other JSON"),
        (b"220 mail.example ESMTP\r\n", "speaks no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "speaks no HTTP"),
        (b"HTTP/1.1 500 Bad\r\nContent-Length: 9\r\n\r\n{", "it answers 500"),
        (http("404 Not Found", b"<html>"), "it answers 404"),
        (b"", "no gateway answers"),
    ],
)
def test_what_is_no_gateway_is_said_to_be_none(answer: bytes, said: str) -> None:
    with (
        answering(answer) as (url, _),
        pytest.raises(PartUnavailableError, match=said),
    ):
        ask_gateway(url, "/x", timeout_s=5)


@pytest.mark.parametrize(
    "url",
    [
        *("http://[::1", "http://[x]/", "http://\u2100.example"),
        *("http://127.0.0.1:a", "http://127.0.0.1:80020", "127.0.0.1:8002", "http://", ""),
    ],
)
def test_what_is_no_address_is_a_mistake_of_who_typed_it(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    assert run(["explain", url, "risk"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {url!r} is no address of a gateway; write it as http://")
    assert told.endswith("(code: setting_invalid)\n")


@pytest.mark.parametrize("text", [SECRET, f"{KEY}\n", f" {KEY}", f'"{KEY}"', "tg_abc_é", KEY[:-1]])
def test_what_is_no_key_is_said_by_the_name_of_its_variable_and_not_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.setenv("TIDEGATE_KEY", text)
    with answering(http("200 OK", b"{}")) as (url, heard):
        assert run(["model", "load", "risk", "--url", url]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: TIDEGATE_KEY holds no key: ")
    assert told.endswith("unset it for a gateway without keys (code: setting_invalid)\n")
    assert SECRET not in told
    assert heard == []


@pytest.mark.parametrize(
    ("status", "refusal"),
    [("401 Unauthorized", UnauthenticatedError), ("403 Forbidden", ForbiddenError)],
)
@pytest.mark.parametrize(
    ("key", "said"),
    [
        (KEY, "refuses the key in TIDEGATE_KEY: Why. It wants scope admin; tidegate keys create"),
        ("", "asks for a key: set TIDEGATE_KEY to one of scope admin; tidegate keys create"),
    ],
)
def test_a_key_that_is_refused_or_missing_is_no_gateway_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: str,
    refusal: type[TidegateError],
    key: str,
    said: str,
) -> None:
    monkeypatch.setenv("TIDEGATE_KEY", key)
    body = json.dumps({"error": "Why.", "code": refusal.code}).encode()
    with answering(http(status, body)) as (url, _):
        assert run(["model", "load", "risk", "--url", url]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"error: {url} {said}")
    assert told.endswith(f"(code: {refusal.code})\n")
    assert SECRET not in told
