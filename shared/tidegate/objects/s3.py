"""An object store on S3, or on anything that speaks it and honours conditional writes.

Endpoint, region and credentials come from where every AWS tool takes them (``AWS_ENDPOINT_URL``,
``AWS_PROFILE``, a role, …). botocore repeats what was throttled, timed out or failed with a 5xx;
on top of that ``Asking`` repeats conflicts that wrote nothing, cut replies and throttling that
lasts, until the store's patience is spent.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from tidegate.objects.port import (
    ObjectChangedError,
    ObjectHead,
    Refused,
    StoredObject,
    StoreUnavailableError,
    Wanted,
    Written,
    check_key,
    check_prefix,
    everything,
    usable_folders,
    usable_keys,
)
from tidegate.objects.s3_calls import Asking, connect
from tidegate.objects.s3_parts import PartsUpload
from tidegate.objects.s3_reader import open_ranges
from tidegate.units import NS_PER_SECOND

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import (
        GetObjectOutputTypeDef,
        ListObjectsV2OutputTypeDef,
        ListObjectsV2RequestTypeDef,
    )

_PATIENCE_NS: Final = 30 * NS_PER_SECOND
"""A conflict or a burst of throttling is over sooner; a store that is down stays down."""
_PART_BYTES: Final = 64 << 20
"""The size above which a file goes in parts, since one request is hardly ever cut below it."""
_READ_TIMEOUT_S: Final = 10
_WHOLE_OBJECT_TIMEOUT_S: Final = 300
"""For calls in which the server moves the bytes of a whole object before it answers."""
_MISSING: Final = frozenset({"NoSuchKey", "NotFound", "404"})
_UNMET: Final = frozenset({"PreconditionFailed", "NoSuchKey"})
_UPLOAD_OVER: Final = frozenset({"PreconditionFailed", "NoSuchUpload"})
"""The second: completed already, if only the reply was lost."""


class S3ObjectStore:
    """The objects of one bucket whose keys begin with ``prefix`` and a slash.

    A multipart upload that a killed process leaves behind is invisible but paid for; give the
    bucket a lifecycle rule that aborts incomplete uploads.

    Args:
        bucket: Must exist.
        prefix: Without a slash at its ends; empty for the whole bucket.
        patience_ns: For how long a request is repeated.
        part_bytes: Of a multipart upload, which files larger than this become; S3 takes 5 MiB
            or more.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        patience_ns: int = _PATIENCE_NS,
        part_bytes: int = _PART_BYTES,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{check_key(prefix)}/" if prefix else ""
        self._part_bytes = part_bytes
        self._client = connect(self.url, read_timeout_s=_READ_TIMEOUT_S)
        self._asking = Asking(
            url=f"s3://{bucket}",
            endpoint=self._client.meta.endpoint_url,
            patience_ns=patience_ns,
        )
        self._bucket_was_seen = False

    @property
    def url(self) -> str:
        """``s3://bucket/prefix``; on which endpoint, the environment says."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def head(self, key: str) -> ObjectHead | None:
        """Ask for etag and size.

        Raises:
            StoreUnavailableError: Also when there is no such bucket, which the answer to this
                request alone does not tell apart from a missing object.
        """
        full = self._full(key)
        reply = self._asking.ask_unless(
            lambda: self._client.head_object(Bucket=self._bucket, Key=full),
            key=full,
            unless=_MISSING,
        )
        if reply is None:
            self._require_bucket()
            return None
        return ObjectHead(key=key, etag=reply["ETag"], size_bytes=reply["ContentLength"])

    def get(self, key: str) -> StoredObject | None:
        """Read an object whole."""
        full = self._full(key)
        return self._asking.ask_unless(
            lambda: _whole(self._client.get_object(Bucket=self._bucket, Key=full)),
            key=full,
            unless=_MISSING,
        )

    def open(self, key: str, *, etag: str) -> BinaryIO:
        """Open an object for ranged reads, each on condition that it still has this etag.

        Raises:
            ObjectChangedError: Here or while reading: the object is gone or has another etag.
        """
        head = self.head(key)
        if head is None or head.etag != etag:
            raise ObjectChangedError.of_object(key, url=self.url, expected=etag)
        return open_ranges(partial(self._fetch, key, etag), size_bytes=head.size_bytes)

    def put_if_absent(self, key: str, body: bytes | Path) -> Written | Refused:
        """Create an object by a conditional PUT; a large file by a conditional completion."""
        full = self._full(key)
        if isinstance(body, bytes):
            return self._write(full, lambda: self._put(full, body))
        if body.stat().st_size > self._part_bytes:
            return self._put_in_parts(key, body)
        return self._write(full, lambda: self._put_file(full, body))

    def replace(self, key: str, body: bytes, *, etag: str) -> Written | Refused:
        """Replace an object by a PUT that names its etag."""
        full = self._full(key)
        return self._write(
            full,
            lambda: self._client.put_object(Bucket=self._bucket, Key=full, Body=body, IfMatch=etag)[
                "ETag"
            ],
        )

    def copy(self, source: str, target: str, *, etag: str) -> Written | Refused:
        """Let the server copy, up to 5 GiB; an existing target is overwritten."""
        origin, full = self._full(source), self._full(target)
        return self._write(
            full,
            lambda: self._patient_client.copy_object(
                Bucket=self._bucket,
                Key=full,
                CopySource={"Bucket": self._bucket, "Key": origin},
                CopySourceIfMatch=etag,
            )["CopyObjectResult"]["ETag"],
        )

    def delete(self, key: str) -> None:
        """Delete an object; a bucket with versioning keeps it behind a delete marker."""
        full = self._full(key)
        self._asking.ask(
            lambda: self._client.delete_object(Bucket=self._bucket, Key=full), key=full
        )

    def keys(self, prefix: str, wanted: Wanted = everything) -> Iterator[str]:
        """List page by page, a thousand keys each, while the caller iterates."""
        return filter(wanted, usable_keys(self._listed(check_prefix(prefix)), url=self.url))

    def folders(self, prefix: str) -> Iterator[str]:
        """List them page by page, a thousand each; the server passes over what they hold."""
        return usable_folders(self._common(check_prefix(prefix)), url=self.url)

    def local_path(self, key: str) -> None:
        """Return ``None``: every object must be fetched."""
        check_key(key)

    @cached_property
    def _patient_client(self) -> "S3Client":
        return connect(self.url, read_timeout_s=_WHOLE_OBJECT_TIMEOUT_S)

    def _full(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _require_bucket(self) -> None:
        if not self._bucket_was_seen:
            self._asking.ask(lambda: self._client.head_bucket(Bucket=self._bucket))
            self._bucket_was_seen = True

    def _write(self, full: str, call: Callable[[], str]) -> Written | Refused:
        etag = self._asking.ask_unless(call, key=full, unless=_UNMET)
        return Refused() if etag is None else Written(etag=etag)

    def _put(self, full: str, body: bytes | BinaryIO) -> str:
        return self._client.put_object(Bucket=self._bucket, Key=full, Body=body, IfNoneMatch="*")[
            "ETag"
        ]

    def _put_file(self, full: str, path: Path) -> str:
        with path.open("rb") as file:
            return self._put(full, file)

    def _put_in_parts(self, key: str, file: Path) -> Written | Refused:
        if self.head(key):  # spares a large body the way to the store
            return Refused()
        upload = PartsUpload(
            asking=self._asking,
            client=self._client,
            patient_client=self._patient_client,
            bucket=self._bucket,
            key=self._full(key),
            file=file,
            part_bytes=self._part_bytes,
        )
        etag = self._asking.ask_unless(upload.run, key=upload.key, unless=_UPLOAD_OVER)
        if etag is not None:
            return Written(etag=etag)
        if self.head(key):
            return Refused()
        raise StoreUnavailableError(
            f"{self.url}/{key}: its upload was aborted from outside before it was complete, so "
            "nothing was written. Look for a lifecycle rule that is too strict, then repeat."
        )

    def _fetch(self, key: str, etag: str, start: int, length: int) -> bytes:
        full, span = self._full(key), f"bytes={start}-{start + length - 1}"
        stored = self._asking.ask_unless(
            lambda: _whole(
                self._client.get_object(Bucket=self._bucket, Key=full, Range=span, IfMatch=etag)
            ),
            key=full,
            unless=_UNMET,
        )
        if stored is None:
            raise ObjectChangedError.of_object(key, url=self.url, expected=etag)
        return stored.body

    def _listed(self, prefix: str) -> Iterator[str]:
        for page in self._pages({"Bucket": self._bucket, "Prefix": self._prefix + prefix}):
            for entry in page.get("Contents", []):
                yield entry["Key"].removeprefix(self._prefix)

    def _common(self, prefix: str) -> Iterator[str]:
        start = self._prefix + prefix
        for page in self._pages({"Bucket": self._bucket, "Prefix": start, "Delimiter": "/"}):
            for entry in page.get("CommonPrefixes", []):
                yield entry["Prefix"].removeprefix(self._prefix)

    def _pages(
        self, request: "ListObjectsV2RequestTypeDef"
    ) -> Iterator["ListObjectsV2OutputTypeDef"]:
        """Ask for each page by itself: botocore's paginator would end at the first error."""
        token: str | None = ""
        while token is not None:
            if token:
                request["ContinuationToken"] = token
            page = self._asking.ask(
                lambda: self._client.list_objects_v2(**request), key=request.get("Prefix", "")
            )
            yield page
            token = page.get("NextContinuationToken")


def _whole(reply: "GetObjectOutputTypeDef") -> StoredObject:
    """Read the body here, so that a reply that is cut in the middle is asked for again.

    (``with reply["Body"]`` would hand out the raw stream, whose errors are not botocore's.)
    """
    with closing(reply["Body"]) as body:
        return StoredObject(etag=reply["ETag"], body=body.read())
