"""A look at the bytes of a ``ModelInferRequest`` before objects are made of them.

Two bytes can stand for an empty input, which takes 100 in memory: 62 MiB of them took 2.8 GiB and
held the loop for seconds. So what would become an object is counted first, and nothing is built.

https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from tidegate.oip.errors import MalformedRequestError, TooManyElementsError
from tidegate.oip.limits import DEFAULT_LIMITS, WireLimits

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_LENGTHS: Final = {_FIXED64: 8, _FIXED32: 4}
_MODEL_NAME, _MODEL_VERSION, _INPUTS, _RAW = 1, 2, 5, 7
_SHAPE, _CONTENTS = 3, 5
_FIXED_CONTENTS: Final = {6: 4, 7: 8}
"""Bytes of each value of ``fp32_contents`` and ``fp64_contents``; other numbers are varints."""
_ITEMS: Final = 8
_TAG_OF_ITEM: Final = _ITEMS << 3 | _BYTES
_MOST_SINGLE: Final = 16_384
"""Fields of the contents that are no short texts."""
_MOST_FIELDS: Final = 256
"""Of the request and of each input and output: 64 parameters, 64 inputs and so on."""
_LONGEST_NAME_BYTES: Final = 1_024
"""Whatever is longer is no name, and the beginning of it says so, too."""
_LONGEST_SHAPE_BYTES: Final = 1_024
_LAST_OF_VARINT: Final = 0x80
_LONGEST_VARINT: Final = 10


class Field(NamedTuple):
    """Where one field of a message stands."""

    number: int
    kind: int
    """The wire type."""
    begin: int
    end: int


class Glance(NamedTuple):
    """What the top level of a request says."""

    model: str
    version: str
    is_raw: bool
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]


def glance(raw: bytes) -> Glance:
    """Read the names at the top level, and where the tensors are; takes a fraction of a ms.

    Raises:
        MalformedRequestError: The bytes are no such message, or it has too many fields.
    """
    found: dict[int, list[Field]] = {}
    for field in _few_fields(raw, 0, len(raw)):
        if field.kind == _BYTES:
            found.setdefault(field.number, []).append(field)
    return Glance(
        model=_name(raw, found.get(_MODEL_NAME)),
        version=_name(raw, found.get(_MODEL_VERSION)),
        is_raw=_RAW in found,
        inputs=tuple(found.get(_INPUTS, ())),
        outputs=tuple(found.get(_INPUTS + 1, ())),
    )


def check_message(raw: bytes, seen: Glance, limits: WireLimits = DEFAULT_LIMITS) -> None:
    """Refuse a message that is too much to be made into objects.

    Raises:
        MalformedRequestError: Too many inputs, outputs or fields of one, or it is no message.
        TooManyElementsError: Too many typed values altogether.
    """
    for what, fields, most in (
        ("inputs", seen.inputs, limits.tensors),
        ("outputs", seen.outputs, limits.outputs),
    ):
        if len(fields) > most:
            raise MalformedRequestError(
                f"The request has {len(fields)} {what}; up to {most} are accepted."
            )
    for output in seen.outputs:
        for _ in _few_fields(raw, output.begin, output.end):
            pass
    values = 0
    for tensor in seen.inputs:
        values += _typed_values(raw, tensor, limits)
        if values > limits.items:
            raise TooManyElementsError.of(
                "typed values", limit=limits.items, found=values, advice="Send them raw."
            )


def _typed_values(raw: bytes, tensor: Field, limits: WireLimits) -> int:
    values = 0
    for field in _few_fields(raw, tensor.begin, tensor.end):
        if field.kind != _BYTES:
            continue
        if field.number == _SHAPE and field.end - field.begin > _LONGEST_SHAPE_BYTES:
            raise MalformedRequestError(f"A shape has at most {limits.rank} dimensions.")
        if field.number == _CONTENTS:
            values += _contents(raw, field, limits)
    return values


def _contents(raw: bytes, contents: Field, limits: WireLimits) -> int:
    """Count the values, packed or not; walks over as many fields as may be, and no further."""
    values, place = _texts(raw, contents.begin, contents.end, limits)
    for number, field in enumerate(_fields(raw, place, contents.end), 1):
        if number > _MOST_SINGLE:
            raise MalformedRequestError(
                f"The contents of an input have more than {_MOST_SINGLE} fields; pack their "
                "numbers, and send long texts raw."
            )
        is_packed = field.kind == _BYTES and field.number != _ITEMS
        values += _packed(raw, field) if is_packed else 1
    return values


def _texts(raw: bytes, begin: int, end: int, limits: WireLimits) -> tuple[int, int]:
    """Count the texts of less than 16 KiB that contents begin with; return where they end, too.

    The only fields that may be many: a few letters of Python for each.
    """
    count, place = 0, begin
    while place + 2 < end and raw[place] == _TAG_OF_ITEM:
        length = raw[place + 1]
        if length < _LAST_OF_VARINT:
            place += 2 + length
        elif (more := raw[place + 2]) < _LAST_OF_VARINT:
            place += 3 + (length & 0x7F) + (more << 7)
        else:
            break
        count += 1
        if count > limits.texts:
            raise TooManyElementsError.of(
                "texts in the contents of an input",
                limit=limits.texts,
                found=count,
                advice="Send its rows in several requests.",
            )
    if place > end:
        raise _no_message()
    return count, place


def _packed(raw: bytes, field: Field) -> int:
    length = field.end - field.begin
    if field.number in _FIXED_CONTENTS:
        return length // _FIXED_CONTENTS[field.number]
    octets = np.frombuffer(raw, np.uint8, length, field.begin)
    return int(np.count_nonzero(octets < _LAST_OF_VARINT))


def _name(raw: bytes, fields: list[Field] | None) -> str:
    if fields is None:
        return ""
    last = fields[-1]  # as protobuf has it
    return raw[last.begin : min(last.end, last.begin + _LONGEST_NAME_BYTES)].decode(
        "utf-8", "replace"
    )


def _few_fields(raw: bytes, begin: int, end: int) -> Iterator[Field]:
    for number, field in enumerate(_fields(raw, begin, end), 1):
        if number > _MOST_FIELDS:
            raise MalformedRequestError(
                f"The request, or an input or output of it, has more than {_MOST_FIELDS} fields."
            )
        yield field


def _fields(raw: bytes, begin: int, end: int) -> Iterator[Field]:
    """Yield the fields of one message that stands between two places."""
    place = begin
    while place < end:
        tag, place = _varint(raw, place, end)
        kind, start = tag & 7, place
        if kind == _VARINT:
            _, place = _varint(raw, place, end)
        elif kind == _BYTES:
            length, start = _varint(raw, place, end)
            place = start + length
        elif kind in _FIXED_LENGTHS:
            place += _FIXED_LENGTHS[kind]
        else:  # groups, which this message never had
            raise _no_message()
        if place > end or not tag >> 3:
            raise _no_message()
        yield Field(tag >> 3, kind, start, place)


def _varint(raw: bytes, place: int, end: int) -> tuple[int, int]:
    """Return a number and the place behind it."""
    value = 0
    for index in range(_LONGEST_VARINT):
        if place + index >= end:
            break
        octet = raw[place + index]
        value |= (octet & 0x7F) << 7 * index
        if octet < _LAST_OF_VARINT:
            return value, place + index + 1
    raise _no_message()


def _no_message() -> MalformedRequestError:
    return MalformedRequestError(
        "The message is no ModelInferRequest: its bytes cannot be read as one."
    )
