import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from tidegate.observability import configure_logging, get_logger

log = get_logger("tests")


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def test_an_event_is_one_json_line_on_stderr_with_its_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging()
    log.bind(job_id="j1").info("chunk_committed", rows=12, took_ms=8.4)
    (line,) = lines(capsys)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "event": "chunk_committed",
        "level": "info",
        "logger": "tests",
        "job_id": "j1",
        "rows": 12,
        "took_ms": 8.4,
    }


def test_without_configuration_nothing_is_written_to_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    get_logger("fresh").warning("model_slow", model="risk@7")
    assert [line["event"] for line in lines(capsys)] == ["model_slow"]


def test_a_line_for_people_names_event_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=False)
    log.error("store_unreachable", store="s3://models")
    text = capsys.readouterr().err
    assert "store_unreachable" in text
    assert "store=s3://models" in text


def test_details_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=True)
    log.debug("queue_looked_at")
    assert lines(capsys) == []


def test_text_of_a_stranger_stays_on_its_line_and_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(json=False)
    log.warning("request_odd", text="x\nlevel=error forged\x1b[2J" + "y" * 5000)
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "\x1b[2J" not in text
    assert len(text) < 1000


def test_libraries_are_heard_from_warning_on(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(json=True)
    library = logging.getLogger("uvicorn.error")
    library.info("started")
    library.warning("odd %s", "thing")
    try:
        int("broken")
    except ValueError:
        library.exception("failed")
    odd, failed = lines(capsys)
    assert (odd["event"], odd["level"]) == ("library_message", "warning")
    assert (odd["logger"], odd["text"]) == ("uvicorn.error", "odd thing")
    assert failed["level"] == "error"
    assert "ValueError: invalid literal" in str(failed["exception"])


def test_a_logger_costs_nothing_until_it_writes() -> None:
    script = (
        "import sys; from tidegate.observability import get_logger; get_logger('x').bind(a=1);"
        "assert not {'structlog', 'logging', 'asyncio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
