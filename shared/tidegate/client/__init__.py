"""Asks a gateway for predictions: ``Client`` for threads, ``AsyncClient`` for an event loop.

::

    with Client("http://127.0.0.1:8000") as client:
        answer = client.predict("risk", columns={"age": [31, 52]}, deadline_ms=50)
        print(answer.predictions, answer.model_version)

``questions`` writes requests and ``answers`` reads replies; ``retrying`` decides whether another
try is worth it. All of that is pure. ``calling`` tries until a call has ended, ``http`` carries one
try over a pool of kept connections. Needs the extra ``client``; ``docs/client.md`` has the tour.
"""

from tidegate.client.answers import ModelMetadata, Prediction, TensorMetadata
from tidegate.client.clients import AsyncClient, Client
from tidegate.client.errors import (
    BadRequestError,
    ClientError,
    ConnectionFailedError,
    DeadlineExpiredError,
    NotFoundError,
    RejectedError,
    ServerFaultError,
    UnauthorizedError,
)

__all__ = [
    "AsyncClient",
    "BadRequestError",
    "Client",
    "ClientError",
    "ConnectionFailedError",
    "DeadlineExpiredError",
    "ModelMetadata",
    "NotFoundError",
    "Prediction",
    "RejectedError",
    "ServerFaultError",
    "TensorMetadata",
    "UnauthorizedError",
]
