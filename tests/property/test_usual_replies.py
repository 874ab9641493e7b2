"""The usual reply, written in one step, has the bytes that the general code writes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tidegate.oip import NamedOutput, ResponseTag, encode_response
from tidegate.oip.errors import NonFiniteOutputError
from tidegate.oip.packing import PACKED
from tidegate.oip.response import SMALL_BYTES, EncodedReply
from tidegate.oip.usual import usual_response
from tidegate.tensors.datatypes import DATATYPES

TAG = ResponseTag(
    model_name="risk", model_version="7", parameters={"tidegate_digest": 'sha256:"é', "b": True}
)
SHAPES = hnp.array_shapes(max_dims=3, min_side=0, max_side=3)


def numbers(datatype: str) -> st.SearchStrategy[tuple[str, np.ndarray[Any, Any]]]:
    return st.tuples(st.just(datatype), hnp.arrays(np.dtype(DATATYPES[datatype].numpy), SHAPES))


def usual(output: NamedOutput, id: str | None = None) -> EncodedReply | None:
    return usual_response(
        TAG,
        output.values,
        id=id,
        name=output.name,
        datatype=output.datatype,
        binary=output.binary,
    )


@given(
    st.one_of([numbers(datatype) for datatype in sorted(PACKED)]),
    st.none() | st.text(),
    st.sampled_from(["y", 'q"é\n']),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_a_reply_written_in_one_step_has_the_bytes_of_one_written_in_many(
    made: tuple[str, np.ndarray[Any, Any]], id: str | None, name: str, binary: bool, turned: bool
) -> None:
    datatype, values = made
    output = NamedOutput(name, datatype, values.T if turned else values, binary)
    found = usual(output, id)
    if binary or values.dtype.kind != "f" or np.isfinite(values).all():
        assert found == encode_response(TAG, id=id, outputs=[output])
    else:
        assert found is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_what_json_cannot_say_is_left_to_be_refused(datatype: str, value: float) -> None:
    values = np.array([[1, value]], DATATYPES[datatype].numpy)
    output = NamedOutput("null", datatype, values)
    assert usual(output, "null") is None
    with pytest.raises(NonFiniteOutputError):
        encode_response(TAG, id="null", outputs=[output])


@pytest.mark.parametrize("datatype", ["FP16", "BF16", "BOOL", "BYTES"])
def test_an_output_of_something_else_is_left_alone(datatype: str) -> None:
    values = np.zeros((1, 2), DATATYPES[datatype].numpy)
    assert usual(NamedOutput("y", datatype, values, binary=True)) is None


def test_an_output_that_may_be_too_long_is_left_to_be_reckoned() -> None:
    longest = np.zeros((1, SMALL_BYTES), np.uint8)
    assert usual(NamedOutput("y", "UINT8", longest)) is not None
    longer = np.zeros((1, SMALL_BYTES + 1), np.uint8)
    assert usual(NamedOutput("y", "UINT8", longer)) is None
