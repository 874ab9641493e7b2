"""One price, and the file of them."""

from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources import files
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from tidegate.errors import SettingError

STALE_AFTER_DAYS: Final = 90
"""Prices move a few times a year; a plan on older ones must say so."""
_PLACEHOLDER_SHARE: Final = Decimal("0.1")
_BUNDLED: Final = files("tidegate.prices") / "bundled.json"

Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]


class PriceError(SettingError):
    """A price is missing, or a record of one cannot be used."""

    code = "price_invalid"


class PriceRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one kind of machine cost at one place on one day, in US dollars an hour."""

    region: Text
    instance: Text
    accelerator: str | None = None
    accelerators: int = 0
    vcpus: int | None = None
    """``None`` where the source does not say."""
    on_demand: Decimal
    spot_low: Decimal | None = None
    """The cheapest zone; ``None``, like the next, where there was no offer."""
    spot_high: Decimal | None = None

    def __post_init__(self) -> None:
        """Refuse what a catalogue puts where it knows nothing."""
        if (self.spot_low is None) != (self.spot_high is None):
            raise ValueError(f"{self.instance}: spot needs both its low and its high end")
        if self.on_demand <= 0 or (self.spot_low is not None and self.spot_low <= 0):
            raise ValueError(f"{self.instance}: a price is more than nothing")
        for spot in (self.spot_low, self.spot_high):
            if spot in {self.on_demand, self.on_demand * _PLACEHOLDER_SHARE}:
                raise ValueError(
                    f"{self.instance}: a spot price of {spot} is all or a tenth of on-demand, "
                    "which is what catalogues write where they know none"
                )

    @property
    def lowest(self) -> Decimal:
        """The least that an hour cost."""
        return self.spot_low or self.on_demand


class Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of prices, all of one source and one day."""

    schema: Literal[1]
    source: Text
    """Where they were read: a URL."""
    taken_on: date
    """When they were in force, as far as the source says; the earliest day of a range."""
    records: tuple[PriceRecord, ...]

    def of(self, instance: str, *, region: str) -> PriceRecord:
        """Return the price of an instance.

        Raises:
            PriceError: There is none; the message has the nearest name.
        """
        there = {record.instance: record for record in self.records if record.region == region}
        if instance in there:
            return there[instance]
        asked, known = (instance, there) if there else (region, {r.region for r in self.records})
        near = get_close_matches(asked, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(known))}."
        raise PriceError(f"no price of {instance!r} in {region} is known. {hint}")

    def age_days(self, today: date) -> int:
        """Return how old they are."""
        return (today - self.taken_on).days


def bundled_prices() -> Prices:
    """Return the prices that come with Tidegate."""
    return parse_prices(_BUNDLED.read_bytes(), where="the bundled prices")


def parse_prices(content: bytes, *, where: str) -> Prices:
    """Read a file of prices.

    Args:
        content: Its bytes.
        where: What to call it in an error.

    Raises:
        PriceError: It has no source or date, a placeholder for a price, or an unknown field.
    """
    try:
        return msgspec.json.decode(content, type=Prices)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise PriceError(f"{where} cannot be used: {error}") from error
