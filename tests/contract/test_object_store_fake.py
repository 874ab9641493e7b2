"""The faulty double fails when it is told to, and only then."""

from pathlib import Path

import pytest

from tests.fakes.objects import (
    DiesAfter,
    DiesBefore,
    Fails,
    FaultyObjectStore,
    Killed,
    LosesReply,
    every_crash,
)
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.port import StoreUnavailableError, Written


@pytest.fixture
def inner(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path)


def test_a_call_before_which_it_dies_has_no_effect(inner: LocalObjectStore) -> None:
    store = FaultyObjectStore(inner, {1: DiesBefore()})
    store.put_if_absent("a", b"x")
    with pytest.raises(Killed, match="before put_if_absent b"):
        store.put_if_absent("b", b"x")
    assert list(inner.keys("")) == ["a"]


def test_a_call_after_which_it_dies_has_its_effect(inner: LocalObjectStore) -> None:
    store = FaultyObjectStore(inner, {0: DiesAfter()})
    with pytest.raises(Killed, match="after put_if_absent a"):
        store.put_if_absent("a", b"x")
    assert list(inner.keys("")) == ["a"]


def test_the_dead_do_nothing_more(inner: LocalObjectStore) -> None:
    store = FaultyObjectStore(inner, {0: DiesAfter()})
    with pytest.raises(Killed):
        store.put_if_absent("a", b"x")
    with pytest.raises(Killed, match="although the process is dead"):
        store.delete("a")
    assert list(inner.keys("")) == ["a"]


def test_a_lost_reply_is_of_a_write_that_landed(inner: LocalObjectStore) -> None:
    store = FaultyObjectStore(inner, {0: LosesReply(), 1: Fails()})
    with pytest.raises(StoreUnavailableError, match="no reply in time"):
        store.put_if_absent("a", b"x")
    with pytest.raises(StoreUnavailableError, match="on purpose"):
        store.put_if_absent("b", b"x")
    assert list(store.keys("")) == ["a"]


def test_an_opened_file_is_closed_when_its_reply_is_lost(inner: LocalObjectStore) -> None:
    outcome = inner.put_if_absent("a", b"x")
    assert isinstance(outcome, Written)
    with pytest.raises(Killed):
        FaultyObjectStore(inner, {0: DiesAfter()}).open("a", etag=outcome.etag)


def test_every_crash_is_before_or_after_each_call() -> None:
    assert list(every_crash(2)) == [
        {0: DiesBefore()},
        {0: DiesAfter()},
        {1: DiesBefore()},
        {1: DiesAfter()},
    ]
