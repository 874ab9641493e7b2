"""Inputs that cannot be reached stop a job within seconds, before a worker starts."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.batch_jobs import drive, inline_engine, new_place, parts_with
from tidegate.objects.opening import open_store
from tidegate.objects.port import StoreUnavailableError
from tidegate.units import Nanoseconds
from tidegate_batch.core.states import State
from tidegate_batch.pipeline.reaching import reach_inputs
from tidegate_batch.pipeline.submission import submit

SOON_NS = Nanoseconds(300_000_000)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have S3 be a server that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        point_s3_at(server.getsockname()[1], monkeypatch)
        yield


def point_s3_at(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")


@pytest.mark.field_fault("B-20")
@pytest.mark.usefixtures("silent")
def test_inputs_that_never_answer_are_all_named_when_the_limit_is_over() -> None:
    inputs = ["s3://rows/2024/", "s3://rows/a.parquet", "s3://other/*.csv"]
    with pytest.raises(StoreUnavailableError) as raised:
        reach_inputs(inputs, stores=open_store, limit_ns=SOON_NS)
    assert all(f"{name}: its store did not answer" in str(raised.value) for name in inputs)
    assert "within 0.3 s. Check the network, AWS_ENDPOINT_URL" in str(raised.value)


@pytest.mark.field_fault("B-20")
def test_a_prefix_that_cannot_be_read_stops_the_job_before_a_worker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    point_s3_at(port, monkeypatch)
    place = new_place(tmp_path, 10)
    parts = parts_with()
    submission = place.submission(inputs=["s3://rows/2024/"])
    record = submit(submission, store_url=place.store, parts=parts)
    engine = inline_engine(parts)
    with pytest.raises(StoreUnavailableError, match=r"s3://rows.* could not be reached"):
        drive(record, parts, tmp_path / "cache", engine=engine)
    state = record.state()
    assert state is not None
    assert state.state is State.FAILED
    assert not list(Path(place.output).glob("**/*.attempt"))


def test_what_can_be_reached_is_no_error_whether_it_is_there_or_not(
    store_url: str, tmp_path: Path
) -> None:
    open_store(store_url).put_if_absent("a/b.parquet", b"x")
    inputs = [f"{store_url}/a/", f"{store_url}/a/*.parquet", f"{store_url}/a/b.parquet"]
    reach_inputs([*inputs, f"{store_url}/none/", str(tmp_path / "none.csv")], stores=open_store)
