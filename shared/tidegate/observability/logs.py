"""The logger of every package. structlog is imported when the first line is written, not before."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class Logger:
    """Writes events with fields. Cheap to make at import time, and safe from any thread."""

    def __init__(self, name: str, fields: dict[str, object] | None = None) -> None:
        self._fields = {"logger": name, **(fields or {})}
        self._bound: FilteringBoundLogger | None = None

    def bind(self, **fields: object) -> "Logger":
        """Return a logger that adds these fields to each event, such as ``job_id``."""
        return Logger(str(self._fields["logger"]), {**self._fields, **fields})

    def debug(self, event: str, **fields: object) -> None:
        """Report a detail; not shown unless the level is lowered."""
        self._structured().debug(event, **fields)

    def info(self, event: str, **fields: object) -> None:
        """Report a change of lifecycle: a model loaded, a job committed; never one per request."""
        self._structured().info(event, **fields)

    def warning(self, event: str, **fields: object) -> None:
        """Report that the product degraded, with what to change if it lasts."""
        self._structured().warning(event, **fields)

    def error(self, event: str, **fields: object) -> None:
        """Report what a person must act upon."""
        self._structured().error(event, **fields)

    def _structured(self) -> "FilteringBoundLogger":
        if self._bound is None:
            import structlog  # noqa: PLC0415 - takes longer than `tidegate --help` may

            if not structlog.is_configured():
                configure_logging()
            self._bound = structlog.get_logger().bind(**self._fields)
        return self._bound


def get_logger(name: str) -> Logger:
    """Make the logger of a module, named by its ``__name__``."""
    return Logger(name)


def configure_logging(*, json: bool | None = None) -> None:
    """Send the events of this process, and the warnings of its libraries, to stderr.

    Args:
        json: One JSON object per line, or lines for people; ``None`` asks whether stderr is a
            terminal.
    """
    from tidegate.observability.lines import configure  # noqa: PLC0415 - as above

    configure(json=json)
