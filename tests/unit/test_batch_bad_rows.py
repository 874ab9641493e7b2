"""How many rows may fail: what can be asked for, and when it is told."""

import pytest

from tidegate.errors import SettingError
from tidegate_batch.core.bad_rows import BadRowWatch, parse_limit
from tidegate_batch.core.errors import TooManyBadRowsError

JOB = "0123456789abcdef"


def watch(limit: str, *chunks: tuple[int, int], rows: int = 10_000) -> BadRowWatch:
    """See chunks of so many rows each, of which so many are bad."""
    watch = BadRowWatch(parse_limit(limit), job=JOB, rows=rows)
    for number, (seen, bad) in enumerate(chunks):
        reasons = {"model_failed": bad} if bad else {}
        watch.on_committed(f"{number:06d}", rows=seen, reasons=reasons)
    return watch


@pytest.mark.parametrize(
    ("text", "meant"),
    [("0", "0"), ("100", "100"), ("1%", "1%"), ("1 %", "1%"), ("0.50%", "0.5%"), ("100%", "100%")],
)
def test_a_limit_is_a_number_of_rows_or_a_share_and_is_written_in_one_way(
    text: str, meant: str
) -> None:
    assert str(parse_limit(text)) == meant


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "101%", "%", "1e3", "ten", "1%%", "nan%", "\u0661"]
)
def test_any_other_limit_is_refused_with_what_can_be_asked_for(text: str) -> None:
    with pytest.raises(SettingError, match=r"such as 100, nor a share .* such as 0\.5%"):
        parse_limit(text)


@pytest.mark.parametrize(
    ("limit", "chunks"),
    [
        ("1%", [(999, 999)]),  # too few to say anything
        ("1%", [(1000, 10)]),
        ("1%", [(500, 10), (500, 0)]),
        ("0", [(5000, 0)]),
        ("7", [(10, 7)]),
        ("100%", [(10_000, 10_000)]),
    ],
)
def test_as_many_as_the_limit_are_allowed(limit: str, chunks: list[tuple[int, int]]) -> None:
    watch(limit, *chunks).check()


@pytest.mark.parametrize(
    ("limit", "chunks", "rows"),
    [
        ("1%", [(1000, 11)], 10_000),
        ("1%", [(500, 10), (500, 1)], 10_000),
        ("1%", [(99, 0), (1, 1), (20, 1)], 120),  # 120 of 120 rows: the end
        ("0", [(10, 1)], 10_000),
        ("7", [(10, 4), (10, 4)], 10_000),  # a number can only be passed once more
    ],
)
def test_one_more_fails_the_job_as_soon_as_it_can_be_told(
    limit: str, chunks: list[tuple[int, int]], rows: int
) -> None:
    with pytest.raises(TooManyBadRowsError):
        watch(limit, *chunks, rows=rows).check()


def test_a_chunk_that_is_reported_twice_counts_once() -> None:
    counted = watch("1%", (1000, 10))
    counted.on_committed("000000", rows=1000, reasons={"model_failed": 10})
    counted.check()
    assert counted.bad == 10


def test_the_error_names_counts_limit_reasons_and_what_to_do() -> None:
    counted = BadRowWatch(parse_limit("0.5%"), job=JOB, rows=5000)
    counted.on_committed("000000", rows=2000, reasons={"model_failed": 2, "malformed_row": 30})
    with pytest.raises(TooManyBadRowsError) as raised:
        counted.check()
    assert str(raised.value) == (
        f"job {JOB}: 32 of the 2000 rows seen so far cannot be scored, more than --max-bad-rows "
        "0.5% allows: malformed_row 30, model_failed 2. See which with 'tidegate batch "
        f"dead-letters {JOB}'; then correct the input, or submit it again with a higher limit."
    )
