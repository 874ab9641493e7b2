"""What is read in one step is what the general code reads of it: the usual request, and bytes
behind JSON that is known already."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.fixtures import edges, onnx_models
from tidegate.artifacts.manifest import Column, TabularSpec, TransformSpec
from tidegate.errors import RequestRejectedError, TidegateError
from tidegate.oip import InferRequest, decode_request
from tidegate.oip.errors import UnsupportedParameterError
from tidegate.oip.limits import UNCOUNTED_BYTES
from tidegate.oip.packing import PACKED, NumberRows
from tidegate.oip.request import HEADS
from tidegate.oip.usual import usual_instances, usual_request
from tidegate.tensors.datatypes import DATATYPES
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate_realtime.api.forms import Asked, PredictForm, instances_asked
from tidegate_realtime.api.served import ServedVersion

SHAPES = [(-1,), (-1, 1), (-1, 2), (-1, 1, 2), (3, 2)]
NUMBERS = [
    *("0", "-0", "1", "2", "-1", "1.0", "0.1", "1e0", "-0.0", "1.5", "127", "128", "255", "256"),
    *("16777217", "9007199254740993", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551615", "18446744073709551616", "1" + "0" * 30, "1" + "0" * 400),
    *("3.4028235677973362e38", "3.4028235677973366e38", "1e39", "1e308", "1e400", "5e-324"),
]
OTHERS = ["true", "false", "null", '"1"', "[1]", "[]", "{}", "NaN", "01", "+1", ".5", "1.", ""]
PARAMETERS = [
    *("null", "{}", '{"binary_data_output":true}', '{"timeout":5}', '{"a":"true","b":1.5}'),
    *('{"binary_data_output":1}', '{"sequence_id":1}', '{"tidegate_x":true}', '{"a":{}}'),
    *('{"binary_data_size":4}', "[]", "{" + ",".join(f'"{n}":1' for n in range(65)) + "}"),
]
OUTPUTS = [
    *("null", "[]", '[{"name":"y"}]', '[{"name":"y"},{"name":"y"}]', '[{"name":"z"}]'),
    *('[{"name":"y","parameters":{"binary_data":true}}]', '[{"name":"y","else":1}]', "{}"),
    *('[{"name":"y","parameters":{"classification":2}}]', '[{"name":5}]'),
]
FURTHER = [
    *('"data":[1]', '"else":[[]]', '"parameters":{}', '"parameters":null'),
    *('"parameters":{"binary_data_size":4}', '"parameters":{"content_type":"np"}'),
]
OTHER_SHAPES = ["[]", "[1.0,2]", "[-1]", "[true,2]", f"[1{'0' * 2_999},1{'0' * 2_999}]"]
"""The last one asks for more values than Python writes in figures."""
mostly_numbers = st.sampled_from([*NUMBERS * 3, *OTHERS])
usual_numbers = st.sampled_from(NUMBERS[:8])


def signature(datatype: str, shape: tuple[int, ...]) -> Signature:
    return Signature(
        inputs=(TensorSpec(name="x", datatype=datatype, shape=shape),),
        outputs=(TensorSpec(name="y", datatype="FP32", shape=(-1, 2)),),
    )


def shuffled(draw: st.DrawFn, fields: list[str]) -> str:
    return "{" + ",".join(draw(st.permutations(fields))) + "}"


def listed(draw: st.DrawFn, count: int) -> str:
    values = draw(st.sampled_from([usual_numbers, usual_numbers, mostly_numbers]))
    numbers = draw(st.lists(values, min_size=count, max_size=count))
    return "[" + ",".join(numbers) + "]"


def damaged(draw: st.DrawFn, text: str) -> bytes:
    """Mostly leave a text alone; else put something in the place of some of its bytes."""
    body = text.encode()
    if draw(st.integers(0, 3)):
        return body
    begin = draw(st.integers(0, len(body)))
    end = min(len(body), begin + draw(st.integers(0, 4)))
    other = draw(
        st.binary(max_size=3) | st.sampled_from([b"[", b"]", b'"', b",", b"{}", b" ", b"0"])
    )
    return body[:begin] + other + body[end:]


@st.composite
def infer_bodies(draw: st.DrawFn) -> tuple[Signature, bytes]:
    """Make a request that is usual, or hardly differs from that."""
    datatype = draw(st.sampled_from([*PACKED, "FP32", "FP32", "BOOL", "BYTES", "FP16"]))
    asked = signature(datatype, draw(st.sampled_from(SHAPES)))
    rows = draw(st.integers(1, 3))
    shape = [rows, *asked.inputs[0].row_shape]
    count = int(np.prod(shape)) + draw(st.sampled_from([0] * 8 + [1, -1]))
    said_shape = draw(st.sampled_from([str(shape)] * 8 + OTHER_SHAPES))
    fields = [
        f'"name":"{draw(st.sampled_from(["x"] * 8 + ["y", ""]))}"',
        f'"datatype":"{draw(st.sampled_from([datatype] * 8 + ["FP32", "INT8", "fp32"]))}"',
        f'"shape":{said_shape}',
        f'"data":{listed(draw, max(0, count))}',
    ]
    fields += draw(st.lists(st.sampled_from(FURTHER), max_size=1))
    tensor = shuffled(draw, fields)
    outside = [f'"inputs":[{tensor}]']
    outside += draw(
        st.lists(
            st.sampled_from(['"id":"7"', '"id":""', '"id":null', '"id":"true"', '"else":{}'])
            | st.sampled_from(PARAMETERS).map('"parameters":{}'.format)
            | st.sampled_from(OUTPUTS).map('"outputs":{}'.format)
            | st.sampled_from([f'"inputs":[{tensor},{tensor}]', '"inputs":[]']),
            max_size=2,
        )
    )
    return asked, damaged(draw, shuffled(draw, outside))


def outcome(read: Callable[[], InferRequest | Asked]) -> tuple[object, ...]:
    """Return all that there is to see of a request, or of its refusal."""
    try:
        asked = read()
    except TidegateError as error:
        return type(error), str(error), error.details
    inputs = {
        name: (
            array.dtype,
            array.shape,
            array.tolist() if array.dtype == object else array.tobytes(),
        )
        for name, array in asked.inputs.items()
    }
    binary = asked.binary if isinstance(asked, InferRequest) else None
    return asked.id, asked.rows, inputs, asked.outputs, binary, asked.parameters


def generally(body: bytes, asked: Signature) -> InferRequest:
    request = decode_request(body)
    asked.check(request.inputs)
    return request


class LeftAloneError(RequestRejectedError):
    """The usual code says nothing of a body, which is always right."""


def usually(body: bytes, numbers: NumberRows | None) -> InferRequest:
    request = None if numbers is None else usual_request(body, numbers)
    if request is None:
        raise LeftAloneError("not usual")
    return request


@given(infer_bodies())
@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_read_in_one_step_is_read_alike_in_many(made: tuple[Signature, bytes]) -> None:
    asked, body = made
    found = outcome(lambda: usually(body, NumberRows.of(asked)))
    expected = outcome(lambda: generally(body, asked))  # also of what is left to it
    assert found in (expected, (LeftAloneError, "not usual", {}))


@pytest.mark.parametrize("datatype", sorted(PACKED))
def test_each_value_of_each_datatype_is_read_alike_or_left_alone(datatype: str) -> None:
    asked = signature(datatype, (-1, 2))
    numbers = NumberRows.of(asked)
    for value in [*NUMBERS, *OTHERS]:
        body = (
            f'{{"inputs":[{{"name":"x","shape":[1,2],"datatype":"{datatype}","data":[1,{value}]}}]}}'
        ).encode()
        found = outcome(partial(usually, body, numbers))
        expected = outcome(partial(generally, body, asked))
        assert found in (expected, (LeftAloneError, "not usual", {}))
        assert (found == expected) == isinstance(expected[0], str | None)


@given(st.data(), st.sampled_from(sorted(PACKED)), st.sampled_from(SHAPES), st.integers(1, 3))
def test_the_usual_request_is_never_left_alone(
    data: st.DataObject, datatype: str, shape: tuple[int, ...], rows: int
) -> None:
    asked = signature(datatype, shape)
    numbers = NumberRows.of(asked)
    assert numbers is not None
    shape = (rows, *shape[1:])
    count = int(np.prod(shape))
    values = data.draw(st.lists(st.integers(0, 127), min_size=count, max_size=count))
    outside = data.draw(st.sampled_from(["", '"id":"a",', '"parameters":{"timeout":5},']))
    body = (
        f'{{{outside}"inputs":[{{"name":"x","shape":{list(shape)},"datatype":"{datatype}",'
        f'"data":{values}}}],"outputs":[{{"name":"y"}}]}}'
    ).encode()
    request = usual_request(body, numbers)
    assert request is not None
    assert request.inputs["x"].ravel().tolist() == values


@pytest.mark.field_fault("P-38")
@pytest.mark.parametrize(
    "before",
    [
        '{"else":',
        '{"inputs":',
        '{"inputs":[{"else":',
        '{"id":',
        '{"inputs":[{"data":[',
        '{"parameters":{"a":',
        '{"outputs":[{"else":',
        '{"outputs":[{"parameters":{"a":',
    ],
)
@pytest.mark.parametrize("opening", ["[", '{"a":', '{"inputs":[', '{"instances":['])
def test_no_nesting_is_followed(before: str, opening: str) -> None:
    numbers = NumberRows.of(signature("FP32", (-1, 2)))
    assert numbers is not None
    assert usual_request(f"{before}{opening * 20_000}".encode(), numbers) is None


def test_more_rows_than_a_request_may_carry_are_left_alone() -> None:
    numbers = NumberRows.of(signature("UINT8", (-1, 1)))
    assert numbers is not None
    assert numbers.pack([1] * 4_096) is not None
    assert numbers.pack([1] * 4_097) is None
    assert numbers.pack([]) is None
    assert numbers.pack_each([[1]] * 4_096) is not None
    assert numbers.pack_each([[1]] * 4_097) is None
    assert numbers.pack_each([]) is None


def test_what_is_too_long_to_go_uncounted_is_left_alone() -> None:
    numbers = NumberRows.of(signature("FP32", (-1, 1)))
    assert numbers is not None
    body = b'{"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[1]}]}'
    assert usual_request(body.ljust(UNCOUNTED_BYTES), numbers) is not None
    assert usual_request(body.ljust(UNCOUNTED_BYTES + 1), numbers) is None
    instances = b'{"instances":[[1]]}'
    assert usual_instances(instances.ljust(UNCOUNTED_BYTES), numbers) is not None
    assert usual_instances(instances.ljust(UNCOUNTED_BYTES + 1), numbers) is None


def test_usual_instances_are_the_tensor_and_the_parameters_beside_them() -> None:
    numbers = NumberRows.of(signature("UINT8", (-1, 2)))
    assert numbers is not None
    read = usual_instances(b'{"parameters":{"a":1},"instances":[[1,2],[3,4]]}', numbers)
    assert read is not None
    values, parameters = read
    assert (values.tolist(), parameters) == ([[1, 2], [3, 4]], {"a": 1})
    for other in ('{"instances":[]}', '{"instances":[[1]]}', '{"instances":[[1,256]]}', "[]"):
        assert usual_instances(other.encode(), numbers) is None
    with pytest.raises(UnsupportedParameterError):
        usual_instances(b'{"instances":[[1,2]],"parameters":{"sequence_id":1}}', numbers)


@pytest.mark.parametrize(
    ("datatype", "shape"),
    [
        ("FP16", (-1, 2)),
        ("BOOL", (-1, 2)),
        ("BYTES", (-1, 2)),
        ("FP32", (-1, -1)),
        ("FP32", (-1, 0)),
        ("FP32", ()),
        ("FP32", (-1, 1, 1, 1, 1, 1, 1, 1, 1)),
    ],
)
def test_a_model_that_reads_something_else_has_no_usual_request(
    datatype: str, shape: tuple[int, ...]
) -> None:
    assert NumberRows.of(signature(datatype, shape)) is None


def test_a_model_with_two_inputs_has_no_usual_request() -> None:
    one = signature("FP32", (-1, 2))
    two = Signature(
        inputs=(*one.inputs, TensorSpec(name="z", datatype="FP32", shape=(-1,))),
        outputs=one.outputs,
    )
    assert NumberRows.of(two) is None


TYPES = {
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "INT8": TensorProto.INT8,
    "INT64": TensorProto.INT64,
    "UINT64": TensorProto.UINT64,
}


def columns(*kinds: str) -> TransformSpec:
    made = [Column(name=f"c{place}", type=kind) for place, kind in enumerate(kinds)]  # type: ignore[arg-type] # a kind each
    return TransformSpec(tabular=TabularSpec(input="x", columns=tuple(made)))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> list[ServedVersion]:
    folder = tmp_path_factory.mktemp("models")

    def model(
        datatype: str, *shape: int | str, transforms: TransformSpec | None = None
    ) -> ServedVersion:
        values = [helper.make_tensor_value_info(name, TYPES[datatype], shape) for name in "xy"]
        file = folder / f"{datatype}{len(shape)}.onnx"
        onnx_models.save(file, [helper.make_node("Identity", ["x"], ["y"])], values[:1], values[1:])
        return edges.described(edges.load(file, transforms=transforms))

    return [
        *[model(datatype, "rows", 2) for datatype in TYPES],
        model("FP32", "rows"),
        model("FP32", "rows", 1, 2),
        model("FP32", "rows", 2, transforms=columns("number", "number")),
        model("FP64", "rows", 2, transforms=columns("number", "number")),
        model("FP32", "rows", 2, transforms=columns("number", "integer")),
        model("FP32", "rows", 2, transforms=columns("number", "boolean")),
        model("FP32", "rows", 2, transforms=columns("number")),
        model("FP32", "rows", 2, transforms=columns("number", "number", "number")),
        model("INT64", "rows", 2, transforms=columns("number", "number")),
    ]


def test_lists_of_numbers_are_usual_where_they_are_the_tensor(served: list[ServedVersion]) -> None:
    usual = [version.model.listed_numbers is not None for version in served]
    assert usual == [True] * 5 + [False] * 2 + [True] * 2 + [False] * 5


def test_each_value_of_each_model_is_read_alike(served: list[ServedVersion]) -> None:
    for version in served[:13]:
        for value in [*NUMBERS, *OTHERS]:
            body = f'{{"instances":[[1,{value}]]}}'.encode()
            found = outcome(partial(PredictForm().decode, body, version))
            assert found == outcome(partial(instances_asked, body, version)), (value, version.model)


@st.composite
def predict_bodies(draw: st.DrawFn) -> bytes:
    """Make instances that are lists of two numbers, or hardly differ from that."""
    widths = draw(st.lists(st.sampled_from([2] * 12 + [0, 1, 3]), max_size=3))
    rows = ",".join(listed(draw, width) for width in widths)
    outside = draw(
        st.sampled_from(
            [[]] * 6
            + [
                ['"parameters":{}'],
                ['"parameters":{"sequence_id":1}'],
                ['"else":[[]]'],
                ['"instances":[[1,2]]'],
            ]
        )
    )
    return damaged(draw, shuffled(draw, [f'"instances":[{rows}]', *outside]))


@given(predict_bodies(), st.integers(0, 12))
@example(b'{"instances":[[9007199254740993,1]]}', 0)
@settings(max_examples=800, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_instances_read_in_one_step_are_read_alike_in_many(
    served: list[ServedVersion], body: bytes, place: int
) -> None:
    version = served[place]
    found = outcome(lambda: PredictForm().decode(body, version))
    assert found == outcome(lambda: instances_asked(body, version))


@pytest.mark.field_fault("P-38")
@pytest.mark.parametrize("before", ['{"instances":', '{"instances":[[', '{"else":'])
def test_no_nesting_of_instances_is_followed(served: list[ServedVersion], before: str) -> None:
    body = f"{before}{'[' * 20_000}".encode()
    found = outcome(lambda: PredictForm().decode(body, served[0]))
    assert found == outcome(lambda: instances_asked(body, served[0]))


DATATYPES_OF_BYTES = ["BOOL", "BOOL", "FP32", "INT64", "FP16", "BF16", "UINT8"]
blob_tensors = st.lists(
    st.tuples(
        st.sampled_from(DATATYPES_OF_BYTES), st.sampled_from([[1], [1, 2], [2, 1], [1, 0], [0]])
    ),
    min_size=1,
    max_size=3,
)


@given(blob_tensors, st.data())
@settings(max_examples=200, deadline=None)
def test_bytes_behind_json_that_is_known_are_read_as_if_it_were_not(
    tensors: list[tuple[str, list[int]]], data: st.DataObject
) -> None:
    sizes = [int(np.prod(shape)) * (DATATYPES[name].item_bytes or 0) for name, shape in tensors]
    inputs = [
        f'{{"name":"i{place}","datatype":"{datatype}","shape":{shape},'
        f'"parameters":{{"binary_data_size":{size}}}}}'
        for place, ((datatype, shape), size) in enumerate(zip(tensors, sizes, strict=True))
    ]
    text = f'{{"inputs":[{",".join(inputs)}]}}'.encode()
    exact = st.binary(min_size=sum(sizes), max_size=sum(sizes))
    others = data.draw(st.lists(exact | st.binary(max_size=9), max_size=3))
    blobs = [bytes(sum(sizes)), b"\1" * sum(sizes), *others, b"\2" * sum(sizes)]
    for blob in blobs:
        read = partial(decode_request, text + blob, json_bytes=len(text))
        known, kept = outcome(read), HEADS.pop(text, None)
        assert known == outcome(read)
        if kept is not None:
            HEADS[text] = kept
