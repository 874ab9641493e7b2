"""What a caller asks, as the bytes that a gateway reads."""

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import orjson

from tidegate.client.checks import Headers, check_ms, check_request_id, checked_headers
from tidegate.client.errors import BadRequestError
from tidegate.client.tensors import Array, as_tensor
from tidegate.client.transport import HttpRequest
from tidegate.ids import InvalidIdError, parse_alias, parse_model_name, parse_version
from tidegate.oip.binary import bytes_from_array

Version = int | str

DEADLINE_HEADER: Final = "Tidegate-Deadline-Ms"
HEADER_LENGTH: Final = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What every form of a question may say besides its rows."""

    version: Version | None = None
    """A number or an alias; ``None`` leaves the choice to the gateway."""
    deadline_ms: float | None = None
    priority: int | None = None
    request_id: str
    headers: Mapping[str, str]

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.deadline_ms is not None:
            check_ms("deadline_ms", self.deadline_ms)
        check_request_id(self.request_id)

    def parameters(self) -> dict[str, int]:
        """Return what stands in the body."""
        return {} if self.priority is None else {"priority": self.priority}

    def all_headers(self) -> Headers:
        """Return what stands in the headers, but for the deadline: each try has less."""
        return (("X-Request-Id", self.request_id), *checked_headers(self.headers))


def columns_question(
    model: str, columns: Mapping[str, Iterable[Any]], wishes: Wishes
) -> HttpRequest:
    """Ask by named columns, one value a row in each.

    Raises:
        BadRequestError: The columns differ in length, or a value has no JSON form.
    """
    lists = {name: _listed(values) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        raise BadRequestError(f"Every column must have one value per row; found {lengths}.")
    rows = zip(*lists.values(), strict=True)
    instances = [dict(zip(lists, row, strict=True)) for row in rows]
    return _rows_question(model, instances, wishes, by_column=True)


def instances_question(model: str, instances: Sequence[Any], wishes: Wishes) -> HttpRequest:
    """Ask by rows: objects of named columns, lists, or bare values; bytes are welcome in them.

    Raises:
        BadRequestError: There are none, or a value has no JSON form.
    """
    return _rows_question(model, instances, wishes, by_column=False)


def _rows_question(
    model: str, instances: Sequence[Any], wishes: Wishes, *, by_column: bool
) -> HttpRequest:
    if len(instances) == 0:  # an array has no other truth
        raise BadRequestError("There are no rows to predict for; give at least one.")
    content: dict[str, Any] = {"instances": instances}
    if parameters := wishes.parameters():
        content["parameters"] = parameters
    body = _dumped(content)
    if b"null" in body:
        _refuse_non_finite(instances, by_column=by_column)
    headers = (*wishes.all_headers(), ("Content-Type", "application/json"))
    path = f"/v1/{_model_path(model, wishes.version)}:predict"
    return HttpRequest(method="POST", path=path, headers=headers, body=body)


def arrays_question(model: str, arrays: Mapping[str, Array], wishes: Wishes) -> HttpRequest:
    """Ask by tensors, ``(rows, …)`` each; they travel as bytes in both directions.

    Raises:
        BadRequestError: There are none, or one has a type that the protocol does not know.
    """
    if not arrays:
        raise BadRequestError("There are no arrays to predict for; give one for each input.")
    inputs, blobs = [], []
    for name, given in arrays.items():
        described, blob = _tensor(name, np.asarray(given))
        inputs.append(described)
        blobs.append(blob)
    parameters = {**wishes.parameters(), "binary_data_output": True}
    head = _dumped({"parameters": parameters, "inputs": inputs})
    headers = (
        *wishes.all_headers(),
        ("Content-Type", "application/octet-stream"),
        (HEADER_LENGTH, str(len(head))),
    )
    path = f"/v2/{_model_path(model, wishes.version)}/infer"
    return HttpRequest(method="POST", path=path, headers=headers, body=b"".join([head, *blobs]))


def metadata_question(model: str, version: Version | None) -> HttpRequest:
    """Ask what a model reads, answers and promises."""
    return HttpRequest(method="GET", path=f"/v2/{_model_path(model, version)}")


def readiness_question(model: str | None) -> HttpRequest:
    """Ask whether work is taken, at all or by one model."""
    path = "/v2/health" if model is None else f"/v2/{_model_path(model, None)}"
    return HttpRequest(method="GET", path=f"{path}/ready")


MODELS_QUESTION: Final = HttpRequest(method="GET", path="/v1/models")


def _model_path(model: str, version: Version | None) -> str:
    try:
        path = f"models/{parse_model_name(model)}"
        if version is None:
            return path
        text = str(version)
        at = parse_version(text) if text[:1].isdigit() else parse_alias(text)
    except InvalidIdError as error:
        raise BadRequestError(str(error)) from None
    return f"{path}/versions/{at}"


def _tensor(name: str, array: Array) -> tuple[dict[str, object], memoryview]:
    try:
        datatype, values = as_tensor(array)
    except ValueError as error:
        raise BadRequestError(f"arrays[{name!r}]: {error}.") from None
    blob = bytes_from_array(values)
    described: dict[str, object] = {
        "name": name,
        "shape": list(array.shape),
        "datatype": datatype,
        "parameters": {"binary_data_size": len(blob)},
    }
    return described, blob


def _listed(values: Iterable[Any]) -> list[Any]:
    """Take numpy's, pandas' and everybody's columns, with Python's values in them."""
    tolist = getattr(values, "tolist", None)
    return list(tolist()) if tolist is not None else list(values)


def _dumped(content: object) -> bytes:
    try:
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY, default=_bytes_as_json)
    except TypeError as error:
        raise BadRequestError(f"The rows have no JSON form: {error}.") from None


def _bytes_as_json(value: object) -> object:
    match value:
        case bytes():
            return {"b64": base64.b64encode(value).decode()}
        case np.ndarray():  # of objects or text, or no longer in order
            return value.tolist()
        case _:
            raise TypeError  # orjson says which type it was


def _refuse_non_finite(instances: Sequence[Any], *, by_column: bool) -> None:
    """Refuse what orjson has written as null: the model would read it as missing."""
    found = _non_finite(instances)
    if found is None:
        return
    value, places = found
    if by_column:
        row, column, *within = places
        places = (column, row, *within)
    at = "".join(f"[{place!r}]" for place in places)
    raise BadRequestError(
        f"{'columns' if by_column else 'instances'}{at} is {value}, which JSON cannot say. Write "
        "None if the model has a default for what is missing, leave the row out, or send the "
        "model's own tensors: arrays=…, which travel as bytes, NaN too."
    )


def _non_finite(value: object) -> tuple[float, tuple[object, ...]] | None:
    """Find the first number that is none or infinite, and its place: keys and indexes."""
    items: Iterable[tuple[object, object]]
    match value:
        case float() | np.floating():
            return None if math.isfinite(value) else (float(value), ())
        case np.ndarray():
            return _non_finite(value.tolist())
        case Mapping():
            items = value.items()
        case list() | tuple():
            items = enumerate(value)
        case _:
            return None
    for place, item in items:
        if (found := _non_finite(item)) is not None:
            return found[0], (place, *found[1])
    return None
