"""What a name of a listener looks like: in a setting as in the ``Host`` of a request."""

import re
from typing import Final

_NAME: Final = r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)"
_HOST_NAME: Final = re.compile(_NAME, re.IGNORECASE)
_HOST: Final = re.compile(rf"{_NAME}(:[0-9]{{1,5}})?", re.IGNORECASE)


def is_host_name(text: str) -> bool:
    """Tell whether a request could address a listener by this name, which has no port."""
    return _HOST_NAME.fullmatch(text) is not None


def name_of_host(host: str) -> str | None:
    """Return the name in a ``Host``, in lower case and without its port; ``None`` if it is none."""
    found = _HOST.fullmatch(host)
    return None if found is None else found["name"].lower()
