"""The fingerprint of a plan."""

from tidegate_batch.core.fingerprint import Fingerprint, digest_of_pairs

PARTS = {"model": "risk@7", "chunk rows": 20_000}


def test_the_same_parts_give_the_same_fingerprint_in_any_order() -> None:
    backwards = Fingerprint.of(dict(reversed(PARTS.items())))
    assert Fingerprint.of(PARTS).sha256 == backwards.sha256
    assert Fingerprint.of(PARTS).differences(backwards) == []


def test_a_difference_is_named_with_both_values() -> None:
    was, now = Fingerprint.of(PARTS), Fingerprint.of({**PARTS, "chunk rows": 5, "new": "x"})
    assert was.sha256 != now.sha256
    assert was.differences(now) == ["chunk rows was 20000 and is 5", "new was None and is x"]


def test_no_two_lists_of_pairs_are_digested_alike() -> None:
    lists = [[("a", "b"), ("c", "d")], [("a", "bc"), ("", "d")], [("c", "d"), ("a", "b")], []]
    assert len({digest_of_pairs(pairs) for pairs in lists}) == len(lists)
