"""What a client sends, as bytes; and what it refuses to send, with a sentence."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest

from tidegate.client.calls import Calls, Columns, Rows
from tidegate.client.checks import check_address, check_count
from tidegate.client.errors import BadRequestError
from tidegate.client.questions import Wishes
from tidegate.client.tensors import Array
from tidegate.client.transport import HttpRequest
from tidegate.oip.binary import array_from_bytes

WISHES = Wishes(request_id="r-1", headers={})
ROWS = Rows(instances=[1])


def ask(rows: Rows, wishes: Wishes = WISHES, *, model: str = "risk") -> HttpRequest:
    return Calls.of("tg_1_secret", 500).predict(model, rows, wishes).question


def instances_of(rows: Rows) -> object:
    return orjson.loads(ask(rows).body)["instances"]


def test_columns_become_one_object_a_row() -> None:
    columns: Columns = {"age": [31, 52], "name": np.array(["a", "ü"]), "x": (v / 2 for v in (1, 2))}
    assert instances_of(Rows(columns=columns)) == [
        {"age": 31, "name": "a", "x": 0.5},
        {"age": 52, "name": "ü", "x": 1.0},
    ]


@pytest.mark.parametrize(
    ("instances", "written"),
    [
        ([1, True, None, "null"], [1, True, None, "null"]),
        ([b"\x00\xff"], [{"b64": "AP8="}]),
        ([{"image": b"\x00\xff", "n": 2**63 - 1}], [{"image": {"b64": "AP8="}, "n": 2**63 - 1}]),
        (np.array([[1.5, 2.0]], np.float32), [[1.5, 2.0]]),
        ([np.array(["a", 1], object), np.int64(-(2**63))], [["a", 1], -(2**63)]),
        ([np.float32(0.1)], [0.1]),
    ],
)
def test_instances_travel_exactly(instances: Sequence[Any], written: list[Any]) -> None:
    assert instances_of(Rows(instances=instances)) == written


def test_a_prediction_is_asked_for_with_key_id_version_and_priority() -> None:
    wishes = replace(WISHES, version="candidate", priority=1, headers={"traceparent": "00-1"})
    question = ask(ROWS, wishes)
    assert (question.method, question.path) == (
        "POST",
        "/v1/models/risk/versions/candidate:predict",
    )
    headers = dict(question.headers)
    assert headers["Authorization"] == "Bearer tg_1_secret"
    assert (headers["X-Request-Id"], headers["traceparent"]) == ("r-1", "00-1")
    assert orjson.loads(question.body)["parameters"] == {"priority": 1}


def test_arrays_follow_their_description_as_bytes() -> None:
    x, ids = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(["ä", b"\xff\x00"], object)
    question = ask(Rows(arrays={"x": x, "ids": ids}), replace(WISHES, version=7))
    assert question.path == "/v2/models/risk/versions/7/infer"
    length = int(dict(question.headers)["Inference-Header-Content-Length"])
    head = orjson.loads(question.body[:length])
    assert head["parameters"] == {"binary_data_output": True}
    described = [(t["name"], t["datatype"], t["shape"]) for t in head["inputs"]]
    assert described == [("x", "FP32", [2, 3]), ("ids", "BYTES", [2])]
    blobs = question.body[length:]
    assert blobs == x.tobytes() + b"\x02\0\0\0\xc3\xa4" + b"\x02\0\0\0\xff\x00"
    sizes = [t["parameters"]["binary_data_size"] for t in head["inputs"]]
    assert sizes == [24, 12]


@pytest.mark.parametrize(
    ("array", "datatype"),
    [
        (np.array([True, False]), "BOOL"),
        (np.array([2**64 - 1], np.uint64), "UINT64"),
        (np.array([1, -2], ">i2"), "INT16"),
        (np.array([1.5, np.inf], np.float16), "FP16"),
        (np.arange(12, dtype=np.float64).reshape(3, 4)[:, ::2], "FP64"),
        (np.zeros((0, 3), np.int8), "INT8"),
        (np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)), "INT32"),
    ],
)
def test_an_array_of_any_layout_is_read_as_it_was(array: Array, datatype: str) -> None:
    question = ask(Rows(arrays={"x": array}))
    length = int(dict(question.headers)["Inference-Header-Content-Length"])
    (tensor,) = orjson.loads(question.body[:length])["inputs"]
    assert tensor["datatype"] == datatype
    read = array_from_bytes(
        question.body[length:], name="x", datatype=datatype, shape=tensor["shape"]
    )
    np.testing.assert_array_equal(read, array)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: ask(Rows(columns={"a": [1, 2], "b": [1]})), r"found \{'a': 2, 'b': 1\}"),
    (lambda: ask(Rows(columns={})), "no rows"),
    (lambda: ask(Rows(columns={"a": []})), "no rows"),
    (lambda: ask(Rows(instances=[])), "no rows"),
    (lambda: ask(Rows(arrays={})), "no arrays"),
    (lambda: ask(Rows()), "Give the rows once"),
    (lambda: ask(Rows(instances=[1], columns={"a": [1]})), "Give the rows once"),
    (
        lambda: ask(Rows(instances=[1, {"a": [1, float("nan")]}])),
        r"instances\[1\]\['a'\]\[1\] is nan, which JSON cannot say. Write None if the model has",
    ),
    (
        lambda: ask(Rows(columns={"b": [1, 2], "a": np.array([1, np.nan])})),
        r"columns\['a'\]\[1\] is nan, which JSON cannot say.* arrays=…, which travel as bytes",
    ),
    (lambda: ask(Rows(instances=[np.array([np.inf], np.float32)])), "inf, which JSON cannot say"),
    (lambda: ask(Rows(instances=[np.float32("-inf")])), "-inf, which JSON cannot say"),
    (
        lambda: ask(Rows(columns={"a": [[0, float("inf")]]})),
        r"columns\['a'\]\[0\]\[1\] is inf, which JSON",
    ),
    (lambda: ask(Rows(instances=[2**64])), "no JSON form"),
    (lambda: ask(Rows(instances=[object()])), "not JSON serializable: object"),
    (lambda: ask(Rows(instances=["\ud800"])), "no JSON form"),
    (
        lambda: ask(Rows(arrays={"x": np.array([1 + 2j])})),
        r"arrays\['x'\]: complex128 does not travel",
    ),
    (lambda: ask(Rows(arrays={"x": np.array(["a", 1], object)})), "int is neither text nor bytes"),
    (lambda: ask(ROWS, model="../admin"), "is no model name"),
    (lambda: ask(ROWS, replace(WISHES, version="../9")), "is no alias"),
    (lambda: ask(ROWS, replace(WISHES, version=0)), "is no version"),
    (lambda: ask(ROWS, replace(WISHES, version=True)), "is no alias"),
    (lambda: replace(WISHES, request_id="a b"), "request_id is 'a b'"),
    (lambda: replace(WISHES, request_id="r\n"), "request_id"),
    (lambda: replace(WISHES, deadline_ms=0), "deadline_ms is 0; it is in milliseconds"),
    (lambda: replace(WISHES, deadline_ms=float("nan")), "deadline_ms is nan"),
    (lambda: replace(WISHES, deadline_ms=1e8), "from 1 to 99999999"),
    (lambda: ask(ROWS, replace(WISHES, headers={"x\r\ny": "1"})), "cannot be sent"),
    (lambda: ask(ROWS, replace(WISHES, headers={"x": "1\r\nhost: y"})), "cannot be sent"),
    (lambda: ask(ROWS, replace(WISHES, headers={"x": "ü"})), "cannot be sent"),
    (
        lambda: ask(ROWS, replace(WISHES, headers={"Content-Length": "3"})),
        "The header Content-Length is set by the client itself",
    ),
    (lambda: ask(ROWS, replace(WISHES, headers={"HOST": "a"})), "HOST is set by the client"),
    (
        lambda: ask(ROWS, replace(WISHES, headers={"transfer-encoding": "chunked"})),
        "transfer-encoding is set by the client",
    ),
    (
        lambda: ask(ROWS, replace(WISHES, headers={"Accept-Encoding": "gzip"})),
        "Accept-Encoding is set by the client",
    ),
    (
        lambda: ask(ROWS, replace(WISHES, headers={"X-Request-ID": "r"})),
        "Give request_id=… in place of the header X-Request-ID",
    ),
    (
        lambda: ask(ROWS, replace(WISHES, headers={"Tidegate-Deadline-Ms": "9"})),
        "Give deadline_ms=… in place of",
    ),
    (lambda: Calls.of("two\r\nlines", 500), "characters that no key has"),
    (lambda: Calls.of("", 500), "The key is empty"),
    (lambda: Calls.of(None, 0.5), "timeout_ms is 0.5"),
    (lambda: check_count("tries", 0), "tries is 0"),
]


@pytest.mark.parametrize(("ask_for_it", "said"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_what_cannot_be_meant_is_refused_before_it_is_sent(
    ask_for_it: Callable[[], object], said: str
) -> None:
    with pytest.raises(BadRequestError, match=said) as refused:
        ask_for_it()
    assert refused.value.status is None


@pytest.mark.parametrize(
    "url",
    [
        *("127.0.0.1:8000", "localhost", "ftp://h", "http://", "http://h:99999", "http://[::1"),
        *("http://h?x=1", "http://h#x", "http://a b", "http://hö", ""),
    ],
)
def test_an_address_that_is_none_is_named(url: str) -> None:
    with pytest.raises(BadRequestError, match="is no address of a gateway"):
        check_address(url)


def test_an_address_may_have_a_path_but_no_password() -> None:
    assert check_address("https://gateway.example/models/") == "https://gateway.example/models"
    with pytest.raises(BadRequestError, match="give a key instead") as raised:
        check_address("http://me:secret@h")
    assert "secret" not in str(raised.value)


def test_a_key_that_is_none_is_not_repeated() -> None:
    with pytest.raises(BadRequestError) as raised:
        Calls.of("sécret", 500)
    assert "cret" not in str(raised.value)
