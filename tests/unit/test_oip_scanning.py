"""Quick looks at raw bytes find what the plain ones find."""

from random import Random

import pytest

from tidegate.oip.scanning import has_boolean, has_more_than, has_word

LENGTHS = [0, 3, 300, 2_047, 2_048, 2_049, 5_000]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("filler", [b"0.5,", b"u", b"tr", b"utrue"[:4], b"nul,"])
def test_a_word_is_found_wherever_it_stands(length: int, filler: bytes) -> None:
    text = filler * (length // len(filler) + 1)
    for word, at in ((b"true", 2), (b"false", 2), (b"null", 1)):
        for place in (0, 1, len(text) // 2, len(text)):
            with_it = text[:place] + word + text[place:]
            assert has_word(with_it, word, at=at)
            assert has_word(text, word, at=at) == (word in text)
            assert has_word(with_it[1:-1], word, at=at) == (word in with_it[1:-1])


@pytest.mark.parametrize("word", [b"true", b"false"])
def test_booleans_are_seen_in_short_texts_and_long_ones(word: bytes) -> None:
    for length in LENGTHS:
        assert has_boolean(b"1," * length + word + b"]")
        assert not has_boolean(b"1," * length + word[1:] + b"]")


def test_letters_are_counted_as_far_as_needed() -> None:
    random = Random(1)
    for _ in range(200):
        text = bytes(random.choices(b"[x", k=random.randint(0, 40)))
        for most in range(5):
            assert has_more_than(text, b"[", most) == (text.count(b"[") > most)
