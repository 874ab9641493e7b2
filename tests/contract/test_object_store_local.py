"""What only a store on a folder must do: links, locks, full disks and killed processes."""

import errno
import fcntl
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.objects.durable import link_or_copy, write_flushed
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.port import (
    ObjectChangedError,
    ObjectHead,
    Refused,
    StoreUnavailableError,
    Written,
)
from tidegate.units import NS_PER_MS

PROCESSES = 4


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> LocalObjectStore:
    return LocalObjectStore(root)


def head(store: LocalObjectStore, key: str) -> ObjectHead:
    found = store.head(key)
    assert found is not None
    return found


def side_files(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob(".tidegate-*"))


def python(script: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


PUT_FILE = """
import sys
from pathlib import Path
from tidegate.objects.local import LocalObjectStore
print(LocalObjectStore(Path(sys.argv[1])).put_if_absent(sys.argv[2], Path(sys.argv[3])))
"""


def test_a_killed_writer_leaves_nothing_to_see(
    root: Path, store: LocalObjectStore, tmp_path: Path
) -> None:
    """Killed in the middle: its body is a pipe, of which all that was sent has been taken."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        python(PUT_FILE, str(root), "models/risk/1/model.onnx", str(pipe)) as writer,
        pipe.open("wb", buffering=0) as body,
    ):
        body.write(b"x" * (4 << 20))
        writer.kill()
        writer.wait()
    [side] = root.rglob(".tidegate-tmp-*")
    assert side.stat().st_size >= 3 << 20
    assert list(store.keys("")) == []
    assert store.get("models/risk/1/model.onnx") is None
    assert isinstance(store.put_if_absent("models/risk/1/model.onnx", b"whole"), Written)
    assert list(store.keys("")) == ["models/risk/1/model.onnx"]


PUT_WITH_LITTLE_ROOM = """
import resource, sys
from pathlib import Path
from tidegate.objects.local import LocalObjectStore
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
store = LocalObjectStore(Path(sys.argv[1]))
try:
    store.put_if_absent("a/large", b"x" * (2 << 20))
except Exception as error:
    print(f"{type(error).__name__}: {error}")
print(list(store.keys("")), store.put_if_absent("a/small", b"x"))
"""


def test_a_full_disk_is_said_and_leaves_nothing_behind(root: Path) -> None:
    with python(PUT_WITH_LITTLE_ROOM, str(root)) as writer:
        said, traceback = writer.communicate()
    assert traceback == ""
    assert said.startswith(f"StoreUnavailableError: a/large in the store {root}: File too large. ")
    assert "Nothing was written." in said
    assert "MiB are free" in said
    assert "\n[] Written(" in said
    assert side_files(root) == []


PUT_MANY = """
import sys
from pathlib import Path
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.port import Refused
store, me = LocalObjectStore(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.read()  # nobody begins before all are here
for number in range(100):
    store.put_if_absent(f"claims/{number}", me.encode())
for _ in range(25):
    while True:
        now = store.get("counter")
        body = b"%d" % (int(now.body) + 1)
        if store.replace("counter", body, etag=now.etag) != Refused():
            break
"""


def test_processes_that_race_create_once_and_lose_no_swap(
    root: Path, store: LocalObjectStore
) -> None:
    store.put_if_absent("counter", b"0")
    writers = [python(PUT_MANY, str(root), str(me)) for me in range(PROCESSES)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
        writer.stdin = None  # so that communicate() does not look for it
    assert [writer.communicate()[1] for writer in writers] == [""] * PROCESSES
    counter = store.get("counter")
    assert counter is not None
    assert counter.body == b"%d" % (25 * PROCESSES)
    claims = [store.get(key) for key in store.keys("claims/")]
    assert len(claims) == 100
    assert {claim.body for claim in claims if claim} <= {b"0", b"1", b"2", b"3"}
    assert side_files(root) == [".tidegate-lock-counter"]


def test_a_lock_that_is_never_freed_is_an_error_that_names_it(root: Path) -> None:
    store = LocalObjectStore(root, lock_wait_ns=20 * NS_PER_MS)
    store.put_if_absent("state", b"1")
    etag = head(store, "state").etag
    with (root / ".tidegate-lock-state").open("wb") as stopped_process:
        fcntl.flock(stopped_process, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailableError, match=r"0\.02 s.*\.tidegate-lock-state.*lslocks"):
            store.replace("state", b"2", etag=etag)
    assert isinstance(store.replace("state", b"2", etag=etag), Written)


FORK_UNDER_A_LOCK = """
import os, sys
from pathlib import Path
from tidegate.objects.durable import lock_of
reader, writer = os.pipe()
with lock_of(Path(sys.argv[1]), wait_ns=0):
    if os.fork() == 0:
        os.close(writer)
        os.read(reader, 1)  # lives on, until its parent closes the pipe
        os._exit(0)
with lock_of(Path(sys.argv[1]), wait_ns=0):
    print("free")
os.close(writer)
os.wait()
"""


def test_a_lock_is_free_again_although_a_child_was_forked_under_it(tmp_path: Path) -> None:
    """The child shares the open file, and would share the lock for as long as it lives."""
    with python(FORK_UNDER_A_LOCK, str(tmp_path / "state")) as parent:
        assert parent.communicate() == ("free\n", "")


def test_a_key_never_leads_out_through_a_link(
    root: Path, store: LocalObjectStore, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    root.mkdir()
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "file").symlink_to("../outside/secret")
    for key in ("folder/secret", "file"):
        with pytest.raises(StoreUnavailableError, match=r"leads out of .*/outside"):
            store.get(key)
        with pytest.raises(StoreUnavailableError, match="leads out"):
            store.delete(key)
    with pytest.raises(StoreUnavailableError, match="leads out"):
        store.put_if_absent("folder/new", b"x")
    with pytest.raises(StoreUnavailableError, match="leads out"):  # never silently fewer rows
        list(store.keys(""))
    with pytest.raises(StoreUnavailableError, match="leads out"):
        list(store.keys("folder/"))
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]


def test_what_is_not_wanted_is_not_entered_and_no_link_of_it_is_followed(
    root: Path, store: LocalObjectStore, tmp_path: Path
) -> None:
    for key in ("a/rows", "b/rows", "c"):
        store.put_if_absent(key, b"x")
    (root / "b/out").symlink_to(tmp_path)
    (root / "out").symlink_to(tmp_path)
    asked: list[str] = []

    def wanted(key: str) -> bool:
        asked.append(key)
        return key.startswith("a/")

    assert list(store.keys("", wanted)) == ["a/rows"]
    assert sorted(asked) == ["a/", "a/rows", "b/", "c", "out/"]
    with pytest.raises(StoreUnavailableError, match="only links that stay below it are followed"):
        list(store.keys(""))
    assert list(store.keys("a")) == ["a/rows"]


def test_links_that_stay_inside_are_followed_and_list_nothing_twice(
    root: Path, store: LocalObjectStore
) -> None:
    store.put_if_absent("2024/rows", b"rows")
    (root / "latest").symlink_to("2024")
    (root / "rows").symlink_to("2024/rows")
    (root / "dead").symlink_to("gone")
    assert [store.get(key) for key in ("latest/rows", "rows")] == [store.get("2024/rows")] * 2
    assert list(store.keys("")) == ["2024/rows", "rows"]
    store.delete("rows")
    assert store.get("2024/rows") is not None


def test_a_store_may_itself_stand_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "store").symlink_to("disk")
    store = LocalObjectStore(tmp_path / "store")
    assert isinstance(store.put_if_absent("a/b", b"x"), Written)
    assert (tmp_path / "disk/a/b").read_bytes() == b"x"
    assert store.url == str(tmp_path / "store")


def test_a_file_in_the_way_of_a_folder_is_said(store: LocalObjectStore) -> None:
    store.put_if_absent("a", b"x")
    store.put_if_absent("b/c", b"x")
    with pytest.raises(StoreUnavailableError, match=r"a/b in .* stands where a folder must be"):
        store.put_if_absent("a/b", b"x")
    with pytest.raises(StoreUnavailableError, match="a folder where a file must be"):
        store.put_if_absent("b", b"x")  # "refused" would send its caller looking for ever
    with pytest.raises(StoreUnavailableError, match="a folder where a file must be"):
        store.copy("a", "b", etag=head(store, "a").etag)


def test_a_store_on_a_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailableError, match=r"the folder in the store .*Not a directory"):
        LocalObjectStore(tmp_path / "file")


def test_a_place_where_nobody_may_write_is_said() -> None:
    store = LocalObjectStore(Path("/sys/tidegate-store"))
    with pytest.raises(StoreUnavailableError, match=r"a/b in .*Let user id \d+ read and write"):
        store.put_if_absent("a/b", b"x")


def test_what_cannot_be_named_is_an_error_of_the_listing(
    root: Path, store: LocalObjectStore
) -> None:
    store.put_if_absent("in/a", b"x")
    (root / "in" / "back\\slash").write_bytes(b"rows")
    assert list(store.keys("out/")) == []
    with pytest.raises(StoreUnavailableError, match=r"cannot be listed.*Rename"):
        list(store.keys("in/"))


def test_pipes_and_sockets_are_no_objects(root: Path, store: LocalObjectStore) -> None:
    root.mkdir()
    os.mkfifo(root / "pipe")
    assert store.get("pipe") is None  # and does not wait for a writer
    assert list(store.keys("")) == []


def test_others_may_read_what_the_umask_lets_them(root: Path, store: LocalObjectStore) -> None:
    """A Triton server, as another user, reads this folder too."""
    old = os.umask(0o022)
    try:
        store.put_if_absent("a/b", b"x")
    finally:
        os.umask(old)
    assert (root / "a/b").stat().st_mode & 0o777 == 0o644
    assert (root / "a").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("size_bytes", [10, 1_000, 70_000, 200_000, 1_000_000])
def test_an_etag_changes_with_either_end_of_a_file(
    root: Path, store: LocalObjectStore, size_bytes: int
) -> None:
    """Size and time stay: a copying tool may put them back."""
    body = bytearray(size_bytes)
    store.put_if_absent("a", bytes(body))
    path, etags = root / "a", {head(store, "a").etag}
    status = path.stat()
    for position in (0, size_bytes // 2 if size_bytes <= 128 << 10 else 1, size_bytes - 1):
        body[position] = 1
        path.write_bytes(body)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        etags.add(head(store, "a").etag)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    etags.add(head(store, "a").etag)
    assert len(etags) == 5


def test_an_open_file_keeps_its_bytes_through_replacement_and_deletion(
    store: LocalObjectStore,
) -> None:
    store.put_if_absent("a", b"old")
    etag = head(store, "a").etag
    with store.open("a", etag=etag) as file:
        store.replace("a", b"new", etag=etag)
        store.delete("a")
        assert file.read() == b"old"


def test_a_file_edited_in_place_is_another_object(root: Path, store: LocalObjectStore) -> None:
    store.put_if_absent("in.csv", b"a,b\n")
    etag = head(store, "in.csv").etag
    with (root / "in.csv").open("ab") as file:
        file.write(b"1,2\n")
    with pytest.raises(ObjectChangedError):
        store.open("in.csv", etag=etag)
    assert store.copy("in.csv", "copy", etag=etag) == Refused()


def test_a_copy_moves_no_byte(root: Path, store: LocalObjectStore) -> None:
    store.put_if_absent("a", b"rows")
    store.copy("a", "out/b", etag=head(store, "a").etag)
    assert (root / "a").samefile(root / "out/b")


def test_a_copy_replaces_a_target_that_is_something_else(store: LocalObjectStore) -> None:
    """As S3 does; only who breaks the rule of ``copy`` sees it."""
    store.put_if_absent("a", b"rows")
    store.put_if_absent("b", b"damaged")
    assert store.copy("a", "b", etag=head(store, "a").etag) == Written(etag=head(store, "a").etag)
    assert store.get("b") == store.get("a")


def test_where_no_link_can_be_made_the_bytes_are_copied_with_their_time(tmp_path: Path) -> None:
    origin, side = Path("/dev/shm") / f"tidegate-{os.getpid()}", tmp_path / "side"
    if not origin.parent.is_dir() or origin.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm on a file system of its own")
    write_flushed(origin, io.BytesIO(b"rows"), mtime_ns=1_700_000_000_123_456_789)
    try:
        with pytest.raises(OSError, match="cross-device") as refused:
            os.link(origin, side)
        assert refused.value.errno == errno.EXDEV
        link_or_copy(origin, side)
    finally:
        origin.unlink()
    assert side.read_bytes() == b"rows"
    assert side.stat().st_mtime_ns == 1_700_000_000_123_456_789


def test_a_folder_that_is_gone_is_a_store_that_is_away_and_not_an_empty_one(
    root: Path, store: LocalObjectStore
) -> None:
    assert store.get("a") is None  # before the first write nothing is amiss
    assert list(store.keys("")) == []
    store.put_if_absent("a", b"x")
    etag = head(store, "a").etag
    root.rename(root.with_name("elsewhere"))
    reads: list[Callable[[], object]] = [
        lambda: store.head("a"),
        lambda: store.get("a"),
        lambda: store.open("a", etag=etag),
        lambda: store.replace("a", b"y", etag=etag),
        lambda: list(store.keys("")),
    ]
    for read in reads:
        with pytest.raises(StoreUnavailableError, match=f"the store {root}: No such file"):
            read()
    root.with_name("elsewhere").rename(root)
    assert head(store, "a").etag == etag
