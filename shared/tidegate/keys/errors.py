"""What can be wrong with a key, and with the file of them."""

from tidegate.errors import RequestRejectedError, SettingError


class UnauthenticatedError(RequestRejectedError):
    """No key, or one that is not in the file; which of these is not said."""

    code = "unauthenticated"


class ForbiddenError(RequestRejectedError):
    """A sound key that does not reach this far."""

    code = "forbidden"


class KeyFileError(SettingError):
    """The file of keys is none, or cannot be read or written."""

    code = "keys_invalid"


class KeyNotFoundError(SettingError):
    """The file holds no key of this id."""

    code = "key_not_found"
