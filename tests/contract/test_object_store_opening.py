"""From the URL that a person writes to a store and a key."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.errors import SettingError
from tidegate.objects.opening import open_store, split_url


def test_a_path_is_a_store_wherever_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a b").mkdir()
    for url in ("store", "./store/", "a b/../store", "~/store", f"file://{tmp_path}/store"):
        store = open_store(url)
        assert store.url == str(tmp_path / "store")
        assert open_store(store.url).url == store.url
    assert open_store(f"file://localhost{tmp_path}/a%20b").url == str(tmp_path / "a b")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("s3://bucket/a b/%c3?x#y/", "s3://bucket/a b/%c3?x#y"),
    ],
)
def test_an_s3_url_is_a_bucket_and_a_prefix(
    url: str, shown: str, aws_stays_outside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    assert open_store(url).url == shown


@pytest.mark.parametrize(
    "url", ["", "gs://bucket/x", "https://host/x", "s3:/b", "S3://b", "file://host/x", "s3://"]
)
def test_another_kind_of_place_is_refused_by_name(url: str) -> None:
    for call in (open_store, split_url):
        with pytest.raises(SettingError, match=r"Write s3://BUCKET"):
            call(url)


def test_a_prefix_that_is_no_key_is_refused() -> None:
    with pytest.raises(SettingError, match=r"'s3://b/a/\.\./c' is no store"):
        open_store("s3://b/a/../c")


@pytest.mark.parametrize(
    "url",
    [
        "s3://b/a/../x",
        "s3://b//a/x",
        "s3://b/a/../",
        "in/*/../x.parquet",
        "in/.tidegate-x.parquet",
        "in/a\\b.parquet",
        "in/*\0.parquet",
        f"s3://b/{'x' * 1025}",
    ],
)
def test_what_no_store_can_hold_is_refused_by_name(url: str) -> None:
    with pytest.raises(SettingError, match="names nothing that a store can hold"):
        split_url(url)


WITHOUT_BOTO3 = """
import sys
sys.modules["boto3"] = None
from tidegate.objects.opening import open_store, split_url
print(open_store("/tmp").url, split_url("s3://b/k"))
try:
    open_store("s3://b")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_only_s3_needs_its_extra() -> None:
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT_BOTO3], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines() == [
        "/tmp ('s3://b', 'k')",
        "SettingError: s3://b needs boto3, which is not installed: pip install 'tidegate[s3]'",
    ]


@pytest.mark.parametrize(
    ("url", "store", "key"),
    [
        ("s3://b/a/b.parquet", "s3://b", "a/b.parquet"),
        ("s3://b/a/date=*/*.parquet", "s3://b", "a/date=*/*.parquet"),
        ("s3://b/a/", "s3://b", "a/"),
        ("s3://b", "s3://b", ""),
    ],
)
def test_an_s3_url_is_split_after_its_bucket(url: str, store: str, key: str) -> None:
    assert split_url(url) == (store, key)


@pytest.mark.parametrize(
    ("path", "folder", "key"),
    [
        ("x/rows.parquet", "x", "rows.parquet"),
        ("x/not/there.parquet", "x/not", "there.parquet"),
        ("x", "", "x"),
        ("x/", "x", ""),
        ("x/*.parquet", "x", "*.parquet"),
        ("*/rows-[0-9]/**", "", "*/rows-[0-9]/**"),
        ("x/odd[1].csv", "x", "odd[1].csv"),
        ("link/rows.parquet", "x", "rows.parquet"),
        ("link", "", "x"),
        ("link/", "x", ""),
        ("link/*.parquet", "x", "*.parquet"),
    ],
)
def test_a_path_is_split_at_its_deepest_plain_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, folder: str, key: str
) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x/odd[1].csv").touch()
    (tmp_path / "link").symlink_to("x")
    monkeypatch.chdir(tmp_path)
    expected = (str((tmp_path / folder).resolve()), key)
    for url in (path, f"./{path}", f"{tmp_path}/{path}"):
        assert split_url(url) == expected
