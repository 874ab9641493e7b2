from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.artifacts.manifest import Column, LabelsSpec, TabularSpec, TransformSpec
from tidegate.errors import ArtifactError
from tidegate.inference.transforms.labels import build_writer
from tidegate.inference.transforms.plain import PlainReader
from tidegate.inference.transforms.tabular import TabularReader
from tidegate.publishing.transform_checks import check_transform
from tidegate.tensors import Signature, SignatureMismatchError, TensorSpec


def signature(datatype: str = "FP32", *shape: int) -> Signature:
    return Signature(
        inputs=(TensorSpec(name="input", datatype=datatype, shape=shape or (-1, 4)),),
        outputs=(TensorSpec(name="probabilities", datatype="FP32", shape=(-1, 2)),),
    )


COLUMNS = (
    Column(name="age", type="number"),
    Column(name="visits", type="integer", default=0),
    Column(name="smoker", type="boolean", default=False),
    Column(name="city", type="category", categories=("Bern", "Oslo")),
)
READER = TabularReader(TabularSpec(input="input", columns=COLUMNS), signature())
ROW = {"age": 41.5, "visits": 3, "smoker": True, "city": "Oslo"}


def objects(*values: object) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def test_named_columns_become_the_models_row() -> None:
    tensor = READER.from_instances([ROW])["input"]
    assert tensor.dtype == np.float32
    assert tensor.tolist() == [[41.5, 3.0, 1.0, 1.0]]


def test_a_list_is_read_in_the_order_of_the_columns() -> None:
    named, listed = (READER.from_instances([row])["input"] for row in (ROW, list(ROW.values())))
    assert np.array_equal(named, listed)


def test_further_columns_are_ignored() -> None:
    assert READER.from_instances([{**ROW, "note": "x"}])["input"].shape == (1, 4)


