"""One question in every form of the protocol: JSON, binary tensors, gRPC raw and typed.

Whatever a tensor holds, its answer has the same bits, datatype and shape in each form that can say
it: JSON has no 16-bit floats, NaN and infinity; typed contents have no 16-bit floats.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

import grpc
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.fakes.exchange import FakeExchange
from tests.fixtures import edges
from tests.fixtures.grpc_calls import begin, connected, infer_request, output_arrays
from tests.fixtures.oip_models import ONNX, edge_values, same
from tidegate.clock.system import SystemClock
from tidegate.inference.arrays import Array
from tidegate.oip.binary import array_from_bytes, bytes_from_array
from tidegate.oip.values import ONLY_BINARY, array_from_json, json_from_array
from tidegate.tensors.datatypes import DATATYPES
from tidegate_realtime.api.edge import Edge
from tidegate_realtime.core.limits import BatchLimits

FORMS = ("json", "binary", "grpc raw", "grpc typed")
Question = tuple[str, str, Array]
AskMany = Callable[[Sequence[Question]], list[Array | str]]
"""From form, datatype and values of each question to the values of its answer, or to the code of
its refusal; all of them are asked at once."""


class RefusedError(Exception):
    """Its text is the code."""


class Asker:
    """Asks the model of a datatype, which answers what came."""

    def __init__(self, edge: Edge, channel: grpc.aio.Channel) -> None:
        self._edge = edge
        self._channel = channel

    async def ask(self, form: str, datatype: str, values: Array) -> Array | str:
        try:
            match form:
                case "json":
                    return await self._json(datatype, values)
                case "binary":
                    return await self._binary(datatype, values)
                case _:
                    return await self._grpc(datatype, values, raw=form == "grpc raw")
        except RefusedError as refused:
            return str(refused)

    async def _json(self, datatype: str, values: Array) -> Array:
        tensor = {"data": json_from_array(values)}
        output, _ = await self._post(datatype, values, tensor)
        said = {key: output[key] for key in ("datatype", "shape")}
        return array_from_json(output["data"], name="y", booleans=True, **said)

    async def _binary(self, datatype: str, values: Array) -> Array:
        blob = bytes(bytes_from_array(values))
        tensor = {"parameters": {"binary_data_size": len(blob)}}
        output, answered = await self._post(datatype, values, tensor, blob)
        assert output["parameters"] == {"binary_data_size": len(answered)}
        said = {key: output[key] for key in ("datatype", "shape")}
        return array_from_bytes(answered, name="y", **said)

    async def _post(
        self, datatype: str, values: Array, tensor: Mapping[str, object], blob: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        about = {"name": "x", "datatype": datatype, "shape": values.shape}
        asked = {
            "inputs": [{**about, **tensor}],
            "parameters": {"binary_data_output": "parameters" in tensor},
        }
        text = orjson.dumps(asked, option=orjson.OPT_SERIALIZE_NUMPY)
        layout = {"inference-header-content-length": str(len(text))}
        path = f"/v2/models/{datatype.lower()}/infer"
        exchange = FakeExchange("POST", path, text + blob, headers=layout)
        reply = await self._edge.endpoint.answer(exchange)
        if reply.status != 200:
            raise RefusedError(orjson.loads(reply.body)["code"])
        end = int(dict(reply.headers).get("inference-header-content-length", len(reply.body)))
        (output,) = orjson.loads(reply.body[:end])["outputs"]
        return output, reply.body[end:]

    async def _grpc(self, datatype: str, values: Array, *, raw: bool) -> Array:
        request = infer_request(datatype.lower(), {"x": (datatype, values)}, raw=raw)
        try:
            reply = await begin(self._channel, "ModelInfer", request)
        except grpc.aio.AioRpcError as error:
            raise RefusedError(
                dict(tuple(error.trailing_metadata() or ()))["tidegate-code"]
            ) from error
        assert bool(reply.raw_output_contents) is raw
        return output_arrays(reply)["y"]


@pytest.fixture(scope="module")
def ask_many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskMany]:
    """Serve a model of each datatype, on a loop that goes on while questions are asked."""
    folder = tmp_path_factory.mktemp("wire")
    models = [edges.load(same(folder / f"{name}.onnx", name), name=name.lower()) for name in ONNX]

    async def serve(stack: AsyncExitStack) -> Asker:
        room = BatchLimits(queue_limit_rows=20_000)
        edge = edges.serve(models, clock=SystemClock(), slo_ms=60_000, limits=room)
        for served in edge.catalogue.versions:
            stack.push_async_callback(served.driver.aclose)
        return Asker(edge, await stack.enter_async_context(connected(edge)))

    async def asked(questions: Sequence[Question]) -> list[Array | str]:
        return await asyncio.gather(*(asker.ask(*question) for question in questions))

    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        asker = runner.run(serve(stack))
        yield lambda questions: runner.run(asked(questions))
        runner.run(stack.aclose())


def can_say(form: str, datatype: str, values: Array) -> bool:
    if form == "json":
        finite = values.dtype.kind != "f" or bool(np.isfinite(values).all())
        return datatype not in ONLY_BINARY and finite
    return form != "grpc typed" or datatype not in ONLY_BINARY


def check_answer(form: str, answered: Array | str, values: Array) -> None:
    assert not isinstance(answered, str), answered
    assert (answered.dtype, answered.shape) == (values.dtype, values.shape)
    if form == "grpc typed" and values.dtype.kind == "f":  # Python floats have quiet NaNs only
        assert np.array_equal(answered, values, equal_nan=True)
        assert np.array_equal(np.signbit(answered), np.signbit(values)) or np.isnan(values).any()
    else:
        assert bytes(bytes_from_array(answered)) == bytes(bytes_from_array(values))


@pytest.mark.field_fault("P-12")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("datatype", ONNX)
def test_what_is_easily_lost_comes_back_in_every_form(
    ask_many: AskMany, datatype: str, form: str
) -> None:
    values = edge_values(datatype)
    if can_say(form, datatype, values):
        check_answer(form, ask_many([(form, datatype, values)])[0], values)


SHAPES = st.tuples(st.integers(1, 4), st.integers(0, 4))
"""Rows, and another dimension that the signature leaves open."""


def tensors(datatype: str) -> st.SearchStrategy[tuple[str, Array]]:
    """Make tensors of any bits that a datatype has."""
    kind = np.dtype(DATATYPES[datatype].numpy)
    if datatype == "BYTES":
        texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
        whole = hnp.arrays(object, SHAPES, elements=texts)
    elif datatype == "BOOL":
        whole = hnp.arrays(kind, SHAPES)
    else:
        bits = np.dtype(f"u{kind.itemsize}")
        whole = hnp.arrays(bits, SHAPES).map(lambda values: values.view(kind))
    return whole.map(lambda values: (datatype, values))


@given(tensor=st.one_of([tensors(datatype) for datatype in ONNX]))
@settings(max_examples=150, deadline=None)
def test_any_tensor_is_answered_alike_in_every_form(
    ask_many: AskMany, tensor: tuple[str, Array]
) -> None:
    datatype, values = tensor
    forms = [form for form in FORMS if can_say(form, datatype, values)]
    answers = ask_many([(form, datatype, values) for form in forms])
    for form, answered in zip(forms, answers, strict=True):
        check_answer(form, answered, values)


REFUSED = {
    "no rows": (np.empty((0, 2), np.float32), "malformed_request"),
    "too many rows": (np.zeros((4_097, 1), np.float32), "too_many_rows"),
    "another rank": (np.zeros((1, 1, 1), np.float32), "signature_mismatch"),
    "too high a rank": (np.zeros((1,) * 9, np.float32), "malformed_request"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("values", "code"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_is_refused_alike_in_every_form(
    ask_many: AskMany, values: Array, code: str, form: str
) -> None:
    assert ask_many([(form, "FP32", values)]) == [code]


@pytest.mark.field_fault("S-03")
def test_a_thousand_questions_at_once_get_their_own_rows_in_every_form(ask_many: AskMany) -> None:
    sizes = np.random.default_rng(20261201).integers(1, 20, size=1_000)
    firsts = np.cumsum(sizes)
    sent = [
        np.arange(first, first + rows, dtype=np.int64).reshape(rows, 1)
        for first, rows in zip(firsts, sizes, strict=True)
    ]
    forms = [FORMS[number % len(FORMS)] for number in range(len(sent))]
    answers = ask_many([(form, "INT64", values) for form, values in zip(forms, sent, strict=True)])
    for form, values, answered in zip(forms, sent, answers, strict=True):
        check_answer(form, answered, values)


def told_apart(datatype: str, first: int, rows: int) -> Array:
    """Write the numbers of rows, in digits that every datatype can say."""
    numbers = np.arange(first, first + rows)
    if datatype == "BYTES":
        return np.array([[f"row {number}"] for number in numbers], object)
    base = 2 if datatype == "BOOL" else 64
    digits = [(numbers // base**place) % base for place in range(12 if base == 2 else 2)]
    return np.stack(digits, axis=1).astype(DATATYPES[datatype].numpy)


@pytest.mark.field_fault("S-04")
def test_questions_of_every_datatype_at_once_get_their_own_rows(ask_many: AskMany) -> None:
    cases = [(form, datatype) for form in FORMS for datatype in ONNX]
    questions = [
        (form, datatype, told_apart(datatype, 10 * number, 1 + number % 9))
        for number, (form, datatype) in enumerate(cases * 5)
    ]
    questions = [question for question in questions if can_say(*question)]
    for question, answered in zip(questions, ask_many(questions), strict=True):
        check_answer(question[0], answered, question[2])
