"""What only a store on S3 must do: say what failed, repeat what may pass, and no more than that."""

import io
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fakes.s3 import Answer, ScriptedS3, scripted_s3
from tidegate.objects.opening import open_store
from tidegate.objects.port import (
    ObjectChangedError,
    ObjectStore,
    Refused,
    StoreBusyError,
    StoreUnavailableError,
    Written,
)
from tidegate.objects.preflight import check_conditional_writes
from tidegate.objects.s3 import S3ObjectStore

SECRET = "this-must-stay-secret"


@pytest.fixture
def store(s3_url: str) -> ObjectStore:
    return open_store(s3_url)


@pytest.fixture
def alone(aws_stays_outside: None, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make botocore try once, so that each repetition seen is the store's own."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return monkeypatch


def store_at(script: ScriptedS3, environment: pytest.MonkeyPatch) -> S3ObjectStore:
    environment.setenv("AWS_ENDPOINT_URL", script.endpoint)
    return S3ObjectStore("bucket", "prefix")


def error(status: int, code: str) -> Answer:
    return Answer(status=status, code=code)


def etag_of(outcome: Written | Refused) -> str:
    assert isinstance(outcome, Written)
    return outcome.etag


CONFLICT = error(409, "ConditionalRequestConflict")
PASSING = {
    "a conflict that wrote nothing": CONFLICT,
    "throttling": error(503, "SlowDown"),
    "throttling dressed as a denial": error(503, "AccessDenied"),
    "a server's own error": error(500, "InternalError"),
}


@pytest.mark.field_fault("B-33")
@pytest.mark.parametrize("answer", PASSING.values(), ids=PASSING.keys())
def test_what_may_pass_is_asked_again(answer: Answer, alone: pytest.MonkeyPatch) -> None:
    with scripted_s3(answer, answer) as script:
        store = store_at(script, alone)
        assert store.put_if_absent("key", b"x") == Written(etag='"scripted"')
        assert script.requests == ["PUT /bucket/prefix/key"] * 3
        script.answers = [answer, answer, error(412, "PreconditionFailed")]
        assert store.replace("key", b"x", etag='"1"') == Refused()


@pytest.mark.field_fault("B-33")
def test_a_store_that_goes_on_throttling_is_busy_and_not_closed(alone: pytest.MonkeyPatch) -> None:
    with scripted_s3(*[error(503, "AccessDenied")] * 20) as script:
        alone.setenv("AWS_ENDPOINT_URL", script.endpoint)
        alone.setenv("AWS_MAX_ATTEMPTS", "1")
        with pytest.raises(StoreBusyError, match="is overloaded and went on answering"):
            S3ObjectStore("bucket", patience_ns=0).get("key")


def test_a_conflict_never_counts_as_refused(alone: pytest.MonkeyPatch) -> None:
    """It says that somebody else is writing just now, not that anything is there."""
    with scripted_s3(CONFLICT) as script:
        alone.setenv("AWS_ENDPOINT_URL", script.endpoint)
        store = S3ObjectStore("bucket", patience_ns=0)
        with pytest.raises(StoreUnavailableError, match=r"overloaded .*ConditionalRequestConflict"):
            store.put_if_absent("key", b"x")


LASTING = {
    "AccessDenied": (error(403, "AccessDenied"), r"access was denied .*s3:PutObject"),
    "InvalidAccessKeyId": (error(403, "InvalidAccessKeyId"), "refused the credentials"),
    "ExpiredToken": (error(400, "ExpiredToken"), "refused the credentials"),
    "NoSuchBucket": (error(404, "NoSuchBucket"), "no such bucket. Create it"),
    "NotImplemented": (error(501, "NotImplemented"), "needs conditional writes"),
    "a 409 of another kind": (error(409, "InvalidBucketState"), "409 InvalidBucketState: no"),
    "a 412 of another kind": (error(412, "SomethingElse"), "412 SomethingElse: no"),
}


@pytest.mark.field_fault("B-33", "B-20")
@pytest.mark.parametrize(("answer", "said"), LASTING.values(), ids=LASTING.keys())
def test_what_will_not_pass_is_said_at_once(
    answer: Answer, said: str, alone: pytest.MonkeyPatch
) -> None:
    with scripted_s3(answer) as script:
        store = store_at(script, alone)
        with pytest.raises(StoreUnavailableError, match=said) as raised:
            store.put_if_absent("key", b"x")
    assert len(script.requests) == 1
    assert not isinstance(raised.value, StoreBusyError)
    assert f"s3://bucket/prefix/key at {script.endpoint}: " in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_reply_that_is_cut_is_read_again(alone: pytest.MonkeyPatch) -> None:
    whole = Answer(body=b"0123456789")
    with scripted_s3(Answer(body=b"0123456789", cut_after=4), whole) as script:
        stored = store_at(script, alone).get("key")
        assert stored is not None
        assert stored.body == b"0123456789"
        script.answers = [
            Answer(body=b"0123456789"),
            Answer(body=b"0123456789", cut_after=4),
            whole,
        ]
        with store_at(script, alone).open("key", etag='"scripted"') as file:
            assert file.read() == b"0123456789"


PAGE = """<ListBucketResult><IsTruncated>{more}</IsTruncated>{token}
<Contents><Key>prefix/{key}</Key></Contents></ListBucketResult>"""


def test_a_listing_goes_on_after_an_error_and_never_just_ends(alone: pytest.MonkeyPatch) -> None:
    token = "<NextContinuationToken>2nd</NextContinuationToken>"
    first = Answer(body=PAGE.format(more="true", token=token, key="a").encode())
    second = Answer(body=PAGE.format(more="false", token="", key="b").encode())
    with scripted_s3(first, error(503, "SlowDown"), second) as script:
        assert list(store_at(script, alone).keys("")) == ["a", "b"]
        assert ["continuation-token=2nd" in request for request in script.requests] == [0, 1, 1]


def test_markers_that_consoles_make_for_folders_are_no_objects(alone: pytest.MonkeyPatch) -> None:
    page = PAGE.format(more="false", token="", key="a/</Key></Contents><Contents><Key>prefix/a/b")
    with scripted_s3(Answer(body=page.encode())) as script:
        assert list(store_at(script, alone).keys("")) == ["a/b"]


def test_a_store_that_ignores_conditions_fails_the_preflight(alone: pytest.MonkeyPatch) -> None:
    with scripted_s3() as script:  # answers every write with success
        with pytest.raises(StoreUnavailableError, match=r"ignores If-None-Match: .*Use Amazon S3"):
            check_conditional_writes(store_at(script, alone))
        assert [request.split(" ")[0] for request in script.requests] == ["PUT", "PUT", "DELETE"]
    with scripted_s3(Answer(), error(412, "PreconditionFailed")) as script:
        with pytest.raises(StoreUnavailableError, match="ignores If-Match: "):
            check_conditional_writes(store_at(script, alone))
        assert script.requests[-1].startswith("DELETE ")


def test_a_server_that_is_not_there_is_said(alone: pytest.MonkeyPatch) -> None:
    with scripted_s3() as script:
        pass
    alone.setenv("AWS_ENDPOINT_URL", script.endpoint.replace("//", "//user:word@"))
    with pytest.raises(StoreUnavailableError, match=r"could not be reached.*AWS_ENDPOINT_URL") as e:
        S3ObjectStore("bucket").get("key")
    assert f" at {script.endpoint}: " in str(e.value)
    assert "word" not in str(e.value)
    assert isinstance(e.value, StoreBusyError), "whoever has had an answer before may wait"


def test_credentials_that_are_missing_are_said(alone: pytest.MonkeyPatch) -> None:
    alone.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(StoreUnavailableError, match=r"no AWS credentials .*AWS_PROFILE"):
        S3ObjectStore("bucket").get("key")


@pytest.mark.parametrize(
    ("name", "value"), [("AWS_PROFILE", "nobody"), ("AWS_ENDPOINT_URL", "localhost:9000")]
)
def test_a_configuration_that_cannot_be_is_said(
    name: str, value: str, alone: pytest.MonkeyPatch
) -> None:
    alone.setenv(name, value)
    with pytest.raises(StoreUnavailableError, match="the AWS configuration cannot be used"):
        S3ObjectStore("bucket")


def test_a_bucket_that_is_missing_is_no_missing_object(
    s3_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = S3ObjectStore(f"missing-{secrets.token_hex(4)}")
    for call in (store.head, store.get, lambda key: list(store.keys(key))):
        with pytest.raises(StoreUnavailableError, match="no such bucket"):
            call("key")


def test_credentials_that_a_real_server_refuses_are_said(
    versitygw_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(StoreUnavailableError, match="refused the credentials") as refused:
        open_store(versitygw_url).get("key")
    assert SECRET not in str(refused.value)


def test_a_file_in_parts_is_created_once_and_leaves_no_part(s3_url: str, tmp_path: Path) -> None:
    store = S3ObjectStore("tidegate", s3_url.rpartition("/")[2], part_bytes=5 << 20)
    file = tmp_path / "model.onnx"
    file.write_bytes(os.urandom(11 << 20))
    etag = etag_of(store.put_if_absent("model.onnx", file))
    assert store.put_if_absent("model.onnx", file) == Refused()
    with store.open("model.onnx", etag=etag) as stored:
        assert stored.read() == file.read_bytes()


def test_of_racing_uploads_in_parts_exactly_one_creates_the_object(
    versitygw_url: str, tmp_path: Path
) -> None:
    store = S3ObjectStore("tidegate", versitygw_url.rpartition("/")[2], part_bytes=5 << 20)
    files = [tmp_path / str(number) for number in range(4)]
    for number, file in enumerate(files):
        file.write_bytes(bytes([number]) * (6 << 20))
    with ThreadPoolExecutor(len(files)) as pool:
        outcomes = list(pool.map(lambda file: store.put_if_absent("large", file), files))
    [winner] = [number for number, out in enumerate(outcomes) if isinstance(out, Written)]
    stored = store.get("large")
    assert stored is not None
    assert stored.body == files[winner].read_bytes()


UPLOAD = Answer(
    body=b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
)
ABSENT, PART = Answer(status=404), Answer()
COMPLETE = Answer(
    body=b"<CompleteMultipartUploadResult><ETag>&quot;1-1&quot;</ETag></CompleteMultipartUploadResult>"
)


@pytest.fixture
def two_bytes(tmp_path: Path) -> Path:
    file = tmp_path / "two"
    file.write_bytes(b"12")
    return file


def parts_store(script: ScriptedS3, environment: pytest.MonkeyPatch) -> S3ObjectStore:
    environment.setenv("AWS_ENDPOINT_URL", script.endpoint)
    return S3ObjectStore("bucket", part_bytes=1)


def test_an_upload_in_parts_starts_again_after_a_conflict(
    alone: pytest.MonkeyPatch, two_bytes: Path
) -> None:
    """S3 wants new parts then; the old ones are removed."""
    aborted = Answer(status=204)
    bucket = Answer()
    first = [ABSENT, bucket, UPLOAD, PART, PART, CONFLICT, aborted]
    with scripted_s3(*first, UPLOAD, PART, PART, COMPLETE) as script:
        assert parts_store(script, alone).put_if_absent("k", two_bytes) == Written(etag='"1-1"')
    methods = [request.split(" ")[0] for request in script.requests]
    sent = ["POST", "PUT", "PUT", "POST"]
    assert methods == ["HEAD", "HEAD", *sent, "DELETE", *sent]


LOST_REPLY = [ABSENT, Answer(), UPLOAD, PART, PART, error(404, "NoSuchUpload"), Answer(status=204)]


def test_an_upload_in_parts_that_was_complete_already_is_refused(
    alone: pytest.MonkeyPatch, two_bytes: Path
) -> None:
    """The reply to the completion was lost, and the repetition finds no upload any more."""
    with scripted_s3(*LOST_REPLY, Answer()) as script:
        assert parts_store(script, alone).put_if_absent("k", two_bytes) == Refused()


def test_an_upload_in_parts_that_was_aborted_from_outside_is_said(
    alone: pytest.MonkeyPatch, two_bytes: Path
) -> None:
    with (
        scripted_s3(*LOST_REPLY, ABSENT) as script,
        pytest.raises(StoreUnavailableError, match=r"k: its upload was aborted from outside"),
    ):
        parts_store(script, alone).put_if_absent("k", two_bytes)


def test_reading_on_notices_that_the_object_changed(store: ObjectStore) -> None:
    etag = etag_of(store.put_if_absent("in.csv", b"o" * 9_000_000))
    with store.open("in.csv", etag=etag) as file:
        assert file.read(1_000) == b"o" * 1_000
        store.replace("in.csv", b"n" * 9_000_000, etag=etag)
        file.seek(-1, io.SEEK_END)
        with pytest.raises(ObjectChangedError, match=r"in\.csv"):
            file.read()
        store.delete("in.csv")
        with pytest.raises(ObjectChangedError):
            file.read()


def test_parquet_is_read_through_it_and_a_change_keeps_its_name(store: ObjectStore) -> None:
    table = pa.table({"row": list(range(200_000)), "word": ["tide"] * 200_000})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=20_000)
    etag = etag_of(store.put_if_absent("in.parquet", buffer.getvalue()))
    with store.open("in.parquet", etag=etag) as stored, pq.ParquetFile(stored) as file:
        assert file.read_row_group(7).equals(table.slice(140_000, 20_000))
        assert file.read().equals(table)
    with store.open("in.parquet", etag=etag) as stored:
        store.replace("in.parquet", b"other", etag=etag)
        with pytest.raises(ObjectChangedError):
            pq.ParquetFile(stored)