def test_a_default_stands_in_for_a_missing_or_null_value() -> None:
    tensor = READER.from_instances([{"age": 1, "city": "Bern"}, {**ROW, "visits": None}])["input"]
    assert tensor.tolist() == [[1.0, 0.0, 0.0, 0.0], [41.5, 0.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"age": "41"}, "'age': expected a number in row 1, found '41'"),
        ({"age": True}, "'age': expected a number in row 1, found True"),
        ({"age": None}, "no value, and the column has no default"),
        ({"age": 1e39}, "'age': expected a finite number"),
        ({"visits": 1.5}, "'visits': expected an integer in row 1"),
        ({"smoker": 1}, "'smoker': expected a boolean in row 1"),
        ({"city": "Rome"}, r"'city': expected one of \['Bern', 'Oslo'\] in row 1, found 'Rome'"),
        ({"city": ["Bern"]}, "'city'"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_naming_row_and_column(
    change: dict[str, object], expected: str
) -> None:
    with pytest.raises(SignatureMismatchError, match=expected):
        READER.from_instances([ROW, {**ROW, **change}])


def test_all_missing_columns_are_named_at_once_with_those_that_may_be_misspelt() -> None:
    with pytest.raises(SignatureMismatchError) as caught:
        READER.from_instances([ROW, {"aeg": 1, "smoker": True}])
    assert str(caught.value) == (
        "Input 'age': expected a value in row 1; it has no default, found no age, city, but aeg, "
        "which the model does not read."
    )


@pytest.mark.parametrize("row", [7, "x", None, [1, 2], {"age": 1}.keys()])
def test_an_instance_that_is_no_row_is_refused(row: object) -> None:
    with pytest.raises(SignatureMismatchError, match="instance 1"):
        READER.from_instances([ROW, row])


@given(
    st.lists(
        st.tuples(
            st.floats(-1e30, 1e30),
            st.integers(-(2**63), 2**63 - 1),
            st.booleans(),
            st.sampled_from(["Bern", "Oslo"]),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_row_gives_the_same_bits_as_json_and_as_a_table(
    rows: list[tuple[float, int, bool, str]],
) -> None:
    ages, visits, smokers, cities = zip(*rows, strict=True)
    columns = {
        "age": np.array(ages),
        "visits": np.array(visits),
        "smoker": np.array(smokers),
        "city": objects(*cities),
    }
    as_table = READER.from_columns(columns)["input"]
    as_json = READER.from_instances([list(row) for row in rows])["input"]
    assert as_table.tobytes() == as_json.tobytes()


def test_missing_values_of_a_table_are_treated_like_those_of_json() -> None:
    columns = {
        "age": np.array([1.0, 2.0]),
        "visits": objects(None, 5),
        "smoker": objects(True, None),
        "city": objects("Bern", "Oslo"),
    }
    assert READER.from_columns(columns)["input"].tolist() == [[1, 0, 1, 0], [2, 5, 0, 1]]
    with pytest.raises(SignatureMismatchError, match="row 1, found no value"):
        READER.from_columns({**columns, "age": np.array([1.0, np.nan])})


def test_named_columns_are_not_published_for_a_model_of_integers() -> None:
    transform = TransformSpec(tabular=TabularSpec(input="input", columns=COLUMNS))
    check_transform(transform, signature("FP32"))
    with pytest.raises(ArtifactError, match="floating-point"):
        check_transform(transform, signature("INT64"))


def test_a_model_without_transform_reads_bare_values() -> None:
    reader = PlainReader(signature("FP32", -1, 2))
    tensor = reader.from_instances([[1, 2.5], [3, 4]])["input"]
    assert tensor.dtype == np.float32
    assert tensor.tolist() == [[1.0, 2.5], [3.0, 4.0]]


def test_a_column_of_lists_is_stacked() -> None:
    reader = PlainReader(signature("FP32", -1, 2))
    ragged = objects(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert reader.from_columns({"input": ragged})["input"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("datatype", "value"),
    [
        ("FP32", [1.0, "2"]),
        ("FP32", [1.0]),
        ("FP32", [[1.0, 2.0], [3.0, 4.0]]),
        ("FP32", None),
        ("FP32", [True, False]),
        ("FP32", [1e39, 0.0]),
        ("INT64", [1.5, 2.0]),
        ("UINT8", [256, 0]),
        ("UINT8", [-1, 0]),
        ("BOOL", [1, 0]),
        ("FP32", {"a": 1}),
        ("INT8", ["a", "b"]),
    ],
)
def test_a_bare_value_never_changes_its_meaning(datatype: str, value: object) -> None:
    with pytest.raises(SignatureMismatchError):
        PlainReader(signature(datatype, -1, 2)).from_instances([value])


@pytest.mark.parametrize(
    ("datatype", "rows", "said"),
    [
        ("INT64", [[1, 2], [True, 5]], "values of INT64, found true in row 1"),
        ("FP32", [[1.5, True]], "found true in row 0"),
        ("FP32", [[1, 2], [1, None]], "found null in row 1"),
        ("BYTES", [["ü", 5]], "found 5 in row 0"),
        ("BYTES", [["a", b"\xff"]], "found bytes that are no UTF-8 text in row 0"),
        ("INT64", [[1, 2**63]], "found a number that does not fit"),
        ("FP32", [[1, 2], [3]], "found rows of different shapes"),
    ],
)
def test_the_first_value_that_does_not_fit_is_shown_as_it_was_sent(
    datatype: str, rows: list[object], said: str
) -> None:
    with pytest.raises(SignatureMismatchError, match=said):
        PlainReader(signature(datatype, -1, 2)).from_instances(rows)


def test_bytes_that_are_text_are_read_as_that_text() -> None:
    reader = PlainReader(signature("BYTES", -1))
    assert reader.from_instances(["ü".encode(), "b"])["input"].tolist() == ["ü", "b"]


@given(st.integers(1, 200), st.randoms(use_true_random=False))
def test_many_rows_are_read_like_each_of_them_alone(rows: int, random: Random) -> None:
    instances: list[object] = [
        {
            "age": random.choice([1, 2.5, -1e-30, 2**60 + 1]),
            "visits": random.choice([None, 0, 2**53 + 1]),
            "smoker": random.choice([None, True, False]),
            "city": random.choice(["Bern", "Oslo"]),
        }
        for _ in range(rows)
    ]
    together = READER.from_instances(instances)["input"]
    alone = [READER.from_instances([row])["input"] for row in instances]
    assert together.tobytes() == np.concatenate(alone).tobytes()


def test_one_bad_value_among_many_rows_is_named() -> None:
    with pytest.raises(SignatureMismatchError, match="'age': expected a number in row 99"):
        READER.from_instances([*[ROW] * 99, {**ROW, "age": "x"}, *[ROW] * 99])


def test_types_are_named_as_the_protocol_names_them() -> None:
    reader = PlainReader(signature("INT64", -1))
    with pytest.raises(
        SignatureMismatchError, match="expected values of INT64, found values of FP"
    ):
        reader.from_columns({"input": np.array([1.5])})
    with pytest.raises(SignatureMismatchError, match="within the range of FP32 in row 0, found a"):
        READER.from_instances([{**ROW, "age": 1e39}])


def test_integers_stay_exact_over_the_whole_range() -> None:
    reader = PlainReader(signature("INT64", -1, 2))
    assert reader.from_instances([[2**63 - 1, -(2**63)]])["input"].tolist() == [
        [2**63 - 1, -(2**63)]
    ]


def test_labels_name_the_likeliest_class_and_its_probability() -> None:
    writer = build_writer(LabelsSpec(output="probabilities", names=("no", "yes")), signature())
    columns = writer.present({"probabilities": np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])}, {})
    assert list(columns) == ["prediction", "label", "probability"]
    assert columns["label"].tolist() == ["no", "yes", "no"]
    assert columns["probability"].tolist() == [0.9, 0.8, 0.5]


def test_several_outputs_are_named_apart() -> None:
    both = Signature(
        inputs=signature().inputs,
        outputs=tuple(TensorSpec(name=name, datatype="FP32", shape=(-1,)) for name in "ab"),
    )
    columns = build_writer(None, both).present({"a": np.zeros(1), "b": np.zeros(1)}, {})
    assert list(columns) == ["prediction_a", "prediction_b"]


@pytest.mark.parametrize("value", [10**400, -(10**400), 1e39, 2**64])
def test_a_number_is_a_bf16_or_refused(value: float) -> None:
    reader = PlainReader(signature("BF16", -1))
    if abs(value) == 2**64:
        assert reader.from_instances([value])["input"].tolist() == [2.0**64]
    else:
        with pytest.raises(SignatureMismatchError, match="BF16"):
            reader.from_instances([value])
