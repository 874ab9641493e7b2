"""One call as its handler sees it: what it says of itself, and how it is refused."""

import asyncio
from typing import Any, Final, TypeAlias, TypeVar

import grpc
import orjson
from google.protobuf.message import DecodeError, Message

from tidegate.ids import InvalidIdError, parse_alias, parse_model_name, parse_version
from tidegate.oip.errors import MalformedRequestError
from tidegate.units import NS_PER_SECOND, Nanoseconds, ns_to_ms
from tidegate_realtime.api.error_map import GRPC_BY_STATUS
from tidegate_realtime.api.errors import (
    ModelNotServedError,
    UploadTooSlowError,
    VersionNotServedError,
)
from tidegate_realtime.api.guards import check_single
from tidegate_realtime.api.replies import Problem
from tidegate_realtime.api.wishes import DEADLINE_HEADER, Deadline, header_deadline

_M = TypeVar("_M", bound=Message)
Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]

AUTHORIZATION: Final = "authorization"
REQUEST_ID: Final = "x-request-id"
_SENTENCE_CHARACTERS: Final = 400
_DETAILS_BYTES: Final = 2_000
"""Both may repeat names that a caller made up, and a client takes 8 KiB of metadata; it would see a
failure of the library instead of a longer refusal."""


class Call:
    """What came besides the message."""

    __slots__ = ("_context", "_left_s", "_metadata", "_names", "began_at_ns")

    def __init__(self, context: Context, *, began_at_ns: Nanoseconds) -> None:
        metadata = tuple(context.invocation_metadata() or ())
        self._context = context
        self._left_s = context.time_remaining()
        self._metadata = dict(metadata)
        self._names = [name for name, _ in metadata]
        self.began_at_ns = began_at_ns
        """When its metadata had been read."""

    def check_metadata(self) -> None:
        """Refuse what could be read in two ways.

        Raises:
            MalformedRequestError: A header that stands for one value is there twice.
        """
        if len(self._names) > len(self._metadata):
            check_single(self._names.count)

    async def read(self, limit_s: float) -> bytes:
        """Take the message, of which the library keeps no more than a window before.

        Raises:
            UploadTooSlowError: It was not whole in time.
            MalformedRequestError: There is none.
        """
        try:
            async with asyncio.timeout(limit_s):
                raw = await self._context.read()
        except TimeoutError:
            raise UploadTooSlowError(
                f"The message did not arrive within {limit_s:.0f} s; send it faster, or less of it."
            ) from None
        if not isinstance(raw, bytes):  # grpc.aio.EOF
            raise MalformedRequestError("The call has no message.")
        return raw

    def header(self, name: str) -> str | None:
        """Return what would be a header over HTTP, by its lower-case name.

        ``authorization``, ``tidegate-deadline-ms``, ``x-request-id`` and so on; no name of these
        three is there twice, see ``check_metadata``.
        """
        value = self._metadata.get(name)
        return value if isinstance(value, str) else None

    def deadline(self) -> Deadline | None:
        """Return the shorter of the call's own deadline and that of its metadata.

        Raises:
            BadOptionError: The metadata's cannot be meant.
        """
        named = header_deadline(self.header(DEADLINE_HEADER))
        if self._left_s is None:
            return named
        left_ns = Nanoseconds(int(self._left_s * NS_PER_SECOND))
        own = Deadline(left_ns, f"The call's deadline leaves {ns_to_ms(left_ns):.3g} ms")
        return own if named is None else min(own, named)

    async def announce(self, headers: tuple[tuple[str, str], ...], *, request_id: str) -> None:
        """Say in the initial metadata who answers."""
        await self._context.send_initial_metadata((*headers, (REQUEST_ID, request_id)))

    def refuse(self, problem: Problem, *, request_id: str) -> bytes:
        """Say how the call ends, and return what its handler is to return then.

        The sentence is the details of its status, trailing metadata is for programs. Not by
        ``abort``: the library keeps the exception that it raises, and with it the handler's frame
        and the whole message, until the collector comes.
        """
        details = dict(problem.details)
        trailing: list[tuple[str, str | bytes]] = [
            ("tidegate-code", problem.code),
            (REQUEST_ID, request_id),
        ]
        if problem.retry_after_ms is not None:
            details["retry_after_ms"] = after_ms = round(problem.retry_after_ms)
            trailing.append(("grpc-retry-pushback-ms", str(after_ms)))
        written = orjson.dumps(details)
        if len(written) <= _DETAILS_BYTES:
            trailing.append(("tidegate-details-bin", written))
        name = GRPC_BY_STATUS.get(problem.status, "INTERNAL")
        self._context.set_code(grpc.StatusCode[name])
        self._context.set_details(problem.message[:_SENTENCE_CHARACTERS])
        self._context.set_trailing_metadata(tuple(trailing))
        return b""


def parse(raw: bytes, kind: type[_M]) -> _M:
    """Read a message.

    Raises:
        MalformedRequestError: The bytes are none of this kind.
    """
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise MalformedRequestError(
            f"The message is no {kind.DESCRIPTOR.name}: its bytes cannot be read as one."
        ) from error


def check_names(model: str, version: str) -> str | None:
    """Accept what may be a model and a version, and return the version; ``None`` for none.

    Over HTTP the path has been matched before; here anything may come.

    Raises:
        ModelNotServedError: No model can have this name.
        VersionNotServedError: It is neither a version nor an alias.
    """
    try:
        parse_model_name(model)
    except InvalidIdError as error:
        raise ModelNotServedError(str(error)) from error
    if not version:
        return None
    check = parse_alias if version[0].isalpha() else parse_version
    try:
        check(version)
    except InvalidIdError as error:
        raise VersionNotServedError(str(error)) from error
    return version
