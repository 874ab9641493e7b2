"""A process that scores rows that may kill it: ``python -m tidegate_batch.main.isolated``."""

import sys

import msgspec

from tidegate.errors import TidegateError
from tidegate.inference.model import Model
from tidegate_batch.main.wiring import build_parts
from tidegate_batch.pipeline.isolation import own_pipes, serve
from tidegate_batch.pipeline.loading import load_model
from tidegate_batch.ports import WorkerSetup


def main() -> None:
    """Serve the worker at the other end of the pipes until it is gone."""
    try:
        serve(*own_pipes(), _load)
    except TidegateError as error:  # the worker is told by the pipe that closes
        sys.exit(str(error))


def _load(setup: bytes) -> Model:
    parts = build_parts(has_answered=True)  # the worker has loaded the same
    return load_model(msgspec.json.decode(setup, type=WorkerSetup), parts)


if __name__ == "__main__":
    main()
