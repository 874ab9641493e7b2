"""The key that a command shows to a gateway."""

import os
from collections.abc import Mapping
from typing import Final

KEY_VARIABLE: Final = "TIDEGATE_KEY"
"""A variable and no option: whoever lists the processes of a machine reads their arguments."""


def authorization() -> Mapping[str, str]:
    """Return the header with the key of this command's environment; nothing if it has none."""
    key = os.environ.get(KEY_VARIABLE)
    return {"Authorization": f"Bearer {key}"} if key else {}
