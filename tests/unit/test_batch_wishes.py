"""What is asked for beside a job's output, and the templates of its output."""

from datetime import UTC, datetime

import pytest

from tidegate.errors import SettingError
from tidegate_batch.core.outlook import Outlook
from tidegate_batch.core.templates import expand
from tidegate_batch.core.wishes import parse_finish_by, timeliness

NOW = datetime(2026, 12, 1, 22, 0, tzinfo=UTC)
VALUES = {"date": "2026-12-01", "job": "0123456789abcdef", "version": "7"}


def test_an_output_is_another_each_night() -> None:
    assert expand("s3://scores/risk/date={date}/v{version}", VALUES) == (
        "s3://scores/risk/date=2026-12-01/v7"
    )
    assert expand("out/{job}", VALUES) == "out/0123456789abcdef"
    assert expand("plain", VALUES) == "plain"


@pytest.mark.parametrize(
    ("template", "hint"),
    [
        ("out/{dat}", "Did you mean {date}?"),
        ("out/{}", "There are {date}, {job}, {version}."),
        ("out/{tenant}", "There are {date}"),
    ],
)
def test_a_name_that_nothing_is_known_of_is_told_with_the_nearest(template: str, hint: str) -> None:
    with pytest.raises(SettingError) as error:
        expand(template, VALUES)
    assert hint in str(error.value)


@pytest.mark.parametrize("text", ["2026-12-02T06:00+01:00", "2026-12-02T05:00Z"])
def test_a_time_is_read_with_its_zone(text: str) -> None:
    assert parse_finish_by(text, NOW) == datetime(2026, 12, 2, 5, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("six o'clock", "is no time"),
        ("2026-12-02T06:00", "has no zone"),
        ("2026-12-01T22:30+01:00", "is over"),
    ],
)
def test_a_time_that_cannot_be_meant_is_an_error(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        parse_finish_by(text, NOW)


@pytest.mark.parametrize(
    ("low_s", "high_s", "expected"),
    [(3000, 3600, "in_time"), (3000, 3601, "at_risk"), (3601, 4000, "late")],
)
def test_a_job_is_late_when_even_the_early_end_is(
    low_s: float, high_s: float, expected: str
) -> None:
    known = Outlook(rows_per_s=1, eta_s=3500, eta_low_s=low_s, eta_high_s=high_s)
    finish_by = datetime(2026, 12, 1, 23, 0, tzinfo=UTC)
    assert timeliness(known, now=NOW, finish_by=finish_by) == expected
