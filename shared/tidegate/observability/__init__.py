"""Logging: an event name and fields, pretty on a terminal and JSON lines elsewhere.

``log.info("batch_ended", model="fraud-scorer@7", rows=12, took_ms=8.4)``. Fields use the words of
the rest of the code and carry units. Payloads, credentials and header values are never logged.
"""

from tidegate.observability.logs import Logger, configure_logging, get_logger

__all__ = ["Logger", "configure_logging", "get_logger"]
