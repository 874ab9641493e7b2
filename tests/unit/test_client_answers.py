"""What a client makes of replies: answers, errors by whose fault it is, and nonsense."""

from dataclasses import fields
from sys import maxsize
from typing import Any

import numpy as np
import orjson
import pytest

from tidegate.client import answers
from tidegate.client.errors import (
    BadRequestError,
    ClientError,
    DeadlineExpiredError,
    NotFoundError,
    RejectedError,
    ServerFaultError,
    UnauthorizedError,
)
from tidegate.client.transport import HttpReply
from tidegate.oip.limits import WireLimits

TAG = {
    "model_name": "risk",
    "model_version": "7",
    "model_digest": "sha256:ab",
    "served_by": "model",
    "request_id": "r-1",
}
LABELLED = [{"label": "no", "prediction": [0.25]}, {"label": "yes", "prediction": [0.75]}]


def reply(content: object, status: int = 200, **headers: str) -> HttpReply:
    body = content if isinstance(content, bytes) else orjson.dumps(content)
    return HttpReply(status=status, headers=headers, body=body)


def predicted(predictions: list[Any]) -> answers.Prediction:
    return answers.read_predictions(reply({"predictions": predictions, **TAG}))


def inferred(outputs: list[dict[str, Any]], blobs: bytes, **headers: str) -> HttpReply:
    parameters = {"tidegate_digest": "sha256:ab", "tidegate_served_by": "model"}
    head = orjson.dumps(
        {
            "model_name": "risk",
            "model_version": "7",
            "parameters": parameters,
            "outputs": outputs,
        }
    )
    named = {"inference-header-content-length": str(len(head)), "x-request-id": "r-1"}
    return HttpReply(status=200, headers=named | headers, body=head + blobs)


def output(name: str, datatype: str, shape: list[int], size: object) -> dict[str, Any]:
    return {
        "name": name,
        "datatype": datatype,
        "shape": shape,
        "parameters": {"binary_data_size": size},
    }


def test_an_answer_names_the_model_that_made_it() -> None:
    answer = predicted([1.5])
    assert (answer.model_name, answer.model_version, answer.model_digest) == (
        *("risk", 7),
        "sha256:ab",
    )
    assert (answer.served_by, answer.request_id) == ("model", "r-1")


def test_predictions_are_arrays_by_output_too() -> None:
    assert predicted([1.5, 2.5]).outputs["prediction"].tolist() == [1.5, 2.5]
    outputs = predicted(LABELLED).outputs
    assert {name: array.tolist() for name, array in outputs.items()} == {
        "label": ["no", "yes"],
        "prediction": [[0.25], [0.75]],
    }
    assert predicted([[1], [2, 3]]).outputs["prediction"].tolist() == [[1], [2, 3]]
    assert predicted([]).outputs["prediction"].shape == (0,)


def test_bytes_come_back_as_bytes_at_any_depth() -> None:
    assert predicted(
        [{"b64": "AP8="}, [{"x": {"b64": ""}}], {"b64": "AA==", "n": 1}]
    ).predictions == [
        b"\x00\xff",
        [{"x": b""}],
        {"b64": "AA==", "n": 1},
    ]


def test_arrays_are_views_of_the_reply_and_rows_of_them_are_predictions() -> None:
    blobs = np.array([[1, 2], [3, 4]], np.float32).tobytes() + b"\x01\0\0\0a\x02\0\0\0\xc3\xa4"
    read = answers.read_arrays(
        inferred([output("y", "FP32", [2, 2], 16), output("label", "BYTES", [2], 11)], blobs)
    )
    assert read.outputs["y"].dtype == np.float32
    assert not read.outputs["y"].flags.writeable
    assert read.predictions == [
        {"y": [1.0, 2.0], "label": "a"},
        {"y": [3.0, 4.0], "label": "ä"},
    ]
    assert (read.model_version, read.model_digest, read.request_id) == (7, "sha256:ab", "r-1")
    single = answers.read_arrays(inferred([output("y", "INT64", [2], 16)], b"\x01" + bytes(15)))
    assert single.predictions == [1, 0]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "malformed_json", BadRequestError),
        (401, "unauthenticated", UnauthorizedError),
        (403, "forbidden", UnauthorizedError),
        (404, "model_not_found", NotFoundError),
        (404, "version_not_served", NotFoundError),
        (413, "too_many_rows", BadRequestError),
        (422, "signature_mismatch", BadRequestError),
        (422, "deadline_too_short", DeadlineExpiredError),
        (429, "quota_exceeded", RejectedError),
        (500, "model_failed", ServerFaultError),
        (503, "deadline_unreachable", RejectedError),
        (504, "deadline_expired", DeadlineExpiredError),
        (302, "", ServerFaultError),
        (502, "", ServerFaultError),
    ],
)
def test_an_error_says_whose_fault_it_is_what_was_said_and_what_to_do(
    status: int, code: str, kind: type[ClientError]
) -> None:
    content = {"error": "It is so", "code": code, "request_id": "r-1", "details": {"found": 3}}
    with pytest.raises(kind) as raised:
        answers.read_predictions(reply(content, status))
    error = raised.value
    assert type(error) is kind
    assert str(error).startswith("It is so.")
    assert error.code == (code or kind.code)
    assert (error.status, error.request_id, error.details) == (status, "r-1", {"found": 3})


