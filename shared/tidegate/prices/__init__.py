"""What machines cost: dated records with their source, never constants in code.

Public figures go out of date and contradict each other, so a record without a source or a date is
refused, and whoever prints a price prints its date too.
"""

from tidegate.prices.record import (
    STALE_AFTER_DAYS,
    PriceError,
    PriceRecord,
    Prices,
    bundled_prices,
    parse_prices,
)

__all__ = [
    "STALE_AFTER_DAYS",
    "PriceError",
    "PriceRecord",
    "Prices",
    "bundled_prices",
    "parse_prices",
]
