"""``/v2/repository``: the same control as a Triton server has, for its clients."""

from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request

from tidegate.ids import DEFAULT_ALIAS, ModelRef, parse_model_name
from tidegate.oip.errors import UnsupportedParameterError
from tidegate.oip.parsing import parse
from tidegate_realtime.api.admin.listing import Json, triton_index
from tidegate_realtime.api.admin.models import Models, asked, load, small_body, unload


class _Index(msgspec.Struct):
    ready: bool = False


class _Control(msgspec.Struct):
    parameters: dict[str, Any] = {}


_INDEX: Final = msgspec.json.Decoder(_Index)
_CONTROL: Final = msgspec.json.Decoder(_Control)


def install_repository_routes(app: FastAPI, models: Models) -> None:
    """Add the routes to an application."""

    @app.post("/v2/repository/index", include_in_schema=False)
    async def index(request: Request) -> list[Json]:
        body = await small_body(request) or b"{}"
        wanted = parse(body, _INDEX, expected='Send {"ready": true}, or nothing')
        return triton_index(models.host.lifecycle, only_ready=wanted.ready)

    @app.post("/v2/repository/models/{name}/load", include_in_schema=False)
    async def load_model(name: str, request: Request) -> Json:
        await _check_parameters(request)
        ref = ModelRef(asked(parse_model_name, name), DEFAULT_ALIAS)
        return await load(models, ref, request)

    @app.post("/v2/repository/models/{name}/unload", include_in_schema=False)
    async def unload_model(name: str, request: Request) -> Json:
        await _check_parameters(request)
        return await unload(models, asked(parse_model_name, name), None, request)


async def _check_parameters(request: Request) -> None:
    body = await small_body(request) or b"{}"
    wanted = parse(body, _CONTROL, expected="Send {} or nothing")
    for name in wanted.parameters:
        if name == "config" or name.startswith("file:"):
            raise UnsupportedParameterError(
                f"The parameter {name[:80]!r} is not supported: a model's files and its "
                "configuration come out of the store alone. Publish a version instead."
            )
