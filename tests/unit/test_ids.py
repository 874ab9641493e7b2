import pytest

from tidegate.ids import (
    InvalidIdError,
    ModelRef,
    ModelTag,
    digest_of,
    parse_alias,
    parse_model_name,
    parse_version,
)


@pytest.mark.parametrize("text", ["risk", "risk@stable", "risk@7", "a.b-c_d@candidate"])
def test_a_reference_reads_back_as_it_was_written(text: str) -> None:
    ref = ModelRef.parse(text)
    assert ModelRef.parse(str(ref)) == ref


def test_a_bare_name_means_the_stable_alias() -> None:
    assert str(ModelRef.parse("risk")) == "risk@stable"


# P-20, P-26: names that lead out of a folder in other systems
@pytest.mark.field_fault("P-20")
@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        "%2e%2e",
        "Risk",
        "-x",
        "a" * 65,
        "a\0",
        "a#b",
        "é",
        "a\n",
    ],
)
def test_a_name_that_is_no_name_is_refused_before_a_path_is_built(name: str) -> None:
    with pytest.raises(InvalidIdError, match="no model name"):
        parse_model_name(name)


@pytest.mark.field_fault("P-13")
@pytest.mark.parametrize("text", ["0", "-1", "01", "1.2", "", str(2**63), "1e3", "٣"])
def test_a_version_is_an_integer_above_zero_without_leading_zero(text: str) -> None:
    with pytest.raises(InvalidIdError, match="no version"):
        parse_version(text)


def test_a_version_that_is_too_long_is_told_how_long_it_may_be() -> None:
    assert parse_version("9" * 9) == 999_999_999
    with pytest.raises(InvalidIdError, match="with at most 9 digits"):
        parse_version("1" * 10)


@pytest.mark.parametrize("text", ["", "Stable", "7", "a" * 33, "a.b"])
def test_an_alias_never_looks_like_a_version(text: str) -> None:
    with pytest.raises(InvalidIdError, match="no alias"):
        parse_alias(text)


def test_a_tag_shows_the_version_and_enough_of_the_digest_to_compare() -> None:
    tag = ModelTag(parse_model_name("risk"), parse_version("7"), digest_of(b""))
    assert (str(tag), tag.short_digest) == ("risk@7", "sha256:e3b0c44298fc")
