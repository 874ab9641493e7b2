"""One run of ``h2load``, which speaks HTTP/2 and so gRPC: a closed loop, one stream a connection.

It sees statuses of HTTP alone. Those of gRPC stand in trailers, so that one real call before a run
and one after it must succeed.
"""

import subprocess
from typing import Final

import grpc
import numpy as np

from tidegate_loadtest.peers.load import LoadError, Measured, find
from tidegate_loadtest.peers.servers import Running
from tidegate_loadtest.peers.work import Form
from tidegate_loadtest.proof.gateway import HOST

_METHOD: Final = "/inference.GRPCInferenceService/ModelInfer"
_GRACE_S: Final = 60
_CALL_WITHIN_S: Final = 20
_OK: Final = 200
_BROKEN: Final = -1
_US_PER_S: Final = 1_000_000


def drive(found: Running, *, connections: int, seconds: int) -> Measured:
    """Call one method again and again over each connection, and measure.

    Raises:
        LoadError: A call does not succeed, or h2load measured nothing.
    """
    message = found.request(Form.GRPC).body
    body = found.folder / "grpc.body"
    log = found.folder / f"grpc-{connections}.log"
    body.write_bytes(b"\0" + len(message).to_bytes(4, "big") + message)
    command = [
        *(find("h2load"), "--threads", "1", "--clients", str(connections)),
        *("--max-concurrent-streams", "1", "--duration", str(seconds)),
        *("--header", "content-type: application/grpc"),
        *("--header", "te: trailers"),  # codespell:ignore te
        *("--data", str(body), "--log-file", str(log)),
        f"http://{HOST}:{found.ports.grpc}{_METHOD}",
    ]
    call(found, message)
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + _GRACE_S, check=False
    )
    call(found, message)
    if not log.exists():
        raise LoadError(
            f"h2load measured nothing. It said: {(ended.stdout + ended.stderr)[-1_000:]}"
        )
    return read(log.read_text(), seconds=seconds)


def read(log: str, *, seconds: int) -> Measured:
    """Read lines of start, status and duration, in microseconds.

    Raises:
        LoadError: There are none.
    """
    if not log.strip():
        raise LoadError("h2load has logged no request: nothing was answered")
    _, statuses, took_us = np.loadtxt(log.splitlines(), np.int64, ndmin=2, unpack=True)
    p50_us, p99_us = np.percentile(took_us, [50, 99])
    broken = int((statuses == _BROKEN).sum())
    return Measured(
        requests=len(statuses) - broken,
        took_us=seconds * _US_PER_S,
        p50_us=float(p50_us),
        p99_us=float(p99_us),
        refused=int((statuses != _OK).sum()) - broken,
        broken=broken,
    )


def call(found: Running, message: bytes) -> bytes:
    """Call once, as a client does; the bytes of the reply.

    Raises:
        LoadError: The status is not OK.
    """
    with grpc.insecure_channel(f"{HOST}:{found.ports.grpc}") as channel:
        try:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_METHOD)
            return method(message, timeout=_CALL_WITHIN_S)
        except grpc.RpcError as error:
            raise LoadError(f"its gRPC does not answer: {error}") from error
