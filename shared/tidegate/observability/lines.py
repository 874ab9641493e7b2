"""How an event becomes a line on stderr; stdout belongs to the answers of commands."""

import logging
import sys
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor

LONGEST_TEXT: Final = 500
"""Characters of one field: enough for a sentence and a path, too little to flood a disk."""


def configure(*, json: bool | None) -> None:
    """Configure structlog, and route the standard library's logging into it."""
    as_json = not sys.stderr.isatty() if json is None else json
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _bounded,
        structlog.processors.JSONRenderer(default=str)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=_Stderr,
    )
    root = logging.getLogger()
    root.handlers = [_FromLibraries(level=logging.WARNING)]
    root.setLevel(logging.WARNING)


class _Stderr:
    """Writes to whatever stderr is by then, one write per line, so that threads do not mix."""

    def __init__(self, *_: object) -> None: ...

    def msg(self, line: str) -> None:
        """Write one line."""
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    debug = info = warning = error = critical = log = msg


def _bounded(_: Any, __: str, event: EventDict) -> EventDict:  # noqa: ANN401 - structlog's signature
    """Keep a field short, whoever wrote the text in it; both renderers keep it on its line."""
    for name, value in event.items():
        if isinstance(value, str) and name != "exception":
            event[name] = value[:LONGEST_TEXT]
    return event


class _FromLibraries(logging.Handler):
    """Writes what uvicorn, granian, Ray and others log, in the form of our own events."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger().bind(logger=record.name)
        text = record.getMessage()
        write = log.error if record.levelno >= logging.ERROR else log.warning
        write("library_message", text=text, exc_info=record.exc_info)
