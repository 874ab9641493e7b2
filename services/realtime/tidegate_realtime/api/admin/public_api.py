"""The public routes as OpenAPI: they are written once, without a framework that could tell."""

from typing import Any, Final

Json = dict[str, Any]

_MODEL: Final[Json] = {
    "name": "model",
    "in": "path",
    "required": True,
    "description": "A model that is served here; GET /v1/models lists them.",
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"},
}
_VERSION: Final[Json] = {
    "name": "version",
    "in": "path",
    "required": True,
    "description": "A version number, or an alias such as stable.",
    "schema": {"type": "string"},
}
_REQUEST_ID: Final[Json] = {
    "name": "X-Request-Id",
    "in": "header",
    "description": "Comes back, and stands in the server's log; 1 to 128 of A-Z a-z 0-9 . _ : -",
    "schema": {"type": "string"},
}
_DEADLINE: Final[Json] = {
    "name": "Tidegate-Deadline-Ms",
    "in": "header",
    "description": "How long the answer may take, in ms from the headers on; without it, the "
    "objective from the last byte on. parameters.timeout says the same in microseconds.",
    "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,7}$"},
}
_JSON_LENGTH: Final[Json] = {
    "name": "Inference-Header-Content-Length",
    "in": "header",
    "description": "How many bytes of the body are JSON, if bytes of tensors follow. 0: the whole "
    "body is one row of the only input.",
    "schema": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,18})$"},
}
_KEY: Final[Json] = {
    "name": "Authorization",
    "in": "header",
    "description": "Bearer and a key, where the server asks for one.",
    "schema": {"type": "string"},
}
_TAG_HEADERS: Final[Json] = {
    name: {"description": description, "schema": {"type": "string"}}
    for name, description in {
        "X-Tidegate-Model": "The model that made the prediction.",
        "X-Tidegate-Version": "Its version.",
        "X-Tidegate-Digest": "The digest of its manifest, which pins every file of it.",
        "X-Tidegate-Served-By": "What answered; model is the model itself.",
        "X-Request-Id": "The name of this request.",
    }.items()
}
_REFUSALS: Final = {
    "400": "The request contradicts itself or the protocol.",
    "401": "It needs a key, and has none that is known here.",
    "403": "Its key is for something else.",
    "404": "No such model or version here; details.served lists the versions.",
    "408": "The body did not arrive in time; the connection is closed.",
    "413": "Too many bytes, rows or values; details has the limit.",
    "415": "A Content-Encoding that cannot be undone here.",
    "422": "Sound, but not what this model reads (details names input, expected and found), a row "
    "that makes the model fail (details.row), or a deadline that nobody could keep.",
    "429": "The tenant of its key has used up its rows a second; see Retry-After.",
    "500": "The model failed.",
    "503": "Not accepted now; see Retry-After.",
    "504": "Accepted, and not answered in time; details says how long it waited and ran.",
}


def public_paths() -> Json:
    """Return every public path."""
    return {
        "/v2": _get("What this server is", "ServerMetadata"),
        "/v2/health/live": _get("Whether the process answers", "Health"),
        "/v2/health/ready": _get("Whether it takes work", "Health", unready=True),
        "/v1/models": _get("The models served here", "ModelList"),
        "/v1/models/{model}": _get("Whether a model is ready", "ModelReady", _MODEL, unready=True),
        **_of_version("", "Signature, versions and objective of a model", "ModelMetadata"),
        **_of_version("/ready", "Whether a model is ready", "ModelReady", unready=True),
        **_of_version("/config", "A model in the words of Triton's ModelConfig", "ModelConfig"),
        **_of_version("/stats", "Counts and times of a model since the start", "Statistics"),
        "/v2/models/stats": _get("The same of all models", "Statistics"),
        **_predictions("/v2/models/{model}", "/infer", "Infer", "Tensors in, tensors out (OIP v2)"),
        **_predictions("/v1/models/{model}", ":predict", "Predict", "Rows in, predictions out"),
    }


def _of_version(tail: str, summary: str, schema: str, *, unready: bool = False) -> Json:
    base = "/v2/models/{model}"
    of_version = f"{base}/versions/{{version}}{tail}"
    return {
        f"{base}{tail}": _get(summary, schema, _MODEL, unready=unready),
        of_version: _get(summary, schema, _MODEL, _VERSION, unready=unready),
    }


def _get(summary: str, schema: str, *parameters: Json, unready: bool = False) -> Json:
    responses = {"200": _response("As asked.", schema)}
    if parameters:
        parameters = (*parameters, _KEY)
        for status in ("401", "403", "404"):
            responses[status] = _response(_REFUSALS[status], "Error")
    if unready:
        responses["503"] = _response("Not ready; the same fields and the error.", "Error")
    return {"get": {"summary": summary, "parameters": [*parameters], "responses": responses}}


