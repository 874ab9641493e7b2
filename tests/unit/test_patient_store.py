"""A busy store is waited for; with pauses that grow, and not for ever."""

import io
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.fakes.memory import MemoryObjectStore
from tests.fakes.objects import DiesBefore, Fails, Fault, FaultyObjectStore, Killed, LosesReply
from tests.fakes.patience import S, Waiting, patient
from tidegate.objects.patient import PatientObjectStore
from tidegate.objects.port import (
    ObjectHead,
    Refused,
    StoreBusyError,
    StoreOverloadedError,
    StoreUnavailableError,
    Wanted,
    Written,
    everything,
)
from tidegate.objects.rehearsing import FaultShares, RehearsingStore

BUSY = Fails(StoreBusyError("503 SlowDown"))
DENIED = Fails(StoreUnavailableError("access was denied"))


def store_with(*faults: Fault) -> FaultyObjectStore:
    """Answer once, then fail like this, then answer."""
    inner = MemoryObjectStore("memory://bucket", {"memory://bucket/a": b"x"})
    return FaultyObjectStore(inner, dict(enumerate(faults, start=1)))


@pytest.mark.field_fault("B-33")
def test_pauses_double_up_to_ten_seconds_and_are_random() -> None:
    waiting = Waiting()
    store = PatientObjectStore(store_with(*[BUSY] * 12), waiting.patience())
    store.head("a")
    assert store.head("a") is not None
    longest_s = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10, 10, 10]
    assert len(waiting.pauses_ns) == 12
    for pause_ns, most_s in zip(waiting.pauses_ns, longest_s, strict=True):
        assert 0 <= pause_ns < most_s * S
    assert len(set(waiting.pauses_ns)) == 12


@pytest.mark.field_fault("B-33")
def test_patience_ends() -> None:
    waiting = Waiting()
    store = PatientObjectStore(store_with(*[BUSY] * 10**4), waiting.patience(limit_s=60))
    store.head("a")
    with pytest.raises(StoreBusyError):
        store.head("a")
    assert 60 * S <= waiting.clock.now_ns() < 70 * S


@pytest.mark.field_fault("B-33")
def test_a_denial_is_told_at_once() -> None:
    waiting = Waiting()
    store = PatientObjectStore(store_with(DENIED), waiting.patience())
    store.head("a")
    with pytest.raises(StoreUnavailableError, match="denied"):
        store.head("a")
    assert waiting.pauses_ns == []


def test_a_store_that_never_answered_is_not_waited_for() -> None:
    waiting = Waiting()
    inner = FaultyObjectStore(MemoryObjectStore("memory://bucket", {}), {0: BUSY})
    with pytest.raises(StoreBusyError):
        PatientObjectStore(inner, waiting.patience()).head("a")
    assert waiting.pauses_ns == []


def test_a_store_whose_first_answer_is_that_it_is_overloaded_is_waited_for() -> None:
    waiting = Waiting()
    memory = MemoryObjectStore("memory://bucket", {"memory://bucket/a": b"x"})
    inner = FaultyObjectStore(memory, {0: Fails(StoreOverloadedError("503 SlowDown"))})
    assert PatientObjectStore(inner, waiting.patience()).head("a") is not None
    assert len(waiting.pauses_ns) == 1


def test_a_store_that_never_answered_a_listing_is_not_waited_for() -> None:
    waiting = Waiting()
    inner = Unlisted("memory://bucket", {})
    with pytest.raises(StoreBusyError):
        list(PatientObjectStore(inner, waiting.patience()).keys(""))
    assert waiting.pauses_ns == []


class Unlisted(MemoryObjectStore):
    """Is asked only once a listing is read, as over a network, and then is away."""

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        raise StoreBusyError("connection refused")
        yield ""


def test_a_store_that_has_answered_somebody_else_is_waited_for() -> None:
    waiting = Waiting()
    inner = FaultyObjectStore(
        MemoryObjectStore("memory://bucket", {"memory://bucket/a": b"x"}), {0: BUSY}
    )
    store = PatientObjectStore(inner, waiting.patience(), has_answered=True)
    assert store.head("a") is not None
    assert len(waiting.pauses_ns) == 1


def test_nobody_queues_for_long_behind_a_repeated_call_that_is_slow() -> None:
    is_slow, is_over = threading.Event(), threading.Event()

    class Slow(MemoryObjectStore):
        heads = 0

        def head(self, key: str) -> ObjectHead | None:
            self.heads += 1
            if self.heads == 2:  # the first repetition
                is_slow.set()
                is_over.wait()
            if self.heads <= 3:
                raise StoreBusyError("503 SlowDown")
            return super().head(key)

    patience = replace(Waiting().patience(), turn_ns=1)
    inner = Slow("memory://bucket", {"memory://bucket/a": b"x"})
    store = PatientObjectStore(inner, patience, has_answered=True)
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(store.head, "a")
        is_slow.wait()
        try:
            assert store.head("a") is not None  # as a lease is renewed
            assert not slow.done()
        finally:
            is_over.set()
        assert slow.result() is not None


