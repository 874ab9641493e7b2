"""``/admin/v1/models``: what is loaded, what is to be, and where the aliases point.

Model files never come by HTTP; a version is named, and comes out of the store.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import msgspec
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from tidegate.artifacts.aliases import Aliases
from tidegate.clock import Clock
from tidegate.ids import (
    Alias,
    InvalidIdError,
    ModelName,
    ModelRef,
    Version,
    parse_alias,
    parse_model_name,
)
from tidegate.observability import get_logger
from tidegate.oip.errors import MalformedRequestError
from tidegate.oip.parsing import parse
from tidegate_realtime.api.admin.guard import PRINCIPAL
from tidegate_realtime.api.admin.listing import Json, describe_model, list_models
from tidegate_realtime.api.errors import ModelNotServedError, RouteNotFoundError
from tidegate_realtime.api.guards import too_large
from tidegate_realtime.api.served import Catalogue
from tidegate_realtime.core.hosting import Copy
from tidegate_realtime.core.lifecycle import Lifecycle

log: Final = get_logger(__name__)
_T = TypeVar("_T")
BODY_LIMIT_BYTES: Final = 64 << 10
_ETAG: Final = re.compile(r'"([0-9]{1,18})"')


class Host(Protocol):
    """What is needed of ``ModelHost``."""

    lifecycle: Lifecycle

    async def load(self, ref: ModelRef) -> Copy:
        """Bring what is named, and return what serves."""
        ...

    async def unload(self, name: ModelName, at: Alias | Version | None) -> list[Version]:
        """Let go of it, and return what is gone."""
        ...


class AliasBook(Protocol):
    """The aliases in the store."""

    async def aliases(self, name: ModelName) -> Aliases:
        """Read where they point."""
        ...

    async def move_alias(
        self, name: ModelName, alias: Alias, version: Version, *, revision: int
    ) -> Aliases:
        """Point one elsewhere, from that revision or not at all (``AliasMovedError``)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """What an operator may look at and change."""

    host: Host
    catalogue: Catalogue
    aliases: AliasBook
    clock: Clock


class _Move(msgspec.Struct, forbid_unknown_fields=True):
    version: int


_MOVE: Final = msgspec.json.Decoder(_Move)


def install_model_routes(app: FastAPI, models: Models) -> None:
    """Add the routes to an application."""

    @app.get("/admin/v1/models", include_in_schema=False)
    async def every_model() -> Json:
        now_ns = models.clock.now_ns()
        return {"models": list_models(models.host.lifecycle, models.catalogue.offer, now_ns)}

    @app.get("/admin/v1/models/{name}", include_in_schema=False)
    async def one_model(name: str) -> Json:
        return _described(models, asked(parse_model_name, name))

    @app.post("/admin/v1/models/{ref}/load", include_in_schema=False)
    async def load_model(ref: str, request: Request) -> Json:
        return await load(models, asked(ModelRef.parse, ref), request)

    @app.post("/admin/v1/models/{ref}/unload", include_in_schema=False)
    async def unload_model(ref: str, request: Request) -> Json:
        named = asked(ModelRef.parse, ref)
        return await unload(models, named.name, named.at if "@" in ref else None, request)

    @app.get("/admin/v1/models/{name}/aliases", include_in_schema=False)
    async def aliases(name: str) -> JSONResponse:
        return _as_response(await models.aliases.aliases(asked(parse_model_name, name)))

    @app.put("/admin/v1/models/{name}/aliases/{alias}", include_in_schema=False)
    async def move(name: str, alias: str, request: Request) -> JSONResponse:
        revision = _revision(request)
        body = await small_body(request)
        wanted = parse(body, _MOVE, expected='Send {"version": 8}')
        named = asked(parse_model_name, name), asked(parse_alias, alias)
        moved = await models.aliases.move_alias(*named, Version(wanted.version), revision=revision)
        _note(request, "alias_moved", model=name, alias=alias, version=wanted.version)
        return _as_response(moved)


async def load(models: Models, ref: ModelRef, request: Request) -> Json:
    """Load what is named, and say what answers from now on."""
    _note(request, "load_asked", model=str(ref))
    copy = await models.host.load(ref)
    offer = models.catalogue.offer(ref.name)
    served = offer.versions[copy.version]
    return {
        "name": copy.name,
        "version": copy.version,
        "digest": served.model.tag.digest,
        "aliases": [alias for alias, version in offer.aliases.items() if version == copy.version],
        "is_default": offer.preferred == copy.version,
    }


async def unload(
    models: Models, name: ModelName, at: Alias | Version | None, request: Request
) -> Json:
    """Unload what is named, and say what is gone."""
    _note(request, "unload_asked", model=name if at is None else f"{name}@{at}")
    gone = await models.host.unload(name, at)
    return {"name": name, "unloaded": gone, "versions": models.catalogue.numbers(name)}


def asked(parse_name: Callable[[str], _T], text: str) -> _T:
    """Read a name out of a path.

    Raises:
        RouteNotFoundError: It cannot be one, so that nothing is served there.
    """
    try:
        return parse_name(text)
    except InvalidIdError as error:
        raise RouteNotFoundError(f"{error}") from error


async def small_body(request: Request) -> bytes:
    """Read a body that says a few words.

    Raises:
        BodyTooLargeError: It says more; a model's files never come by HTTP.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_LIMIT_BYTES:
            raise too_large(len(body), BODY_LIMIT_BYTES)
    return bytes(body)


def _described(models: Models, name: ModelName) -> Json:
    lifecycle = models.host.lifecycle
    if name not in lifecycle.asked:
        raise ModelNotServedError(
            f"Nobody has asked for {name} here; those asked for: "
            f"{', '.join(lifecycle.asked) or 'none'}."
        )
    offer = models.catalogue.offer(name)
    return describe_model(lifecycle, name, offer, models.clock.now_ns())


def _as_response(aliases: Aliases) -> JSONResponse:
    content: dict[str, Any] = {"aliases": aliases.aliases, "revision": aliases.revision}
    return JSONResponse(content, headers={"etag": f'"{aliases.revision}"'})


def _revision(request: Request) -> int:
    found = _ETAG.fullmatch(request.headers.get("if-match", ""))
    if found is None:
        raise MalformedRequestError(
            "An alias moves only from a state that you have seen: send If-Match with the ETag of "
            "GET /admin/v1/models/{name}/aliases."
        )
    return int(found[1])


def _note(request: Request, event: str, **fields: object) -> None:
    """Write down who changed what."""
    principal = getattr(request.state, PRINCIPAL, None)
    log.info(event, by=getattr(principal, "key_id", None), **fields)
