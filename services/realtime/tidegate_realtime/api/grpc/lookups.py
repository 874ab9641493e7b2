"""The calls that need no model: the same answers as over HTTP, in messages.

They are read from the JSON of the HTTP reply, so that there is one place that says what is served
and how. Nobody asks often enough for that to cost anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

from tidegate.oip.protobuf import v2_pb2 as v2
from tidegate_realtime.api.grpc.calls import check_names
from tidegate_realtime.api.routing import Action, Route

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One method of the service, and the route of the public HTTP listener that says the same."""

    action: Action
    request: type[Message]
    reply: type[Message]
    of_all: Action | None = None
    """Where it goes if no model is named, if it may be so."""
    fields: Callable[[Fields], Fields] = lambda content: content
    """From the JSON of the route to that of the message."""

    @property
    def is_empty(self) -> bool:
        """Whether its message has no fields, so that none need be read."""
        return not self.request.DESCRIPTOR.fields

    def route(self, message: Message) -> Route:
        """Return where the same is asked over HTTP.

        Raises:
            ModelNotServedError, VersionNotServedError: It names what cannot exist.
        """
        if self.is_empty:
            return Route(self.action)
        fields: Any = message  # all that have any have these two
        if self.of_all is not None and not fields.name:
            return Route(self.of_all)
        return Route(self.action, fields.name, check_names(fields.name, fields.version))

    def write(self, body: bytes) -> bytes:
        """Write the message of a reply's body; fields that it does not have are left out."""
        content = self.fields(orjson.loads(body))
        message = ParseDict(content, self.reply(), ignore_unknown_fields=True)
        return message.SerializeToString()


def _metadata(content: Fields) -> Fields:
    """Turn parameters of any type into properties, which are text."""
    properties = {
        name: value if isinstance(value, str) else orjson.dumps(value).decode()
        for name, value in content.pop("parameters").items()
    }
    return {**content, "properties": properties}


def _config(content: Fields) -> Fields:
    return {"config": content}


LOOKUPS: Final[Mapping[str, Lookup]] = {
    "ServerLive": Lookup(
        action=Action.LIVE, request=v2.ServerLiveRequest, reply=v2.ServerLiveResponse
    ),
    "ServerReady": Lookup(
        action=Action.READY, request=v2.ServerReadyRequest, reply=v2.ServerReadyResponse
    ),
    "ModelReady": Lookup(
        action=Action.MODEL_READY, request=v2.ModelReadyRequest, reply=v2.ModelReadyResponse
    ),
    "ServerMetadata": Lookup(
        action=Action.SERVER, request=v2.ServerMetadataRequest, reply=v2.ServerMetadataResponse
    ),
    "ModelMetadata": Lookup(
        action=Action.MODEL,
        request=v2.ModelMetadataRequest,
        reply=v2.ModelMetadataResponse,
        fields=_metadata,
    ),
    "ModelConfig": Lookup(
        action=Action.MODEL_CONFIG,
        request=v2.ModelConfigRequest,
        reply=v2.ModelConfigResponse,
        fields=_config,
    ),
    "ModelStatistics": Lookup(
        action=Action.MODEL_STATISTICS,
        of_all=Action.STATISTICS,
        request=v2.ModelStatisticsRequest,
        reply=v2.ModelStatisticsResponse,
    ),
}
