"""The shape of predictions for people."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from tests.fixtures import edges, onnx_models
from tidegate.artifacts.manifest import Column, LabelsSpec, TabularSpec, TransformSpec
from tidegate.errors import RequestRejectedError
from tidegate.oip.errors import NonFiniteOutputError
from tidegate_realtime.api.examples import example_request
from tidegate_realtime.api.forms import Asked, PredictForm
from tidegate_realtime.api.served import ServedVersion

FORM = PredictForm()


@pytest.fixture
def echo(tmp_path: Path) -> ServedVersion:
    return edges.described(edges.load(onnx_models.echo(tmp_path / "echo.onnx")))


@pytest.fixture
def table(tmp_path: Path) -> ServedVersion:
    transforms = TransformSpec(
        tabular=TabularSpec(
            input="input",
            columns=(
                Column(name="age", type="number"),
                Column(name="plan", type="category", categories=("free", "paid")),
            ),
        ),
        labels=LabelsSpec(output="output", names=("stays", "leaves")),
    )
    file = onnx_models.echo(tmp_path / "echo.onnx")
    return edges.described(edges.load(file, transforms=transforms))


def decode(served: ServedVersion, content: object) -> Asked:
    return FORM.decode(orjson.dumps(content), served)


def predictions(served: ServedVersion, rows: int, **outputs: np.ndarray[Any, Any]) -> object:
    asked = Asked(inputs={}, rows=rows, outputs=())
    return orjson.loads(FORM.encode(served, asked, outputs, request_id="r").body)["predictions"]


def test_the_only_output_stands_bare(echo: ServedVersion) -> None:
    values = np.array([[0.1, 1.0], [2.0, 16777216.0]], np.float32)
    assert predictions(echo, 2, output=values) == [[0.1, 1.0], [2.0, 16777216.0]]


def test_labels_make_objects_with_the_label_first(table: ServedVersion) -> None:
    values = np.array([[0.25, 0.75]], np.float32)
    asked = Asked(inputs={}, rows=1, outputs=())
    written = FORM.encode(table, asked, {"output": values}, request_id="r").body
    assert written.startswith(
        b'{"predictions":[{"label":"leaves","probability":0.75,"prediction":[0.25,0.75]}],'
    )


def test_a_reply_for_people_has_exactly_these_bytes(table: ServedVersion) -> None:
    values = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)
    asked = Asked(inputs={}, rows=2, outputs=())
    written = FORM.encode(table, asked, {"output": values}, request_id="r-1")
    assert written.json_bytes is None
    assert written.body == (
        b'{"predictions":[{"label":"leaves","probability":0.75,"prediction":[0.25,0.75]},'
        b'{"label":"stays","probability":1.0,"prediction":[1.0,0.0]}],'
        b'"model_name":"echo","model_version":"1","model_digest":"'
        + edges.DIGEST.encode()
        + b'","served_by":"model","request_id":"r-1"}'
    )


def test_named_columns_become_the_models_input(table: ServedVersion) -> None:
    rows = [{"age": 40, "plan": "paid", "ignored": None}, [7.5, "free"]]
    assert decode(table, {"instances": rows}).inputs["input"].tolist() == [[40, 1], [7.5, 0]]


@pytest.mark.parametrize(
    ("content", "code", "hint"),
    [
        ({"instances": []}, "malformed_request", "at least one"),
        ({"instances": {}}, "malformed_request", "instances"),
        ({"inputs": {"age": [1]}}, "malformed_request", "instances"),
        ({"instances": [[0, "free"]] * 4097}, "too_many_rows", "4096"),
        ({"instances": [{"age": 1}]}, "signature_mismatch", "plan"),
        ({"instances": [{"age": None, "plan": "free"}]}, "signature_mismatch", "age"),
        ({"instances": [{"age": "1", "plan": "free"}]}, "signature_mismatch", "age"),
        ({"instances": [[1, "free"], [2]]}, "signature_mismatch", "instance 1"),
        (
            {"instances": [[1, "free"]], "parameters": {"tidegate_x": 1}},
            "bad_option",
            "tidegate_x",
        ),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_what_was_expected(
    table: ServedVersion, content: object, code: str, hint: str
) -> None:
    with pytest.raises(RequestRejectedError, match=hint) as caught:
        decode(table, content)
    assert caught.value.code == code


def test_infinity_is_no_prediction(table: ServedVersion) -> None:
    with pytest.raises(NonFiniteOutputError):
        predictions(table, 1, output=np.array([[np.inf, 0]], np.float32))


def test_the_example_for_newcomers_is_a_request_that_is_accepted(
    echo: ServedVersion, table: ServedVersion
) -> None:
    for served in (echo, table):
        line = example_request(served, public_url="http://127.0.0.1:8000")
        assert line.startswith("curl http://127.0.0.1:8000/v1/models/echo:predict -d '")
        assert FORM.decode(line.split("'")[1].encode(), served).rows == 1


def test_a_model_with_huge_rows_gets_a_look_at_its_signature_instead(tmp_path: Path) -> None:
    file = onnx_models.echo(tmp_path / "wide.onnx", width=1_000)
    served = edges.described(edges.load(file))
    line = example_request(served, public_url="http://127.0.0.1:8000")
    assert line == "curl http://127.0.0.1:8000/v2/models/echo"
