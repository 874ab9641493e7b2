"""A URL is told of a job's end: signed, again if nobody listened, and once."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tests.fixtures.batch_jobs import Place, drive, new_place, parts_with
from tidegate.cli import run
from tidegate.errors import SettingError
from tidegate_batch.core.names import job_id_of_token
from tidegate_batch.core.wishes import Wishes
from tidegate_batch.main.notifying import post
from tidegate_batch.pipeline.cancelling import cancel
from tidegate_batch.pipeline.notifying import (
    SIGNATURE_HEADER,
    check_notify_url,
    notify_of_end,
    sign,
)
from tidegate_batch.pipeline.record import JobRecord
from tidegate_batch.pipeline.submission import submit

SECRET = b"a secret of two"
URL = "https://example.com/hook"


@dataclass
class Listener:
    """Answers as it is told, in turn; the last answer stays."""

    answers: list[int | OSError] = field(default_factory=lambda: [200])
    heard: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)

    def __call__(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        self.heard.append((url, body, headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return new_place(tmp_path, 20)


@pytest.fixture
def record(place: Place) -> JobRecord:
    asked = place.submission(wishes=Wishes(notify=URL))
    return submit(asked, store_url=place.store, parts=parts_with())


def test_the_end_of_a_job_is_told_once_with_a_signature_that_can_be_checked(
    record: JobRecord, tmp_path: Path
) -> None:
    listener, parts = Listener(), parts_with()
    notify_of_end(record, parts, post=listener, secret=SECRET)
    assert listener.heard == [], "it has not ended"
    drive(record, parts, tmp_path / "cache")
    for _ in range(2):
        notify_of_end(record, parts, post=listener, secret=SECRET)
    ((url, body, headers),) = listener.heard
    assert url == URL
    told = json.loads(body)
    assert (told["job"], told["state"], told["rows"]) == (record.job, "published", 20)
    at, _, signature = headers[SIGNATURE_HEADER].partition(",v1=")
    signed = at.removeprefix("t=").encode() + b"." + body
    assert signature == hmac.new(SECRET, signed, hashlib.sha256).hexdigest()


def test_a_job_that_ends_again_is_told_again(record: JobRecord, tmp_path: Path) -> None:
    listener, parts = Listener(), parts_with()
    cancel(record, parts, by="a test")
    notify_of_end(record, parts, post=listener, secret=SECRET)
    drive(record, parts, tmp_path / "cache")
    notify_of_end(record, parts, post=listener, secret=SECRET)
    assert [json.loads(body)["state"] for _, body, _ in listener.heard] == [
        "cancelled",
        "published",
    ]


def test_who_does_not_answer_is_asked_again_later_and_later(record: JobRecord) -> None:
    listener = Listener([OSError("refused"), 503, 200])
    parts = parts_with()
    cancel(record, parts, by="a test")
    began_ns = parts.clock.now_ns()
    notify_of_end(record, parts, post=listener, secret=SECRET)
    assert len(listener.heard) == 3
    assert parts.clock.now_ns() - began_ns == 3_000_000_000


@pytest.mark.parametrize("answer", [500, 302, OSError("refused")])
def test_who_never_listens_fails_no_job_and_is_told_by_the_next_resume(
    record: JobRecord, answer: int | OSError
) -> None:
    deaf, parts = Listener([answer]), parts_with()
    cancel(record, parts, by="a test")
    notify_of_end(record, parts, post=deaf, secret=SECRET)
    assert len(deaf.heard) == 5
    listener = Listener()
    notify_of_end(record, parts, post=listener, secret=SECRET)
    assert len(listener.heard) == 1


@pytest.mark.parametrize("secret", [None, b""])
def test_without_a_secret_nobody_is_told(record: JobRecord, secret: bytes | None) -> None:
    listener, parts = Listener(), parts_with()
    cancel(record, parts, by="a test")
    notify_of_end(record, parts, post=listener, secret=secret)
    assert listener.heard == []


def test_the_signature_is_that_of_the_documented_example() -> None:
    assert sign(b"{}", secret=b"secret", at_s=1_700_000_000) == (
        "t=1700000000,v1=" + hmac.new(b"secret", b"1700000000.{}", hashlib.sha256).hexdigest()
    )


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com",
        "example.com/hook",
        "https://",
        "https://me:secret@example.com",
        "http://[",
        "http://example.com/ü",
        "http://example.com/a b",
        "http://example.com:65536/",
        "http://example.com:port/",
        "http://example..com/",
        f"http://{'a' * 64}.example.com/",
    ],
)
def test_a_url_that_cannot_be_told_is_an_error(url: str) -> None:
    with pytest.raises(SettingError):
        check_notify_url(url)


class Hook(BaseHTTPRequestHandler):
    """Takes a message, or sends its sender elsewhere."""

    heard: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.heard.append(f"{self.path} {self.headers[SIGNATURE_HEADER]}")
        self.send_response(302 if self.path == "/moved" else 204)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def do_GET(self) -> None:
        self.heard.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture
def hook() -> Iterator[str]:
    Hook.heard.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_message_goes_where_it_was_sent_and_nowhere_else(hook: str) -> None:
    assert post(f"{hook}/hook", b"{}", {SIGNATURE_HEADER: "t=1,v1=2"}) == 204
    assert post(f"{hook}/moved", b"{}", {SIGNATURE_HEADER: "t=1,v1=2"}) == 302
    assert Hook.heard == ["/hook t=1,v1=2", "/moved t=1,v1=2"]


def test_nobody_at_home_is_an_os_error(hook: str) -> None:
    with pytest.raises(OSError, match="refused"):
        post("http://127.0.0.1:9", b"{}", {})


@pytest.mark.parametrize("url", ["http://h/ü", f"http://{'a' * 64}/", "http://[", "hook"])
def test_where_nothing_can_be_sent_is_an_os_error_too(url: str) -> None:
    with pytest.raises(OSError, match="Error"):
        post(url, b"{}", {})


def test_the_log_names_a_host_and_not_the_rest_which_may_be_secret(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = place.submission(wishes=Wishes(notify="https://chat.example.com:8443/T0/hush?k=hush"))
    parts = parts_with()
    record = submit(asked, store_url=place.store, parts=parts)
    cancel(record, parts, by="a test")
    notify_of_end(record, parts, post=Listener([500]), secret=SECRET)
    told = capsys.readouterr().err
    assert "https://chat.example.com" in told
    assert "hush" not in told


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_the_end_of_a_job_is_told_by_whoever_ended_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: str, *, is_cancelled: bool
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TIDEGATE_WEBHOOK_SECRET", "hush-hush")
    asked = ["batch", "submit", "--model", "double@stable", "--input", place.input]
    asked += ["--output", place.output, "--store", place.store, "--notify", f"{hook}/hook"]
    asked += ["--client-token", "nightly"]
    if is_cancelled:
        assert run([*asked, "--queue"]) == 0
        job = job_id_of_token("nightly")
        assert run(["batch", "cancel", job, "--store", place.store]) == 0
    else:
        assert run([*asked, "--engine", "local", "--workers", "1", "--wait"]) == 0
    assert len(Hook.heard) == 1
    assert Hook.heard[0].startswith("/hook t=")


def test_a_secret_that_cannot_be_read_fails_no_job(
    record: JobRecord,
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "mine.toml").write_text('[batch]\nwebhook_secret_file = "gone"\n')
    options = ["--store", place.store, "--config", str(tmp_path / "mine.toml")]
    assert run(["batch", "resume", record.job, *options, "--engine", "local", "--wait"]) == 0
    assert "not_notified" in capsys.readouterr().err


def test_the_secret_stands_in_no_record(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE_DIR", str(tmp_path / "cache"))
    asked = ["batch", "submit", "--model", "double@stable", "--input", place.input, "--queue"]
    asked += ["--output", place.output, "--store", place.store, "--notify", URL]
    assert run(asked) == 2
    assert "needs a secret" in capsys.readouterr().err
    monkeypatch.setenv("TIDEGATE_WEBHOOK_SECRET", "hush-hush")
    assert run(asked) == 0
    files = [file for file in Path(place.store).rglob("*") if file.is_file()]
    assert not any(b"hush-hush" in file.read_bytes() for file in files)
