"""What S3 and botocore say, as what it means: wait and ask again, or tell a person what to do.

Decided by the error *code*: a 409 may be "somebody else is writing, nothing landed" or another
thing altogether. One exception: a store that throttles answers 503 whatever code it puts on it,
``AccessDenied`` included, and a true denial never has that status.
"""

from typing import Final
from urllib.parse import urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from tidegate.objects.port import StoreBusyError, StoreOverloadedError, StoreUnavailableError

_NOTHING_LANDED: Final = {"ConditionalRequestConflict", "OperationAborted"}
_OVERLOADED: Final = {429, 500, 502, 503, 504}
_OVERLOADED_CODES: Final = {"SlowDown", "Throttling", "ThrottlingException", "RequestTimeout"}
_NO_CREDENTIALS: Final = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError)
_CUT_REPLY: Final = (ReadTimeoutError, ResponseStreamingError, IncompleteReadError)
_REFUSED_CREDENTIALS: Final = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "RequestTimeTooSkewed",
}
_NO_BUCKET: Final = {"NoSuchBucket", "404"}
"""The second: what is left of it in the answer to HEAD, which has no body."""
_DENIED: Final = {"AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden", "403"}


def code_of(error: ClientError) -> str:
    """Return the error's code; for an answer without a body (HEAD) that is the status."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_passing(error: ClientError | BotoCoreError) -> bool:
    """Tell whether to ask again: a conflict that wrote nothing, throttling, or a cut reply.

    botocore has asked several times already, except for conflicts and cut replies. Of no
    connection at all it is believed: a wrong address should not take long to be noticed.
    """
    if isinstance(error, ClientError):
        return code_of(error) in _NOTHING_LANDED or _is_overload(error)
    return isinstance(error, _CUT_REPLY)


def explain(
    error: ClientError | BotoCoreError, *, url: str, endpoint: str, key: str = ""
) -> StoreUnavailableError:
    """Build the sentence for a person; no credential, signature or request stands in it."""
    what = f"{url}/{key}" if key else url
    where = _without_credentials(endpoint)
    said = _of_answer(error) if isinstance(error, ClientError) else _of_client(error, where=where)
    is_busy = is_passing(error) or isinstance(error, ConnectionError | HTTPClientError)
    kind = StoreBusyError if is_busy else StoreUnavailableError
    if is_busy and isinstance(error, ClientError):
        kind = StoreOverloadedError
    return kind(f"{what} at {where}: {said}")


def _is_overload(error: ClientError) -> bool:
    return _status_of(error) in _OVERLOADED or code_of(error) in _OVERLOADED_CODES


def _status_of(error: ClientError) -> int:
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _of_answer(error: ClientError) -> str:
    code = code_of(error)
    if _is_overload(error) or code in _NOTHING_LANDED:
        return f"the store is overloaded and went on answering {code}. Use fewer workers, or wait."
    if code in _NO_BUCKET:
        return "there is no such bucket. Create it, or correct the URL or AWS_ENDPOINT_URL."
    if code in _REFUSED_CREDENTIALS:
        return (
            f"the store refused the credentials ({code}). Renew AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY or the profile, and check this machine's clock."
        )
    if code in _DENIED:
        return (
            f"access was denied ({code}). These credentials need s3:GetObject, s3:PutObject and "
            "s3:DeleteObject on the objects, and s3:ListBucket on the bucket."
        )
    if code == "NotImplemented":
        return (
            "the store does not know this request (NotImplemented). Tidegate needs conditional "
            "writes (If-None-Match, If-Match); use a store that has them."
        )
    message = str(error.response.get("Error", {}).get("Message", ""))[:200]
    return f"the store answered {_status_of(error)} {code}: {message}"


def _of_client(error: BotoCoreError, *, where: str) -> str:
    if isinstance(error, _NO_CREDENTIALS):
        return (
            "no AWS credentials were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "AWS_PROFILE, or run where a role is attached."
        )
    if isinstance(error, ConnectionError | HTTPClientError | IncompleteReadError):
        return (
            f"it could not be reached, or stopped answering ({type(error).__name__}). Check the "
            "network, AWS_ENDPOINT_URL and AWS_REGION."
        )
    return f"{type(error).__name__}: {error}"


def _without_credentials(endpoint: str) -> str:
    parts = urlsplit(endpoint)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
