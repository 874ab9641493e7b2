"""What is wrong with a profile that somebody named or wrote."""

from typing import Self

from tidegate.errors import SettingError


class ProfileError(SettingError):
    """A latency profile that is not there, cannot be read, or does not reach as far as asked."""

    code = "profile_invalid"

    @classmethod
    def of_field(cls, where: str, field: str, *, expected: str, found: object) -> Self:
        """Describe one field by what it must be and what stands there."""
        return cls(f"{where}: {field}: expected {expected}, found {found!r}")

    @classmethod
    def beyond(cls, name: str, *, rows: int, largest: int) -> Self:
        """Describe a batch that the profile says nothing about."""
        return cls(
            f"profile {name!r} was measured for 1 to {largest} rows and says nothing of {rows}: "
            "nothing is extrapolated. Ask for fewer rows, or measure larger batches."
        )
