"""The key that a command shows to a gateway."""

import os
from collections.abc import Mapping
from typing import Final

from tidegate.errors import SettingError

KEY_VARIABLE: Final = "TIDEGATE_KEY"
"""A variable and no option: whoever lists the processes of a machine reads their arguments."""


def authorization() -> Mapping[str, str]:
    """Return the header with the key of this command's environment; nothing if it has none.

    Raises:
        SettingError: What the variable holds is no key; the message does not repeat it.
    """
    from tidegate.keys.key import Token  # brings msgspec, which help does without

    text = os.environ.get(KEY_VARIABLE)
    if not text:
        return {}
    if Token.parse(text) is None:
        raise SettingError(
            f"{KEY_VARIABLE} holds no key: one reads tg_<12 hex digits>_<43 characters>, without "
            "blanks, quotes or line ends. Set it to what tidegate keys create has printed, or "
            "unset it for a gateway without keys"
        )
    return {"Authorization": f"Bearer {text}"}
