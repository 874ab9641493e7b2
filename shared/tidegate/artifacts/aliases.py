"""Aliases of one model: the only thing about a model that moves, by compare-and-swap alone."""

import msgspec

from tidegate.errors import ArtifactError

KEPT_WRITE_IDS = 16
"""How many past writers an object under compare-and-swap remembers, so that one whose reply was
lost still finds its own id after others have written (design: 16 writers may pass meanwhile)."""


class Aliases(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``aliases.json``.

    An etag is a hash of the content, so moving 7 → 8 → 7 would look unchanged to it; ``revision``
    only grows and makes every state of the file a new one.
    """

    aliases: dict[str, int]
    """Version by alias."""
    revision: int
    write_ids: tuple[str, ...]
    """Random ids of the last writers, newest first."""

    def moved(self, alias: str, version: int, *, write_id: str) -> "Aliases":
        """Return the next revision, with this alias at this version."""
        return Aliases(
            aliases={**self.aliases, alias: version},
            revision=self.revision + 1,
            write_ids=(write_id, *self.write_ids)[:KEPT_WRITE_IDS],
        )


NO_ALIASES = Aliases(aliases={}, revision=0, write_ids=())


def dump_aliases(aliases: Aliases) -> bytes:
    """Write the file's bytes; ``load_aliases(dump_aliases(a)) == a``."""
    return msgspec.json.format(msgspec.json.encode(aliases, order="sorted"), indent=2) + b"\n"


def load_aliases(content: bytes, *, where: str) -> Aliases:
    """Read the file.

    Raises:
        ArtifactError: Its content is not what Tidegate writes.
    """
    try:
        return msgspec.json.decode(content, type=Aliases)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ArtifactError(f"aliases.json of {where} cannot be read: {error}") from error
