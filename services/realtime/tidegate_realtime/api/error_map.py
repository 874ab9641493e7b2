"""HTTP statuses of everything that can go wrong; they stand here and nowhere else."""

from typing import Final

from tidegate.errors import (
    ArtifactError,
    BackendError,
    JobError,
    OverloadedError,
    PartUnavailableError,
    RequestRejectedError,
    SettingError,
    TidegateError,
)

STATUS_BY_CODE: Final = {
    "malformed_json": 400,
    "malformed_request": 400,
    "binary_layout": 400,
    "needs_binary": 400,
    "bad_option": 400,
    "unsupported_parameter": 400,
    "host_not_allowed": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "cross_site": 403,
    "route_not_found": 404,
    "model_not_found": 404,
    "version_not_served": 404,
    "method_not_allowed": 405,
    "upload_too_slow": 408,
    "conflict": 409,
    "setting_invalid": 409,  # a model that cannot keep its objective here, say
    "memory_limit": 409,
    "alias_moved": 412,
    "body_too_large": 413,
    "too_many_elements": 413,
    "too_many_rows": 413,
    "uri_too_long": 414,
    "unsupported_encoding": 415,
    "artifact_invalid": 422,
    "digest_mismatch": 422,
    "signature_mismatch": 422,
    "deadline_too_short": 422,
    "poison_input": 422,
    "quota_exceeded": 429,
    "headers_too_large": 431,
    "caller_left": 499,  # nginx's; only ever in logs and metrics
    "model_failed": 500,
    "out_of_memory": 500,  # no 503, here and below: a row may be why, and is not to be tried again
    "device_lost": 500,
    "non_finite_output": 500,
    "internal": 500,
    "deadline_unreachable": 503,
    "queue_full": 503,
    "backend_unavailable": 503,
    "not_ready": 503,
    "draining": 503,
    "part_unavailable": 503,
    "deadline_expired": 504,
}

GRPC_BY_STATUS: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    413: "RESOURCE_EXHAUSTED",
    415: "UNIMPLEMENTED",
    422: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""What gRPC calls each of them; statuses of HTTP itself are not here, for nothing raises them."""

STATUS_BY_FAMILY: Final[dict[type[TidegateError], int]] = {
    RequestRejectedError: 400,
    OverloadedError: 503,
    PartUnavailableError: 503,
    BackendError: 500,
    ArtifactError: 500,
    JobError: 500,
    SettingError: 500,
    TidegateError: 500,
}
"""For a code that has no row yet; the order is the order of asking."""


def status_of(error: TidegateError) -> int:
    """Return the status of an error: by its code, else by its family."""
    known = STATUS_BY_CODE.get(error.code)
    if known is not None:
        return known
    return next(status for family, status in STATUS_BY_FAMILY.items() if isinstance(error, family))
