"""What can be wrong with the bytes of a request, and with a reply that JSON cannot say."""

from typing import Self

from tidegate.errors import BackendError, RequestRejectedError


class MalformedJsonError(RequestRejectedError):
    """The body is no JSON document."""

    code = "malformed_json"


class MalformedRequestError(RequestRejectedError):
    """JSON, but it contradicts the protocol or itself."""

    code = "malformed_request"


class NeedsBinaryError(RequestRejectedError):
    """A datatype that has no JSON form."""

    code = "needs_binary"

    @classmethod
    def of_tensor(cls, name: str, datatype: str) -> Self:
        """Describe one 16-bit float tensor."""
        return cls(
            f"{name!r} is {datatype}, which has no JSON form: it travels only as binary tensor "
            "data (binary_data_size of an input, binary_data of an output)."
        )


class BinaryLayoutError(RequestRejectedError):
    """Binary tensors whose lengths, shapes and bytes contradict each other."""

    code = "binary_layout"


class UnsupportedParameterError(RequestRejectedError):
    """A wish that, ignored, would change what the reply means."""

    code = "unsupported_parameter"


class BadOptionError(RequestRejectedError):
    """A ``tidegate_…`` parameter that is none: probably a typing error."""

    code = "bad_option"


class LimitExceededError(RequestRejectedError):
    """More of something than one request may carry."""

    limit: int
    found: int

    @classmethod
    def of(cls, what: str, *, limit: int, found: int, advice: str) -> Self:
        """Describe one limit; ``what`` is a plural such as ``rows``."""
        error = cls(f"The request has {found} {what}; at most {limit} are accepted. {advice}")
        error.limit, error.found = limit, found
        return error


class TooManyRowsError(LimitExceededError):
    """The leading dimension is longer than one request may be."""

    code = "too_many_rows"


class TooManyElementsError(LimitExceededError):
    """More values than may be parsed on the event loop."""

    code = "too_many_elements"


class ReplyTooLargeError(LimitExceededError):
    """The reply would be longer than one may be."""

    code = "body_too_large"

    @classmethod
    def of_bytes(cls, found: int, *, limit: int) -> Self:
        """Describe one reply by its length in bytes."""
        error = cls(
            f"The reply would have about {found} bytes; at most {limit} are sent. Ask for fewer "
            "rows or outputs, or for binary tensor data."
        )
        error.limit, error.found = limit, found
        return error


class NonFiniteOutputError(BackendError):
    """The model answered NaN or infinity, which JSON cannot say."""

    code = "non_finite_output"

    @classmethod
    def of_output(cls, name: str) -> Self:
        """Describe one output."""
        return cls(
            f"Output {name!r} holds NaN or infinity, which JSON cannot say and nothing can rank. "
            "The request is as it should be; the model's answer to it is not."
        )
