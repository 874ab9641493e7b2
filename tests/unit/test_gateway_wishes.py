import pytest

from tidegate.oip.errors import BadOptionError
from tidegate.oip.parameters import Parameter
from tidegate.units import NS_PER_MS, Nanoseconds
from tidegate_realtime.api.wishes import (
    Deadline,
    DeadlineTooShortError,
    deadline_at_ns,
    header_deadline,
    wishes_of,
)


def asked_ms(parameters: dict[str, Parameter], header: str | None = None) -> float | None:
    deadline = wishes_of(parameters, header_deadline(header)).deadline
    return None if deadline is None else deadline.asked_ns / NS_PER_MS


@pytest.mark.field_fault("S-23", "S-27")
@pytest.mark.parametrize(
    ("parameters", "header", "expected"),
    [
        ({}, None, None),
        ({"timeout": 0}, None, None),
        ({"timeout": 50}, None, 0.05),
        ({"timeout": 50_000}, None, 50),
        ({}, "50", 50),
        ({}, "99999999", 99_999_999),
        ({"timeout": 99_999_999_000}, None, 99_999_999),
        ({"timeout": 0}, "50", 50),
        ({"timeout": 40_000}, "50", 40),
        ({"timeout": 60_000}, "50", 50),
    ],
)
def test_the_shorter_of_both_deadlines_counts_each_in_its_unit(
    parameters: dict[str, Parameter], header: str | None, expected: float | None
) -> None:
    assert asked_ms(parameters, header) == expected


@pytest.mark.field_fault("S-23")
@pytest.mark.parametrize(
    "header",
    [
        "",
        "0",
        "-5",
        "+5",
        "05",
        "5.0",
        "5ms",
        " 5",
        "5 ",
        "1e3",
        "100000000",
        "\u0665",
        "inf",
        "5, 5",
    ],
)
def test_a_header_that_is_no_number_of_milliseconds_is_refused(header: str) -> None:
    with pytest.raises(BadOptionError, match="milliseconds"):
        header_deadline(header)


@pytest.mark.field_fault("S-23")
@pytest.mark.parametrize("value", [-1, 50.0, 0.5, "50", "", True, False, 2**63, 99_999_999_001])
def test_a_timeout_that_cannot_be_meant_is_refused(value: Parameter) -> None:
    with pytest.raises(BadOptionError, match=r"'timeout'.*microseconds"):
        wishes_of({"timeout": value}, None)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("5", '"5", a string;'),
        (True, "true;"),
        (0.5, "0.5;"),
        ("x" * 90, f'"{"x" * 39}…, a string;'),
    ],
)
def test_a_timeout_that_cannot_be_meant_is_shown_as_it_was_written(
    value: Parameter, shown: str
) -> None:
    with pytest.raises(BadOptionError) as error:
        wishes_of({"timeout": value}, None)
    assert str(error.value) == (
        f"The parameter 'timeout' is {shown} write a whole number that is 0 or more, at most "
        "99999999000 (microseconds), or leave it out."
    )


@pytest.mark.parametrize(
    ("given", "priority"), [(0, 2), (1, 1), (2, 2), (3, 3), (4, 3), (2**64 - 1, 3)]
)
def test_priorities_are_three_classes_and_beyond_is_the_last(given: int, priority: int) -> None:
    assert wishes_of({"priority": given}, None).priority == priority


def test_who_says_nothing_is_of_the_normal_class() -> None:
    assert wishes_of({"other": "x"}, None) == wishes_of({}, None) == (None, 2)
    assert wishes_of({}, header_deadline("9")).priority == 2


@pytest.mark.parametrize("value", [-1, 1.0, "1", True])
def test_a_priority_that_cannot_be_meant_is_refused(value: Parameter) -> None:
    with pytest.raises(BadOptionError, match="'priority'"):
        wishes_of({"priority": value}, None)


@pytest.mark.parametrize(
    ("asked_ns", "at_ns"),
    [(None, 1_000 + 100), (40, 700 + 40), (150, 700 + 150), (5_000, 700 + 2_000)],
)
def test_a_wish_runs_from_the_headers_and_the_objective_from_the_last_byte(
    asked_ns: int | None, at_ns: int
) -> None:
    asked = None if asked_ns is None else Deadline(Nanoseconds(asked_ns), "so much")
    found = deadline_at_ns(
        asked, content_with_ns=100, longest_ns=2_000, began_at_ns=700, arrived_at_ns=1_000
    )
    assert found == at_ns


@pytest.mark.field_fault("S-23")
def test_a_deadline_that_is_too_short_is_told_in_its_unit() -> None:
    deadline = wishes_of({"timeout": 50}, None).deadline
    assert deadline is not None
    error = DeadlineTooShortError.of(deadline, model="risk@7", needed_ns=4_100_000)
    assert str(error) == (
        "timeout is in microseconds: 50 is 0.05 ms; one row of risk@7 needs 4.1 ms."
    )
    assert error.details == {"asked_ms": 0.05, "needed_ms": 4.1}