class Throttled(io.BytesIO):
    """Throttles some reads, and has lost its place then."""

    def __init__(self, content: bytes, faults: list[StoreUnavailableError]) -> None:
        super().__init__(content)
        self.faults = faults

    def read(self, size: int | None = -1) -> bytes:
        return self._or_fault(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._or_fault(super().readline(size))

    def _or_fault(self, content: bytes) -> bytes:
        if self.tell() > 2 and self.faults:
            raise self.faults.pop(0)
        return content


class ThrottledStore(MemoryObjectStore):
    def __init__(self, content: bytes, *faults: StoreUnavailableError) -> None:
        super().__init__("memory://bucket", {"memory://bucket/a": content})
        self.content, self.faults = content, list(faults)

    def open(self, key: str, *, etag: str) -> BinaryIO:
        return Throttled(self.content, self.faults)


@pytest.mark.field_fault("B-33")
def test_a_read_that_is_throttled_is_repeated_from_where_it_began() -> None:
    waiting = Waiting()
    busy = [StoreBusyError("503 SlowDown") for _ in range(3)]
    store = PatientObjectStore(ThrottledStore(b"one\ntwo\nthree", *busy), waiting.patience())
    with store.open("a", etag="any") as file:
        assert [file.read(2), file.readline(), file.read(5), file.read()] == [
            b"on",
            b"e\n",
            b"two\nt",
            b"hree",
        ]
        assert file.seek(4) == file.tell() == 4
        assert file.read() == b"two\nthree"
    assert file.closed
    assert len(waiting.pauses_ns) == 3


@pytest.mark.field_fault("B-33")
@pytest.mark.parametrize("error", [StoreUnavailableError("denied"), StoreBusyError("503")])
def test_reading_is_no_more_patient_than_any_call(error: StoreUnavailableError) -> None:
    waiting = Waiting()
    store = PatientObjectStore(ThrottledStore(b"content", *[error] * 10**4), waiting.patience())
    with store.open("a", etag="any") as file, pytest.raises(type(error)):
        file.read()
    waited_ns = waiting.clock.now_ns()
    is_busy = isinstance(error, StoreBusyError)
    assert 600 * S <= waited_ns < 610 * S if is_busy else waited_ns == 0


def test_a_write_whose_reply_was_lost_is_refused_when_it_is_repeated() -> None:
    class Busy(FaultyObjectStore):
        def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
            try:
                return super().put_if_absent(key, body)
            except StoreUnavailableError as error:
                raise StoreBusyError(str(error)) from error

    inner = Busy(MemoryObjectStore("memory://bucket", {}), {1: LosesReply()})
    store = patient(inner)
    assert store.put_if_absent("b", b"mine") == Refused()
    found = store.get("b")
    assert found is not None
    assert found.body == b"mine"


def test_the_dead_are_not_patient() -> None:
    store = PatientObjectStore(store_with(DiesBefore()), Waiting().patience())
    store.head("a")
    with pytest.raises(Killed):
        store.head("a")


def test_a_listing_that_is_cut_short_goes_on_where_it_was() -> None:
    keys = [f"k/{number:02d}" for number in range(40)]
    objects = {f"memory://bucket/{key}": b"x" for key in keys}

    class Cut(MemoryObjectStore):
        lists = 0

        def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
            self.lists += 1
            for place, key in enumerate(super().keys(prefix, wanted)):
                if place == 17 and self.lists == 1:
                    raise StoreBusyError("cut")
                yield key

    assert list(patient(Cut("memory://bucket", objects)).keys("k/")) == keys
    even = patient(Cut("memory://bucket", objects)).keys("k/", lambda key: int(key[2:]) % 2 == 0)
    assert list(even) == keys[::2]


def rehearsed(shares: FaultShares, *, seed: int = 1) -> tuple[RehearsingStore, list[str]]:
    """Do 400 writes and as many reads, and tell what came of each."""
    store = RehearsingStore(MemoryObjectStore("memory://bucket", {}), shares, seed=seed)
    told = []
    for number in range(400):
        try:
            told.append(type(store.put_if_absent(f"a/{number}", b"x")).__name__)
        except StoreBusyError as error:
            told.append(str(error).partition(": ")[2].partition(" (")[0])
    return store, told


def test_a_rehearsal_without_shares_changes_nothing() -> None:
    store, told = rehearsed(FaultShares())
    assert set(told) == {"Written"}
    assert len(list(store.keys("a/"))) == 400
    assert store.faults == 0


def test_a_rehearsal_goes_wrong_in_every_way_and_equally_for_one_seed() -> None:
    shares = FaultShares.of_share(0.1)
    store, told = rehearsed(shares)
    assert set(told) == {
        "Written",
        "Refused",
        "503 SlowDown: reduce your request rate",
        "503 AccessDenied, which is throttling all the same",
        "connection reset by peer",
        "no reply in time",
        "409 ConditionalRequestConflict",
    }
    assert store.faults == sum(each != "Written" for each in told)
    assert rehearsed(shares)[1] == told
    assert rehearsed(shares, seed=2)[1] != told


def test_what_is_said_to_have_failed_without_effect_has_none() -> None:
    shares = FaultShares(refused=0.2, conflict=0.2)
    store, told = rehearsed(shares)
    there = list(MemoryObjectStore.keys(store._inner, "a/"))  # type: ignore[arg-type] # the store beneath
    assert len(there) == told.count("Written")


def test_a_stale_listing_misses_one_that_is_new() -> None:
    store, _ = rehearsed(FaultShares(stale_list=1.0))
    missed = {f"a/{number}" for number in range(400)} - set(store.keys("a/"))
    assert len(missed) == 1
    assert missed < {f"a/{number}" for number in range(384, 400)}
