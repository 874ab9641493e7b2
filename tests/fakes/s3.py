"""An S3 server on loopback that answers from a script: errors that no real one gives on demand."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One reply; with a ``code`` its body is S3's error document."""

    status: int = 200
    code: str = ""
    body: bytes = b""
    cut_after: int | None = None
    """Send only so many bytes of the body, then close the connection."""


@dataclass(slots=True)
class ScriptedS3:
    """Gives each request the next answer, and 200 when the script is at its end."""

    answers: list[Answer]
    endpoint: str = ""
    requests: list[str] = field(default_factory=list)
    """As ``"PUT /bucket/key"``."""


@contextmanager
def scripted_s3(*answers: Answer) -> Iterator[ScriptedS3]:
    """Serve the script until the end of the block."""
    script = ScriptedS3(list(answers))

    class Handler(_Handler):
        played = script

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    played: ScriptedS3
    protocol_version = "HTTP/1.1"  # which knows "Expect: 100-continue"; botocore waits 1 s for it

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.played.requests.append(f"{self.command} {self.path}")
        self._send(self.played.answers.pop(0) if self.played.answers else Answer())

    def _send(self, answer: Answer) -> None:
        body = answer.body
        if answer.code:
            body = f"<Error><Code>{answer.code}</Code><Message>no</Message></Error>".encode()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"scripted"')
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: answer.cut_after])
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: pytest shows what matters."""
