"""What text formats make of values of every kind."""

import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from tidegate_batch.core.formats import OUTPUT_FORMATS, OutputFormat
from tidegate_batch.sinks.files import FileSink

UTC = dt.UTC
BINARY = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)]
VALUES: list[tuple[str, "pa.Array[Any]", object, str]] = [
    ("int64", pa.array([2**63 - 1]), 2**63 - 1, "9223372036854775807"),
    ("uint64", pa.array([2**64 - 1], pa.uint64()), 2**64 - 1, "18446744073709551615"),
    ("float32", pa.array([0.1], pa.float32()), 0.10000000149011612, "0.1"),
    ("float64", pa.array([0.1]), 0.1, "0.1"),
    ("nan", pa.array([float("nan")]), None, "nan"),
    ("bool", pa.array([True]), True, "true"),
    ("text", pa.array(['a "b"\n,é']), 'a "b"\n,é', '"a ""b""\n,é"'),
    ("words", pa.array(["x"]).dictionary_encode(), "x", '"x"'),
    ("none", pa.array([None], pa.string()), None, ""),
    ("empty", pa.array([""]), "", '""'),
    ("list", pa.array([[0.5, 1.0]]), [0.5, 1.0], '"[0.5,1.0]"'),
    ("nested", pa.array([[["a"], []]]), [["a"], []], '"[[""a""],[]]"'),
    ("struct", pa.array([{"a": 1}]), {"a": 1}, '"{""a"":1}"'),
    ("bytes", pa.array([b"\xff\x00"]), "/wA=", '"/wA="'),
    ("decimal", pa.array([decimal.Decimal("1.10")]), "1.10", '"1.10"'),
    ("date", pa.array([dt.date(2024, 5, 1)]), "2024-05-01", '"2024-05-01"'),
    (
        "time",
        pa.array([dt.datetime(2024, 5, 1, 2, 3, 4, tzinfo=UTC)], pa.timestamp("s", tz="UTC")),
        "2024-05-01T02:03:04Z",
        '"2024-05-01T02:03:04Z"',
    ),
]


def encoded(values: "pa.Array[Any]", kind: OutputFormat) -> str:
    batch = pa.RecordBatch.from_arrays([values], names=["x"])
    file = FileSink().encode(batch.schema, iter([batch]), kind=kind)
    assert file.rows == len(values)
    return file.body.decode()


@pytest.mark.parametrize(("values", "wanted"), [(v, w) for _, v, w, _ in VALUES])
def test_a_line_of_json_holds_the_value(values: "pa.Array[Any]", wanted: object) -> None:
    assert json.loads(encoded(values, "jsonl")) == {"x": wanted}


@pytest.mark.parametrize(("values", "field"), [(v, f) for _, v, _, f in VALUES])
def test_a_field_of_csv_holds_the_value(values: "pa.Array[Any]", field: str) -> None:
    assert encoded(values, "csv") == f'"x"\n{field}\n'


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("output", OUTPUT_FORMATS)
def test_a_batch_in_which_every_value_is_missing_fits_the_others(
    kind: pa.DataType, output: OutputFormat
) -> None:
    schema = pa.schema([("x", kind)])
    columns = [pa.array(values, kind) for values in ([b"ab"], [None], [None, b"cd"])]
    batches = [pa.RecordBatch.from_arrays([column], schema=schema) for column in columns]
    file = FileSink().encode(schema, iter(batches), kind=output)
    assert file.rows == 4
    texts = {"csv": b'"x"\n"YWI="\n\n\n"Y2Q="\n', "parquet": file.body}
    lines = b'{"x":"YWI="}\n{"x":null}\n{"x":null}\n{"x":"Y2Q="}\n'
    assert file.body == texts.get(output, lines)


@pytest.mark.parametrize("kind", OUTPUT_FORMATS)
def test_a_chunk_without_an_answer_is_a_file_without_rows(kind: OutputFormat) -> None:
    schema = pa.schema([pa.field("x", pa.list_(pa.float32()))])
    file = FileSink().encode(schema, iter([]), kind=kind)
    assert file.rows == 0
    assert file.body == {"jsonl": b"", "csv": b'"x"\n'}.get(kind, file.body)
