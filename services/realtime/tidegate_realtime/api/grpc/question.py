"""``ModelInfer`` as a question: what one message asks, and the message that answers it."""

from collections.abc import Callable
from typing import Final

from tidegate.inference.arrays import Tensors
from tidegate.keys.access import Access, Principal
from tidegate.oip.protobuf.request import decode_message
from tidegate.oip.protobuf.response import encode_message
from tidegate.oip.protobuf.scanning import Glance, check_message, glance
from tidegate.oip.protobuf.v2_pb2 import ModelInferRequest
from tidegate.units import Nanoseconds
from tidegate_realtime.api.asked_outputs import named_outputs
from tidegate_realtime.api.bodies import HeldBodies
from tidegate_realtime.api.forms import Asked, asked_of
from tidegate_realtime.api.grpc.calls import AUTHORIZATION, REQUEST_ID, Call, check_names, parse
from tidegate_realtime.api.routing import Action
from tidegate_realtime.api.scopes import SCOPES
from tidegate_realtime.api.served import ServedVersion
from tidegate_realtime.api.wishes import Deadline

_SCOPE: Final = SCOPES[Action.INFER]


class GrpcQuestion:
    """A question in one message; see ``Question`` for what each method is for."""

    __slots__ = (
        "_access",
        "_bodies",
        "_call",
        "_held_bytes",
        "_message",
        "_raw",
        "_raw_bytes",
        "_seen",
        "began_at_ns",
        "given_id",
        "model",
        "version",
    )

    def __init__(self, raw: bytes, call: Call, *, access: Access, bodies: HeldBodies) -> None:
        """Look at the message, and make nothing of it; ``let_go`` of the question in the end.

        Raises:
            MalformedRequestError: It is none.
            ModelNotServedError, VersionNotServedError: It names what cannot exist.
        """
        self._seen: Glance = glance(raw)
        self._raw: bytes | None = raw
        self._raw_bytes = len(raw)
        self._message: ModelInferRequest | None = None
        self._held_bytes = 0
        self._call = call
        self._access = access
        self._bodies = bodies
        self.model = self._seen.model
        self.version = check_names(self.model, self._seen.version)
        self.given_id = call.header(REQUEST_ID)
        self.began_at_ns: Nanoseconds = call.began_at_ns

    def principal(self) -> Principal:
        """Look at the key that came with it."""
        return self._access.authorize(self._call.header(AUTHORIZATION), _SCOPE, self.model)

    def deadline(self) -> Deadline | None:
        """Take the shorter of the call's own and that of its metadata."""
        return self._call.deadline()

    async def read(self) -> None:
        """Count the message, which is whole, among all that are held, and only then read it."""
        raw, self._raw = self._raw, None  # what was read has what it needs of it
        assert raw is not None, "called once"
        self._bodies.take(self._raw_bytes)
        self._held_bytes = self._raw_bytes
        check_message(raw, self._seen)
        self._message = parse(raw, ModelInferRequest)

    def let_go(self) -> None:
        """Count it no longer; called once, when the question has ended."""
        self._bodies.give_back(self._held_bytes)

    @property
    def body_bytes(self) -> int:
        """Of the message."""
        return self._held_bytes

    def hand_over(self) -> Callable[[], None]:
        """Take the message out of what ``let_go`` gives back."""
        bodies, held_bytes = self._bodies, self._held_bytes
        self._held_bytes = 0
        return lambda: bodies.give_back(held_bytes)

    def may_wish(self) -> bool:
        """Look into its parameters, which are there already."""
        assert self._message is not None, "not decoded yet"
        return any(name in self._message.parameters for name in ("timeout", "priority"))

    def decode(self, served: ServedVersion) -> Asked:
        """Make tensors of the message, of raw ones without a copy."""
        assert self._message is not None, "called once"
        request = decode_message(self._message)
        self._message = None  # the arrays have the bytes; twice would be too much of them
        return asked_of(request, served)

    def on_departure(self, call: Callable[[], None]) -> None:
        """Do nothing: when a caller leaves, gRPC cancels the handler."""

    def encode(
        self, served: ServedVersion, asked: Asked, outputs: Tensors, *, request_id: str
    ) -> bytes:
        """Write the answer, raw if the question was."""
        named = named_outputs(asked.outputs, outputs)
        tag, is_raw = served.response_tag, self._seen.is_raw
        return encode_message(tag, id=asked.id, outputs=named, is_raw=is_raw)
