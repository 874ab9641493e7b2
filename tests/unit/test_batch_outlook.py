"""When a job will be done: a range that is as wide as what was seen is uneven."""

import pytest

from tidegate_batch.core.outlook import Outlook, outlook
from tidegate_batch.core.wording import lasting, lasting_from_to, sized


def after(commits: list[tuple[float, int]], *, now_s: float, rows_left: int = 1000) -> Outlook:
    found = outlook(commits, began_s=0, now_s=now_s, rows_left=rows_left)
    assert found is not None
    return found


def test_nothing_is_foretold_before_the_first_commit() -> None:
    assert outlook([], began_s=0, now_s=10, rows_left=1000) is None
    assert outlook([(0, 10)], began_s=0, now_s=0, rows_left=1000) is None


def test_a_few_commits_give_a_speed_but_no_range() -> None:
    found = after([(1, 100), (2, 100)], now_s=2)
    assert (found.rows_per_s, found.eta_s) == (100, 10)
    assert found.eta_low_s is found.eta_high_s is None
    assert str(found) == "about 10 s left"


def test_an_even_job_has_a_narrow_range() -> None:
    found = after([(second + 0.5, 100) for second in range(8)], now_s=8)
    assert (found.eta_low_s, found.eta_s, found.eta_high_s) == (10, 10, 10)
    assert str(found) == "10 s left"


def test_an_uneven_job_has_a_wide_range_around_the_same_end() -> None:
    found = after([(second + 0.5, 200 * (second % 2)) for second in range(8)], now_s=8)
    assert found.eta_low_s is not None
    assert found.eta_high_s is not None
    assert found.eta_s == 10
    assert found.eta_low_s < 7
    assert found.eta_high_s > 20


def test_a_job_that_stalls_is_foretold_to_take_longer_but_not_for_ever() -> None:
    commits = [(second + 0.5, 100) for second in range(8)]
    stalled = after(commits, now_s=80)
    assert stalled.eta_s == 100
    assert stalled.eta_high_s is not None
    assert 100 < stalled.eta_high_s <= 800


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (99.4, "99 s"), (99.6, "2 min"), (3600, "60 min"), (5970, "1.7 h")],
)
def test_a_duration_has_as_many_digits_as_a_forecast_knows(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


def test_a_range_names_its_unit_once_where_it_can() -> None:
    assert lasting_from_to(240, 540) == "4 to 9 min"
    assert lasting_from_to(50, 120) == "50 s to 2 min"
    assert lasting_from_to(240, 250) == "4 min"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 kB"), (12_345, "12 kB"), (3_400_000, "3.4 MB"), (1.2e9, "1,200 MB")],
)
def test_a_size_is_told_in_decimal_units(size_bytes: float, text: str) -> None:
    assert sized(size_bytes) == text