def _predictions(base: str, tail: str, name: str, summary: str) -> Json:
    def operation(*parameters: Json) -> Json:
        answer = _response("The answer, with the tag of the version that made it.", f"{name}Reply")
        answer["headers"] = _TAG_HEADERS
        refusals = {status: _response(text, "Error") for status, text in _REFUSALS.items()}
        described: Json = {
            "summary": summary,
            "parameters": [*parameters, _DEADLINE, _REQUEST_ID, _KEY],
            "requestBody": {"required": True, "content": _json(f"{name}Request")},
            "responses": {"200": answer, **refusals},
        }
        if name == "Infer":
            _add_binary_form(described)
        return {"post": described}

    return {
        f"{base}{tail}": operation(_MODEL),
        f"{base}/versions/{{version}}{tail}": operation(_MODEL, _VERSION),
    }


def _add_binary_form(infer: Json) -> None:
    """Describe the bodies that are not JSON altogether, which OpenAPI has no words for."""
    infer["parameters"].append(_JSON_LENGTH)
    infer["requestBody"]["content"]["application/octet-stream"] = {"schema": _WITH_BYTES}
    answer = infer["responses"]["200"]
    answer["content"]["application/octet-stream"] = {"schema": _WITH_BYTES}
    answer["headers"] = {
        **_TAG_HEADERS,
        _JSON_LENGTH["name"]: {
            "description": "How many bytes are JSON; absent where all are.",
            "schema": {"type": "string"},
        },
    }


def _response(description: str, schema: str) -> Json:
    return {"description": description, "content": _json(schema)}


def _json(schema: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


_WITH_BYTES: Final[Json] = {
    "type": "string",
    "format": "binary",
    "description": "The JSON of the other form, without data for the tensors that have "
    "parameters.binary_data_size, and behind it the bytes of these in their order: little-endian, "
    "row-major; BYTES as 32-bit length and UTF-8 text, item by item.",
}
_TEXT: Final[Json] = {"type": "string"}
_NUMBER: Final[Json] = {"type": "integer"}
_FLAG: Final[Json] = {"type": "boolean"}
_ANY_LIST: Final[Json] = {"type": "array", "items": {}}
_SHAPE: Final[Json] = {"type": "array", "items": {"type": "integer"}}
_PARAMETERS: Final[Json] = {"type": "object", "additionalProperties": True}
_SPEC: Final[Json] = {"name": _TEXT, "datatype": _TEXT, "shape": _SHAPE}


def _object(required: str, **properties: Json) -> Json:
    return {"type": "object", "required": required.split(), "properties": properties}


def _list(of: Json) -> Json:
    return {"type": "array", "items": of}


def public_schemas() -> Json:
    """Return every body, by the name that the paths use."""
    return {
        **_lookup_schemas(),
        **_prediction_schemas(),
        "Error": _object(
            "error code request_id",
            error=_TEXT,
            code=_TEXT,
            request_id=_TEXT,
            details={"type": "object"},
        ),
    }


def _lookup_schemas() -> Json:
    spec = _object("name datatype shape", **_SPEC)
    configured = _object("name data_type dims", name=_TEXT, data_type=_TEXT, dims=_SHAPE)
    return {
        "ServerMetadata": _object("name version", name=_TEXT, version=_TEXT, extensions=_ANY_LIST),
        "Health": _object("live ready", live=_FLAG, ready=_FLAG),
        "ModelList": _object("models", models=_list(_TEXT)),
        "ModelReady": _object("name ready", name=_TEXT, ready=_FLAG),
        "ModelMetadata": _object(
            "name versions platform inputs outputs",
            name=_TEXT,
            versions=_list(_TEXT),
            platform=_TEXT,
            inputs=_list(spec),
            outputs=_list(spec),
            parameters=_PARAMETERS,
        ),
        "ModelConfig": _object(
            "name platform backend max_batch_size input output",
            name=_TEXT,
            platform=_TEXT,
            backend=_TEXT,
            max_batch_size=_NUMBER,
            input=_list(configured),
            output=_list(configured),
            dynamic_batching={"type": "object"},
        ),
        "Statistics": _object(
            "model_stats",
            model_stats=_list(
                _object(
                    "name version inference_count execution_count inference_stats batch_stats",
                    name=_TEXT,
                    version=_TEXT,
                    inference_count=_NUMBER,
                    execution_count=_NUMBER,
                    inference_stats={"type": "object"},
                    batch_stats=_ANY_LIST,
                )
            ),
        ),
    }


def _prediction_schemas() -> Json:
    tensor = _object("name shape datatype", **_SPEC, data=_ANY_LIST, parameters=_PARAMETERS)
    tag = {"model_name": _TEXT, "model_version": _TEXT}
    return {
        "InferRequest": _object(
            "inputs",
            id=_TEXT,
            inputs=_list(tensor),
            outputs=_list(_object("name", name=_TEXT, parameters=_PARAMETERS)),
            parameters=_PARAMETERS,
        ),
        "InferReply": _object(
            "model_name model_version parameters outputs",
            **tag,
            id=_TEXT,
            parameters=_PARAMETERS,
            outputs=_list(tensor),
        ),
        "PredictRequest": _object("instances", instances=_ANY_LIST, parameters=_PARAMETERS),
        "PredictReply": _object(
            "predictions model_name model_version model_digest served_by request_id",
            predictions=_ANY_LIST,
            **tag,
            model_digest=_TEXT,
            served_by=_TEXT,
            request_id=_TEXT,
        ),
    }
