"""Large files to S3: a multipart upload that appears, if it is absent, at its completion."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from tidegate.objects.s3_calls import Asking

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_s3.type_defs import CompletedPartTypeDef

_MOST_PARTS: Final = 10_000
"""S3's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsUpload:
    """One file on its way to one key."""

    asking: Asking
    client: "S3Client"
    patient_client: "S3Client"
    """For the completion, at which some servers put the whole object together."""
    bucket: str
    key: str
    file: Path
    part_bytes: int
    """Held in memory. Grows if the file would have more than 10,000 parts otherwise."""

    def run(self) -> str:
        """Upload and complete; returns the etag.

        Raises:
            ClientError: As botocore raises it, and after the parts were removed. On a conflict
                S3 wants the whole upload again, so it is repeated from outside.
        """
        upload = self.client.create_multipart_upload(Bucket=self.bucket, Key=self.key)["UploadId"]
        try:
            return self._complete(upload, self._send_parts(upload))
        except BaseException:  # also on Ctrl-C: parts left behind cost money
            with suppress(ClientError, BotoCoreError):
                self.client.abort_multipart_upload(
                    Bucket=self.bucket, Key=self.key, UploadId=upload
                )
            raise

    def _send_parts(self, upload: str) -> "list[CompletedPartTypeDef]":
        part_bytes = max(self.part_bytes, -(-self.file.stat().st_size // _MOST_PARTS))
        parts: list[CompletedPartTypeDef] = []
        with self.file.open("rb") as file:
            while block := file.read(part_bytes):
                number = len(parts) + 1
                etag = self.asking.ask(self._part(upload, number, block), key=self.key)
                parts.append({"PartNumber": number, "ETag": etag})
        return parts

    def _part(self, upload: str, number: int, block: bytes) -> Callable[[], str]:
        return lambda: self.client.upload_part(
            Bucket=self.bucket, Key=self.key, UploadId=upload, PartNumber=number, Body=block
        )["ETag"]

    def _complete(self, upload: str, parts: "list[CompletedPartTypeDef]") -> str:
        return self.patient_client.complete_multipart_upload(
            Bucket=self.bucket,
            Key=self.key,
            UploadId=upload,
            MultipartUpload={"Parts": parts},
            IfNoneMatch="*",
        )["ETag"]
