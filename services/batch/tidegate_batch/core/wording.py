"""Numbers as people read them."""


def counted(count: int, noun: str) -> str:
    """Return ``1 part``, ``2 parts``, for a noun whose plural is regular."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
