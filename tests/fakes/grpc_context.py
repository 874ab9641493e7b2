"""A call without a channel: what came with it, and how it was ended."""

from dataclasses import dataclass, field
from typing import cast

import grpc

from tidegate_realtime.api.grpc.calls import Context


@dataclass
class FakeContext:
    """As much of the library's ``ServicerContext`` as a handler uses."""

    metadata: tuple[tuple[str, str | bytes], ...] = ()
    left_s: float | None = None
    initial: tuple[tuple[str, str], ...] | None = None
    status: grpc.StatusCode | None = None
    sentence: str = ""
    trailing: dict[str, str | bytes] = field(default_factory=dict)

    def for_a_call(self) -> Context:
        return cast("Context", self)

    def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        return self.metadata

    def time_remaining(self) -> float | None:
        return self.left_s

    async def send_initial_metadata(self, metadata: tuple[tuple[str, str], ...]) -> None:
        assert self.initial is None, "sent twice"
        self.initial = metadata

    def set_code(self, code: grpc.StatusCode) -> None:
        self.status = code

    def set_details(self, details: str) -> None:
        self.sentence = details

    def set_trailing_metadata(self, metadata: tuple[tuple[str, str | bytes], ...]) -> None:
        self.trailing = dict(metadata)