def test_a_rejection_tells_the_figures_of_admission() -> None:
    details = {"predicted_ms": 81.5, "slo_ms": 50, "rows_ahead": 40, "retry_after_ms": 120}
    content = {"error": "Later.", "code": "deadline_unreachable", "details": details}
    with pytest.raises(RejectedError) as raised:
        answers.read_predictions(reply(content, 503, **{"retry-after": "1"}))
    error = raised.value
    assert (error.reason, error.predicted_ms, error.retry_after_ms) == (
        "deadline_unreachable",
        81.5,
        120.0,
    )


@pytest.mark.parametrize("details", [{}, {"retry_after_ms": True, "predicted_ms": "soon"}])
def test_figures_that_are_none_are_not_taken_for_some(details: dict[str, object]) -> None:
    content = {"error": "Later.", "code": "queue_full", "details": details}
    with pytest.raises(RejectedError) as raised:
        answers.read_predictions(reply(content, 503, **{"retry-after": "Wed, 21 Oct 2026"}))
    assert (raised.value.predicted_ms, raised.value.retry_after_ms) == (None, None)


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"\xff", b"[]", b'{"a":1}'])
def test_an_error_that_no_gateway_wrote_is_shown_as_it_came(body: bytes) -> None:
    with pytest.raises(ServerFaultError, match="Status 502 from something that is no gateway"):
        answers.read_models(reply(body, 502))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"<html>",
        [],
        {},
        {"predictions": [1]},
        {"predictions": {}, **TAG},
        {"predictions": [1], **TAG, "model_version": 7},
        {"predictions": [1], **TAG, "model_version": "seven"},
        {"predictions": [{"b64": "?"}], **TAG},
    ],
)
def test_a_reply_that_is_no_prediction_is_the_servers_fault(content: object) -> None:
    with pytest.raises(ServerFaultError, match="public listener"):
        answers.read_predictions(reply(content))


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (inferred([output("y", "FP32", [2], 8)], b"1234"), "binary_data_size 8, of 4 bytes"),
        (inferred([output("y", "FP32", [2], 4)], b"1234"), "2 of FP32 are 8 bytes"),
        (inferred([output("y", "FP32", [-1], 0)], b""), "shape"),
        (inferred([output("y", "FP32", [1], True)], b"1234"), "binary_data_size True"),
        (inferred([output("y", "FP32", [1], -4)], b"1234"), "binary_data_size -4"),
        (inferred([output("y", "FP31", [1], 4)], b"1234"), "no datatype"),
        (inferred([output("y", "BYTES", [1], 4)], b"\x09\0\0\0"), "goes beyond"),
        (inferred([], b"", **{"inference-header-content-length": "99999"}), "of 1"),
        (inferred([], b"", **{"inference-header-content-length": "-1"}), "'-1'"),
        (inferred([{"name": "y", "datatype": "FP32", "shape": [1], "data": [1]}], b""), "None"),
    ],
)
def test_arrays_that_do_not_fit_their_description_are_the_servers_fault(
    broken: HttpReply, said: str
) -> None:
    with pytest.raises(ServerFaultError, match=said):
        answers.read_arrays(broken)


def test_readiness_is_yes_no_or_an_error() -> None:
    assert answers.read_readiness(reply({"ready": True}))
    assert not answers.read_readiness(reply({"error": "Starting.", "code": "not_ready"}, 503))
    with pytest.raises(NotFoundError):
        answers.read_readiness(reply({"error": "No.", "code": "model_not_found"}, 404))


def test_an_answer_of_more_texts_than_a_request_may_have_is_read() -> None:
    count = 262_145
    output = {
        "name": "tokens",
        "datatype": "BYTES",
        "shape": [1, count],
        "parameters": {"binary_data_size": 4 * count},
    }
    prediction = answers.read_arrays(inferred([output], b"\0" * (4 * count)))
    assert prediction.outputs["tokens"].shape == (1, count)


def test_a_client_sets_no_limit_of_what_has_come() -> None:
    assert all(getattr(answers._ANY_SIZE, limit.name) == maxsize for limit in fields(WireLimits))
