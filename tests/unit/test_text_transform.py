"""``text``: what becomes of people's text, however hostile it is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures.text_models import SPECIAL, VOCABULARY, signature, spec, tokenizer
from tidegate.artifacts.manifest import TransformSpec
from tidegate.artifacts.transform_specs import PoolingSpec, TextSpec, default_buckets, worst_waste
from tidegate.inference.arrays import Array
from tidegate.inference.transforms.column import MOST_ELEMENTS
from tidegate.inference.transforms.labels import build_writer
from tidegate.inference.transforms.pooling import PoolingWriter
from tidegate.inference.transforms.text import CHARACTERS_PER_TOKEN, TextReader
from tidegate.tensors import Signature, SignatureMismatchError

PAD, UNK, CLS, SEP = range(len(SPECIAL))
GOOD, TIDE = VOCABULARY.index("good"), VOCABULARY.index("tide")


def reader(wanted: TextSpec | None = None, of: Signature | None = None) -> TextReader:
    made = tokenizer()
    made.no_padding()
    made.no_truncation()
    return TextReader(wanted or spec(), of or signature(), made)


def objects(*values: object) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def test_a_text_becomes_tokens_a_mask_and_segments_padded_to_the_first_bucket() -> None:
    tensors = reader().from_instances([{"text": "good tide"}])
    assert list(tensors) == ["input_ids", "attention_mask", "token_type_ids"]
    assert tensors["input_ids"].tolist() == [[CLS, GOOD, TIDE, SEP] + [PAD] * 12]
    assert tensors["attention_mask"].tolist() == [[1] * 4 + [0] * 12]
    assert tensors["token_type_ids"].tolist() == [[0] * 16]
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.int64)}


def test_only_the_inputs_that_the_model_has_are_made_and_in_its_datatype() -> None:
    of = signature("input_ids", datatype="INT32")
    tensors = reader(spec(mask=None, types=None), of).from_instances(["good"])
    assert list(tensors) == ["input_ids"]
    assert tensors["input_ids"].dtype == np.int32


def test_special_tokens_can_be_left_out() -> None:
    tensors = reader(spec(special_tokens=False)).from_instances(["good"])
    assert tensors["input_ids"][0, :2].tolist() == [GOOD, PAD]


@pytest.mark.field_fault("S-12")
@pytest.mark.parametrize(
    ("words", "bucket"), [(0, 16), (14, 16), (15, 32), (30, 32), (31, 64), (62, 64)]
)
def test_a_request_is_padded_to_the_smallest_bucket_that_holds_its_longest_text(
    words: int, bucket: int
) -> None:
    tensors = reader().from_instances(["", " ".join(["tide"] * words)])
    assert tensors["input_ids"].shape == (2, bucket)
    assert tensors["attention_mask"].sum(axis=1).tolist() == [2, words + 2]


def test_buckets_are_powers_of_two_up_to_the_most_tokens() -> None:
    assert default_buckets(256) == (16, 32, 64, 128, 256)
    assert default_buckets(200) == (16, 32, 64, 128, 200)
    assert default_buckets(16) == (16,)
    assert default_buckets(5) == (5,)
    assert 0.45 < worst_waste(default_buckets(8_192)) < 0.5
    assert worst_waste((16,)) == 0


def test_a_text_that_is_too_long_is_refused_by_row_with_what_is_allowed() -> None:
    with pytest.raises(SignatureMismatchError) as caught:
        reader().from_instances(["tide", " ".join(["tide"] * 63)])
    assert str(caught.value) == (
        "Input 'text': expected a text of at most 64 tokens (and 2048 characters) in row 1, "
        "found 65 tokens; shorten it."
    )


def test_or_only_its_beginning_is_read_where_that_was_chosen() -> None:
    texts = [" ".join(["good", *["tide"] * 5_000])]
    ids = reader(spec(too_long="truncate")).from_instances(texts)["input_ids"]
    assert ids.tolist() == [[CLS, GOOD, *[TIDE] * 61, SEP]]


@pytest.mark.parametrize("text", ["tide " * 200_000, "x" * 1_000_000, " " * 1_000_000])
def test_a_megabyte_is_too_long_without_being_read(text: str) -> None:
    with pytest.raises(SignatureMismatchError, match="in row 0, found 1000000 characters"):
        reader().from_instances([text])
    cut = reader(spec(too_long="truncate")).from_instances([text])["input_ids"]
    alike = reader(spec(too_long="truncate")).from_instances([text[: 64 * CHARACTERS_PER_TOKEN]])
    assert np.array_equal(cut, alike["input_ids"])


def test_nothing_is_read_beyond_so_many_characters_where_texts_are_cut() -> None:
    read = reader(spec(too_long="truncate")).from_instances(["good" + " " * 1_000_000 + "tide"])
    assert read["input_ids"][0, :4].tolist() == [CLS, GOOD, SEP, PAD]


@pytest.mark.parametrize(
    "text",
    ["", " ", "\0", "a\0b", "😀", "👨‍👩‍👧", "שלום", "\u202egood\u202c", "\ufeff", "e\u0301" * 40],
)
def test_any_unicode_is_a_text(text: str) -> None:
    ids = reader().from_instances([text])["input_ids"]
    assert ids.shape == (1, 16)
    assert ids[0, 0] == CLS


@pytest.mark.parametrize("text", ["\ud800", "good \udfff tide"])
def test_half_of_a_surrogate_pair_is_none_and_the_row_is_named(text: str) -> None:
    with pytest.raises(
        SignatureMismatchError, match="text in row 1, found text that is no Unicode"
    ):
        reader().from_instances(["tide", text])


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "no value"),
        (7, "7"),
        (True, "True"),
        (["good"], r"\['good'\]"),
        (("good", "tide"), r"\('good'"),
        (b"\xff\xfe", "2 bytes"),
        (float("nan"), "nan"),
    ],
)
def test_what_is_no_text_is_refused_by_row(value: object, found: str) -> None:
    with pytest.raises(
        SignatureMismatchError, match=f"'text': expected text in row 1, found {found}"
    ):
        reader().from_instances(["tide", value])
    with pytest.raises(SignatureMismatchError, match=f"expected text in row 1, found {found}"):
        reader().from_columns({"text": objects("tide", value)})


def test_an_object_without_the_column_is_refused_with_what_it_has() -> None:
    with pytest.raises(SignatureMismatchError, match="a value in row 0, found only body, title"):
        reader().from_instances([{"title": "good", "body": "tide"}])


def test_bytes_that_are_text_are_read_as_that_text() -> None:
    made = reader().from_instances([b"good"])["input_ids"]
    assert np.array_equal(made, reader().from_instances(["good"])["input_ids"])


def test_a_few_bytes_never_become_a_tensor_of_gigabytes() -> None:
    rows = MOST_ELEMENTS // 8_192 + 1
    long = spec(8_192)
    with pytest.raises(SignatureMismatchError, match=f"at most {rows - 1} rows .* found {rows}"):
        reader(long).from_instances([*[""] * (rows - 1), "tide " * 8_000])
    assert reader(long).from_instances([""] * rows)["input_ids"].shape == (rows, 16)


def test_a_request_of_many_long_texts_is_refused_before_they_are_read() -> None:
    texts = ["x" * 2_000] * 2_098
    with pytest.raises(
        SignatureMismatchError, match=r"at most 4194304 characters .* found 4196000"
    ):
        reader().from_instances(texts)
    assert len(reader().from_columns({"text": objects(*texts)})["input_ids"]) == 2_098


@given(st.lists(st.text(max_size=40), min_size=1, max_size=8))
def test_a_row_gives_the_same_tokens_as_json_and_as_a_table_alone_and_in_company(
    texts: list[str],
) -> None:
    together = reader().from_instances([{"text": text} for text in texts])
    as_table = reader().from_columns({"text": objects(*texts)})
    as_strings = reader().from_columns({"text": np.array(texts, dtype=np.dtypes.StringDType())})
    for name, tensor in together.items():
        assert tensor.tobytes() == as_table[name].tobytes() == as_strings[name].tobytes()
    for row, text in enumerate(texts):
        alone = reader().from_instances([text])["input_ids"][0]
        real = alone[alone != PAD]
        assert together["input_ids"][row, : len(real)].tolist() == real.tolist()
        assert not together["input_ids"][row, len(real) :].any()


@pytest.mark.field_fault("S-11")
def test_padding_is_counted_and_only_there() -> None:
    counted = reader()
    assert counted.padding.waste == 0
    counted.from_instances(["good tide", ""])  # 4 and 2 tokens in 2 x 16 positions
    counted.from_columns({"text": objects(" ".join(["tide"] * 14))})  # 16 in 16
    assert (counted.padding.tokens, counted.padding.padding) == (22, 26)
    assert counted.padding.waste == 26 / 48


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"buckets": ()}, "buckets"),
        ({"buckets": (16, 16, 64)}, "must increase"),
        ({"buckets": (0, 64)}, "from 1"),
        ({"buckets": (16, 32)}, "end with max_tokens=64"),
        ({"column": ""}, "column"),
    ],
)
def test_lengths_that_mean_nothing_are_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        spec(**fields)  # type: ignore[arg-type] # that is the point


VECTORS = np.array([[[1, 0], [3, 4], [9, 9]], [[6, 8], [9, 9], [9, 9]]], np.float32)
MASK = {"attention_mask": np.array([[1, 1, 0], [1, 0, 0]])}


def pooled(pooling: PoolingSpec, inputs: dict[str, Array], text: TextSpec | None = None) -> Array:
    writer = PoolingWriter(pooling, text or spec(), build_writer(None, signature()))
    return writer.present({"hidden": VECTORS}, inputs)["prediction"]


@pytest.mark.field_fault("S-11")
def test_pooling_takes_the_mean_of_real_tokens_and_padding_reaches_no_answer() -> None:
    assert pooled(PoolingSpec(output="hidden"), MASK).tolist() == [[2, 2], [6, 8]]
    assert pooled(PoolingSpec(output="hidden"), MASK).dtype == np.float32
    ids = {"input_ids": np.array([[2, 5, 0], [2, 0, 0]])}
    without = spec(mask=None)
    assert pooled(PoolingSpec(output="hidden"), ids, without).tolist() == [[2, 2], [6, 8]]


def test_or_the_first_token_and_either_can_be_scaled_to_length_1() -> None:
    assert pooled(PoolingSpec(output="hidden", kind="first"), MASK).tolist() == [[1, 0], [6, 8]]
    unit = pooled(PoolingSpec(output="hidden", normalize=True), MASK)
    assert np.allclose(unit, [[0.5**0.5, 0.5**0.5], [0.6, 0.8]])


def test_a_text_without_any_token_is_pooled_to_zeros() -> None:
    nothing = {"attention_mask": np.zeros((2, 3), np.int64)}
    assert not pooled(PoolingSpec(output="hidden", normalize=True), nothing).any()


def test_a_row_is_read_in_one_way() -> None:
    with pytest.raises(ValueError, match=r"\[pooling\] needs \[text\]"):
        TransformSpec(pooling=PoolingSpec(output="hidden"))
