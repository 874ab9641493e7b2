"""The fingerprint: what must be the same for a resumed job to go on where it stopped."""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

CHUNKER_VERSION = 1
"""Grows when ``planning`` would cut the same input differently."""


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A digest, and the digests of its parts, so that a difference can be named."""

    sha256: str
    parts: dict[str, str]

    @classmethod
    def of(cls, parts: Mapping[str, object]) -> "Fingerprint":
        """Name each part by its text, or by a digest where that is long, and all by one digest.

        The digest does not depend on the order of the parts.
        """
        named = {name: str(value) for name, value in parts.items()}
        encoded = msgspec.json.encode(named, order="sorted")
        return cls(sha256=hashlib.sha256(encoded).hexdigest(), parts=named)

    def differences(self, other: "Fingerprint") -> list[str]:
        """Describe each part in which ``other`` differs, in alphabetical order; none if equal."""
        names = sorted(self.parts.keys() | other.parts.keys())
        return [
            f"{name} was {self.parts.get(name)} and is {other.parts.get(name)}"
            for name in names
            if self.parts.get(name) != other.parts.get(name)
        ]


def digest_of_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Digest a sequence of names and values; the order counts.

    No two different sequences are written alike: they are encoded as JSON first.
    """
    return hashlib.sha256(msgspec.json.encode(list(pairs))).hexdigest()
