"""Outputs of nightly jobs: ``s3://scores/date={date}/`` is another prefix each night."""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from tidegate.errors import SettingError

_FIELD: Final = re.compile(r"\{([^{}]*)\}")


def expand(template: str, values: Mapping[str, str]) -> str:
    """Put values in place of ``{name}``.

    Raises:
        SettingError: A name is not among them; the message has the nearest that is.
    """

    def value_of(found: re.Match[str]) -> str:
        name = found[1]
        if name in values:
            return values[name]
        near = get_close_matches(name, values, n=1)
        known = ", ".join(f"{{{known}}}" for known in values)
        hint = f"Did you mean {{{near[0]}}}?" if near else f"There are {known}."
        raise SettingError(f"{template!r}: nothing is known of {{{name}}}. {hint}")

    return _FIELD.sub(value_of, template)
