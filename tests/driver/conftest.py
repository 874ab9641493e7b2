import pytest

from tidegate.observability import configure_logging


@pytest.fixture(autouse=True)
def logging_as_a_service_starts_it() -> None:
    """Before there is a loop, as ``main`` does: the first line imports a lot, which blocks."""
    configure_logging(json=True)
