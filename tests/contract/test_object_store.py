"""What every object store must do, whatever it stands on."""

import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TypeVar

import pytest

from tests.fakes.memory import MemoryObjectStore
from tests.fakes.objects import FaultyObjectStore, LosesReply
from tests.fakes.patience import patient
from tests.fixtures.stores import STORES
from tidegate.objects.opening import open_store
from tidegate.objects.port import (
    InvalidKeyError,
    ObjectChangedError,
    ObjectStore,
    Refused,
    StoreUnavailableError,
    Written,
)
from tidegate.objects.preflight import check_conditional_writes
from tidegate.objects.rehearsing import FaultShares, RehearsingStore

Outcome = TypeVar("Outcome")
WRITERS = 8
WRONG_ETAG = '"00000000000000000000000000000000"'


@pytest.fixture(params=[*STORES, "fake", "memory", "patient"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    return opened(request)


@pytest.fixture(params=["local", "versitygw", "fake", "memory", "patient"])
def strict_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Not moto, which compares and writes in two steps, and copies whatever the source's etag."""
    return opened(request)


def opened(request: pytest.FixtureRequest) -> ObjectStore:
    if request.param == "fake":
        return FaultyObjectStore(open_store(request.getfixturevalue("local_url")))
    if request.param == "memory":
        return MemoryObjectStore("memory://bucket/prefix", {"memory://bucket/other": b"x"})
    if request.param == "patient":  # every fifth call fails, and nobody notices
        inner = MemoryObjectStore("memory://bucket", {})
        return patient(RehearsingStore(inner, FaultShares(refused=0.2, conflict=0.2), seed=1))
    return open_store(request.getfixturevalue(f"{request.param}_url"))


def written(outcome: Written | Refused) -> str:
    assert isinstance(outcome, Written)
    return outcome.etag


def content(store: ObjectStore, key: str) -> bytes:
    stored = store.get(key)
    assert stored is not None
    return stored.body


def test_what_was_written_is_read_back_under_one_etag(store: ObjectStore) -> None:
    etag = written(store.put_if_absent("models/risk/1/claim.json", b"mine"))
    stored = store.get("models/risk/1/claim.json")
    head = store.head("models/risk/1/claim.json")
    assert stored is not None
    assert head is not None
    assert (stored.body, stored.etag) == (b"mine", etag)
    assert (head.key, head.etag, head.size_bytes) == ("models/risk/1/claim.json", etag, 4)


def test_what_is_not_there_is_none(store: ObjectStore) -> None:
    store.put_if_absent("folder/object", b"x")
    for key in ("nothing", "no/such/folder", "folder", "folder/object/below"):
        assert store.get(key) is None
        assert store.head(key) is None


def test_an_object_that_is_there_is_never_overwritten(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "third"
    file.write_bytes(b"third")
    store.put_if_absent("once", b"first")
    assert store.put_if_absent("once", b"second") == Refused()
    assert store.put_if_absent("once", file) == Refused()
    assert content(store, "once") == b"first"


def test_an_object_is_replaced_by_who_knows_its_etag(store: ObjectStore) -> None:
    first = written(store.put_if_absent("aliases.json", b"7"))
    second = written(store.replace("aliases.json", b"8", etag=first))
    assert second != first
    assert store.replace("aliases.json", b"9", etag=first) == Refused()
    assert store.replace("aliases.json", b"9", etag=WRONG_ETAG) == Refused()
    assert content(store, "aliases.json") == b"8"
    assert written(store.replace("aliases.json", b"9", etag=second)) != second


def test_what_is_not_there_cannot_be_replaced(store: ObjectStore) -> None:
    etag = written(store.put_if_absent("there", b"x"))
    assert store.replace("gone", b"y", etag=etag) == Refused()
    assert store.replace("no/such/folder", b"y", etag=etag) == Refused()
    assert list(store.keys("")) == ["there"]


def test_a_file_is_stored_by_its_bytes(store: ObjectStore, tmp_path: Path) -> None:
    body = os.urandom(3_000_000)
    file = tmp_path / "model.onnx"
    file.write_bytes(body)
    written(store.put_if_absent("model.onnx", file))
    file.unlink()
    assert content(store, "model.onnx") == body


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    etag = written(store.put_if_absent("_SUCCESS", b""))
    assert content(store, "_SUCCESS") == b""
    with store.open("_SUCCESS", etag=etag) as file:
        assert file.read() == b""
    assert store.put_if_absent("_SUCCESS", b"") == Refused()


def test_a_large_file_is_stored_whole_and_once(store: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as sparse:  # above the size at which S3 gets it in parts
        sparse.write(b"first")
        sparse.truncate((64 << 20) + 1_000)
        sparse.seek(0, io.SEEK_END)
        sparse.write(b"last")
    etag = written(store.put_if_absent("large", file))
    assert store.put_if_absent("large", file) == Refused()
    head = store.head("large")
    assert head is not None
    assert (head.etag, head.size_bytes) == (etag, (64 << 20) + 1_004)
    with store.open("large", etag=etag) as stored:
        assert stored.read(5) == b"first"
        stored.seek(-4, io.SEEK_END)
        assert stored.read() == b"last"


def test_a_file_is_read_at_any_place(store: ObjectStore) -> None:
    body = os.urandom(300_000)
    with store.open("file", etag=written(store.put_if_absent("file", body))) as file:
        assert file.read(10) == body[:10]
        assert file.seek(-1_000, io.SEEK_END) == 299_000
        assert file.read() == body[-1_000:]
        assert file.read(1) == b""
        assert file.seek(5) == 5
        assert file.seek(100, io.SEEK_CUR) == 105
        assert file.read(200_000) == body[105:200_105]
        file.seek(1_000_000)
        assert file.read() == b""
        file.seek(0)
        assert file.read() == body


def test_only_the_object_that_was_looked_at_is_opened(store: ObjectStore) -> None:
    etag = written(store.put_if_absent("in.parquet", b"old"))
    with pytest.raises(ObjectChangedError, match=r"in\.parquet .*start again"):
        store.open("in.parquet", etag=WRONG_ETAG)
    store.replace("in.parquet", b"new", etag=etag)
    with pytest.raises(ObjectChangedError):
        store.open("in.parquet", etag=etag)
    with pytest.raises(ObjectChangedError):
        store.open("gone", etag=etag)


def test_a_reader_never_sees_what_replaced_its_object(store: ObjectStore) -> None:
    old, new = b"o" * 12_000_000, b"n" * 12_000_000  # more than any read-ahead
    etag = written(store.put_if_absent("in.csv", old))
    with store.open("in.csv", etag=etag) as file:
        assert file.read(1) == b"o"
        store.replace("in.csv", new, etag=etag)
        file.seek(-1, io.SEEK_END)
        with suppress(ObjectChangedError):  # if it cannot go on reading the old one
            assert file.read() == b"o"


def test_a_copy_holds_the_bytes_that_its_etag_named(store: ObjectStore) -> None:
    etag = written(store.put_if_absent("_tidegate/0.attempt", b"rows"))
    copied = written(store.copy("_tidegate/0.attempt", "part-0.parquet", etag=etag))
    assert content(store, "part-0.parquet") == b"rows"
    head = store.head("part-0.parquet")
    assert head is not None
    assert head.etag == copied
    store.delete("_tidegate/0.attempt")
    assert content(store, "part-0.parquet") == b"rows"


def test_a_copy_may_be_repeated(store: ObjectStore) -> None:
    etag = written(store.put_if_absent("a", b"rows"))
    first = store.copy("a", "b", etag=etag)
    assert store.copy("a", "b", etag=etag) == first
    assert list(store.keys("")) == ["a", "b"]


def test_nothing_is_copied_from_a_source_that_is_gone(store: ObjectStore) -> None:
    etag = written(store.put_if_absent("a", b"rows"))
    store.delete("a")
    assert store.copy("a", "b", etag=etag) == Refused()
    assert store.get("b") is None


def test_nothing_is_copied_from_a_source_that_changed(strict_store: ObjectStore) -> None:
    etag = written(strict_store.put_if_absent("a", b"rows"))
    strict_store.replace("a", b"others", etag=etag)
    assert strict_store.copy("a", "b", etag=etag) == Refused()
    assert strict_store.get("b") is None


def test_what_was_deleted_is_gone_and_may_be_written_again(store: ObjectStore) -> None:
    store.put_if_absent("folder/a", b"first")
    store.delete("folder/a")
    store.delete("folder/a")
    store.delete("never/there")
    store.delete("folder")
    assert store.get("folder/a") is None
    assert list(store.keys("")) == []
    written(store.put_if_absent("folder/a", b"second"))


def test_keys_are_listed_in_the_order_of_their_bytes(store: ObjectStore) -> None:
    keys = ["Z", "a-1", "a.b/c", "a.txt", "a/1", "a/10", "a/2", "a/b/c", "a0", "b", "é"]
    keys += ["\uff5e", "\U0001f30a"]  # UTF-16 would put the second first
    for key in reversed(keys):
        store.put_if_absent(key, b"x")
    assert list(store.keys("")) == keys == sorted(keys, key=str.encode)


def test_a_prefix_is_a_string_and_not_a_folder(store: ObjectStore) -> None:
    for key in ("jobs/1/plan", "jobs/1/state", "jobs/10/plan", "jobs/2/plan", "jobs-old/1"):
        store.put_if_absent(key, b"x")
    assert list(store.keys("jobs/1")) == ["jobs/1/plan", "jobs/1/state", "jobs/10/plan"]
    assert list(store.keys("jobs/1/")) == ["jobs/1/plan", "jobs/1/state"]
    assert list(store.keys("jobs/1/s")) == ["jobs/1/state"]
    assert list(store.keys("jobs/2/plan")) == ["jobs/2/plan"]
    assert len(list(store.keys("jobs"))) == 5
    assert list(store.keys("jobs/3")) == list(store.keys("jobs/2/plan/")) == []


def test_what_is_not_wanted_is_not_listed_nor_anything_below_it(store: ObjectStore) -> None:
    for key in ("jobs/1/commits/a", "jobs/1/spec", "jobs/2/commits/b/c", "jobs/2/spec", "other"):
        store.put_if_absent(key, b"x")

    def wanted(key: str) -> bool:
        return "commits/" not in key

    assert list(store.keys("", wanted)) == ["jobs/1/spec", "jobs/2/spec", "other"]
    assert list(store.keys("jobs/1", wanted)) == ["jobs/1/spec"]
    assert list(store.keys("jobs/2/c", wanted)) == list(store.keys("jobs", lambda _: False)) == []


def test_folders_are_listed_without_what_they_hold(store: ObjectStore) -> None:
    for key in ("jobs/2/plan", "jobs/10/commits/a", "jobs/10/plan", "jobs/list", "models/a/1/b"):
        store.put_if_absent(key, b"x")
    assert list(store.folders("")) == ["jobs/", "models/"]
    assert list(store.folders("jobs/")) == ["jobs/10/", "jobs/2/"]
    assert list(store.folders("jobs/1")) == ["jobs/10/"]
    assert list(store.folders("jobs/10/")) == ["jobs/10/commits/"]
    assert list(store.folders("jobs/10/commits/")) == list(store.folders("none/")) == []


def test_a_store_without_objects_lists_none(store: ObjectStore) -> None:
    assert list(store.keys("")) == list(store.keys("models/")) == list(store.folders("")) == []


ODD_KEYS = [
    "date=2024-01-01/region=eu west/part 1+2.parquet",
    "100%/%2e%2e/a?b#c&d;e=f,g:h@i!$'()*~[x]{y}|\"<>^`",
    "grüße/naïve/日本語/🌊.bin",
    "..hidden/.b/...",
    "_tidegate/-x/ leading and trailing ",
    "tab\there",
    "x" * 200,
]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_an_odd_key_is_a_key(store: ObjectStore, key: str) -> None:
    etag = written(store.put_if_absent(key, b"odd"))
    assert content(store, key) == b"odd"
    assert list(store.keys("")) == list(store.keys(key)) == [key]
    written(store.replace(key, b"odder", etag=etag))
    store.delete(key)
    assert list(store.keys("")) == []


NO_KEYS = [
    *("", "/etc/passwd", "a//b", "a/", ".", "..", "../a", "a/../b", "a/./b", "a\\..\\b", "a\0b"),
    *(".tidegate-tmp-1", "a/.tidegate-lock-b", "\udcff", "é" * 513),
]
CALLS: list[Callable[[ObjectStore, str], object]] = [
    lambda store, key: store.head(key),
    lambda store, key: store.get(key),
    lambda store, key: store.open(key, etag=WRONG_ETAG),
    lambda store, key: store.put_if_absent(key, b"x"),
    lambda store, key: store.replace(key, b"x", etag=WRONG_ETAG),
    lambda store, key: store.copy(key, "b", etag=WRONG_ETAG),
    lambda store, key: store.copy("b", key, etag=WRONG_ETAG),
    lambda store, key: store.delete(key),
    lambda store, key: store.keys(f"{key}/"),
    lambda store, key: store.folders(f"{key}/"),
    lambda store, key: store.local_path(key),
]


def test_what_is_no_key_is_refused_by_every_call(store: ObjectStore) -> None:
    for key in NO_KEYS:
        for call in CALLS:
            with pytest.raises(InvalidKeyError):
                call(store, key)
    assert list(store.keys("")) == []


def test_an_object_is_on_this_disk_or_has_to_be_fetched(store: ObjectStore) -> None:
    store.put_if_absent("a/b", b"here")
    path = store.local_path("a/b")
    assert path is None if "://" in store.url else path and path.read_bytes() == b"here"


def race(act: Callable[[int], Outcome]) -> list[Outcome]:
    """Let every writer begin at the same moment."""
    start = Barrier(WRITERS)

    def run(writer: int) -> Outcome:
        start.wait()
        return act(writer)

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(run, range(WRITERS)))


def test_of_racing_writers_exactly_one_creates_the_object(strict_store: ObjectStore) -> None:
    for round_ in range(20):
        key = f"claims/{round_}"
        outcomes = race(partial(put_number, strict_store, key))
        winners = [who for who, outcome in enumerate(outcomes) if isinstance(outcome, Written)]
        assert [content(strict_store, key)] == [b"%d" % who for who in winners]


def put_number(store: ObjectStore, key: str, number: int) -> Written | Refused:
    return store.put_if_absent(key, b"%d" % number)


def test_of_racing_swaps_exactly_one_is_made_from_each_state(strict_store: ObjectStore) -> None:
    etag = written(strict_store.put_if_absent("state", b"start"))
    for round_ in range(20):
        outcomes = race(partial(swap_number, strict_store, etag, round_))
        won = {who: out for who, out in enumerate(outcomes) if isinstance(out, Written)}
        assert [content(strict_store, "state")] == [b"%d.%d" % (round_, who) for who in won]
        [etag] = [outcome.etag for outcome in won.values()]


def swap_number(store: ObjectStore, etag: str, revision: int, number: int) -> Written | Refused:
    """Write what was never there before: an etag of S3 is a hash, so 7 → 8 → 7 fools it."""
    return store.replace("state", b"%d.%d" % (revision, number), etag=etag)


def test_no_increment_is_lost_by_compare_and_swap(strict_store: ObjectStore) -> None:
    strict_store.put_if_absent("counter", b"0")
    race(lambda _: increment(strict_store, times=5))
    assert content(strict_store, "counter") == b"%d" % (5 * WRITERS)


def increment(store: ObjectStore, *, times: int) -> int:
    while times:
        now = store.get("counter")
        assert now is not None
        body = b"%d" % (int(now.body) + 1)
        times -= isinstance(store.replace("counter", body, etag=now.etag), Written)
    return times


@pytest.mark.field_fault("B-35")
def test_who_lost_a_reply_finds_its_own_object(store: ObjectStore) -> None:
    caller = FaultyObjectStore(store, {0: LosesReply()})
    with pytest.raises(StoreUnavailableError):
        caller.put_if_absent("commits/0", b"attempt 1")
    assert caller.put_if_absent("commits/0", b"attempt 1") == Refused()
    assert content(store, "commits/0") == b"attempt 1"


def test_a_store_that_honours_conditions_passes_the_preflight_unchanged(store: ObjectStore) -> None:
    check_conditional_writes(store)
    assert list(store.keys("")) == []
