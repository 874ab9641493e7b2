import numpy as np

from tidegate.inference.arrays import Array
from tidegate_realtime.api.poison import PoisonInputError, PoisonMemory


def numbers(*rows: list[float]) -> dict[str, Array]:
    return {"x": np.array(rows, np.float32)}


def strings(*rows: list[str | bytes]) -> dict[str, Array]:
    return {"x": np.array(rows, dtype=object)}


def poisoned_row(memory: PoisonMemory, inputs: dict[str, Array], now_ns: int = 0) -> int | None:
    try:
        memory.check(inputs, now_ns)
    except PoisonInputError as error:
        return error.row
    return None


def test_a_row_is_known_again_in_any_company_and_no_other_is() -> None:
    memory = PoisonMemory()
    memory.remember(numbers([1, 2], [3, 4]), 1, 0)
    assert poisoned_row(memory, numbers([5, 6], [7, 8], [3, 4], [3, 4])) == 2
    assert poisoned_row(memory, numbers([1, 2], [4, 3])) is None
    assert poisoned_row(memory, {"x": np.array([[3, 4]], np.float64)}) is None
    assert poisoned_row(memory, {"y": np.array([[3, 4]], np.float32)}) is None
    assert poisoned_row(memory, {"x": np.array([[[3], [4]]], np.float32)}) is None


def test_strings_are_told_apart_wherever_one_ends_and_the_next_begins() -> None:
    memory = PoisonMemory()
    memory.remember(strings(["ab", "c"]), 0, 0)
    assert poisoned_row(memory, strings(["a", "bc"])) is None
    assert poisoned_row(memory, strings([b"ab", "c"])) == 0


def test_a_row_is_forgotten_after_a_while_and_the_oldest_when_there_are_many() -> None:
    memory = PoisonMemory(kept_ns=100, most_rows=2)
    for number in range(3):
        memory.remember(numbers([number]), 0, number)
    assert len(memory) == 2
    assert poisoned_row(memory, numbers([0]), 3) is None
    assert poisoned_row(memory, numbers([1]), 100) == 0
    assert poisoned_row(memory, numbers([1]), 101) is None
    assert poisoned_row(memory, numbers([2]), 101) == 0
    assert poisoned_row(memory, numbers([2]), 102) is None
    assert len(memory) == 0


def test_meeting_a_row_again_keeps_it_longer() -> None:
    memory = PoisonMemory(kept_ns=100, most_rows=2)
    for number, now_ns in ((0, 0), (1, 1), (0, 50), (2, 51)):
        memory.remember(numbers([number]), 0, now_ns)
    assert poisoned_row(memory, numbers([0]), 149) == 0
    assert poisoned_row(memory, numbers([1]), 60) is None


def test_a_poison_row_is_told_by_its_number() -> None:
    error = PoisonInputError.of_row(3)
    assert "Row 3 (counted from 0)" in str(error)
    assert error.details == {"row": 3}
