"""The messages between a driver and its workers, as bytes."""

import os

import msgspec

from tidegate.errors import PartUnavailableError, TidegateError
from tidegate_batch.ports import (
    Assignment,
    BuildScorer,
    ChunkScorer,
    Ready,
    Refused,
    WorkerMessage,
    WorkerSetup,
)


class WorkerSide:
    """Answers a driver's messages; an engine only carries them."""

    def __init__(self, build: BuildScorer) -> None:
        self._build = build
        self._scorer: ChunkScorer | None = None

    def set_up(self, setup: bytes) -> bytes:
        """Load everything, and answer ``Ready`` or ``Refused``.

        Raises:
            PartUnavailableError: The store, say; another start may have more luck.
        """
        try:
            self._scorer = self._build(msgspec.json.decode(setup, type=WorkerSetup))
        except PartUnavailableError:
            raise
        except TidegateError as error:
            return encode(Refused(code=error.code, message=str(error)))
        return encode(Ready(pid=os.getpid()))

    def score(self, assignment: bytes) -> bytes:
        """Score a chunk, and answer ``Committed`` or ``Failed``."""
        assert self._scorer is not None, "no chunk is assigned to a worker that is not ready"
        return encode(self._scorer.score(msgspec.json.decode(assignment, type=Assignment)))


def encode(message: msgspec.Struct) -> bytes:
    """Write a message as one line, without its end."""
    return msgspec.json.encode(message)


def decode(line: bytes) -> WorkerMessage:
    """Read what a worker said."""
    return msgspec.json.decode(line, type=WorkerMessage)
