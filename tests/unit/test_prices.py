"""Prices are dated records with a source, and what is no price is refused."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from tidegate.prices import PriceError, bundled_prices, parse_prices

RECORD = {"region": "us-east-1", "instance": "a1.large", "on_demand": "1.00"}
FILE: dict[str, Any] = {
    "schema": 1,
    "source": "https://example.com",
    "taken_on": "2026-08-01",
    "records": [RECORD],
}


def parsed(**changes: object) -> object:
    return parse_prices(json.dumps({**FILE, **changes}).encode(), where="a test")


def test_the_bundled_prices_have_a_source_a_date_and_exact_cents() -> None:
    prices = bundled_prices()
    assert prices.source.startswith("https://")
    assert prices.of("g6.xlarge", region="us-east-1").on_demand == Decimal("0.8048")
    assert prices.of("g6.xlarge", region="eu-central-1").on_demand == Decimal("1.0064")
    cpu = prices.of("c7g.2xlarge", region="us-east-1")
    assert (cpu.vcpus, cpu.lowest, cpu.spot_high) == (8, Decimal("0.095"), Decimal("0.137"))
    assert prices.age_days(date(2026, 12, 1)) == 122


def test_the_verified_prices_turn_the_order_of_two_accelerators_around() -> None:
    """Dollars for a million predictions, at 70 % use: 2.0 ms on a T4, 1.5 ms on an L4."""
    prices = bundled_prices()

    def per_million(instance: str, latency_ms: Decimal) -> Decimal:
        per_hour = 3_600_000 / latency_ms * Decimal("0.7")
        return 1_000_000 * prices.of(instance, region="us-east-1").on_demand / per_hour

    t4, l4 = per_million("g4dn.xlarge", Decimal("2.0")), per_million("g6.xlarge", Decimal("1.5"))
    assert round(t4, 6) == Decimal("0.417460")
    assert round(l4, 6) == Decimal("0.479048")


@pytest.mark.parametrize(
    "changes",
    [
        {"source": ""},
        {"taken_on": "lately"},
        {"schema": 2},
        {"note": "cheap"},
        {"records": [{**RECORD, "on_demand": "0"}]},
        {"records": [{**RECORD, "spot_low": "0.3"}]},
        {"records": [{**RECORD, "spot_low": "0.1", "spot_high": "0.4"}]},
        {"records": [{**RECORD, "spot_low": "0.3", "spot_high": "1.0"}]},
    ],
)
def test_what_is_undated_or_a_placeholder_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(PriceError, match="a test cannot be used"):
        parsed(**changes)


@pytest.mark.parametrize("key", ["source", "taken_on", "schema"])
def test_a_file_without_source_or_date_is_refused(key: str) -> None:
    content = {name: value for name, value in FILE.items() if name != key}
    with pytest.raises(PriceError, match=key):
        parse_prices(json.dumps(content).encode(), where="a test")


def test_an_instance_that_is_not_known_is_told_with_the_nearest() -> None:
    with pytest.raises(PriceError, match=r"Did you mean g6\.xlarge\?"):
        bundled_prices().of("g6.xlarg", region="us-east-1")
    with pytest.raises(PriceError, match="Known: g5"):
        bundled_prices().of("mainframe", region="eu-central-1")
    with pytest.raises(PriceError, match=r"in us-east1 is known\. Did you mean us-east-1\?"):
        bundled_prices().of("g6.xlarge", region="us-east1")
    with pytest.raises(PriceError, match=r"in mars is known\. Known: .*us-east-1"):
        bundled_prices().of("g6.xlarge", region="mars")
