from tidegate_realtime.api.unread import MOST_NAMES, UnreadColumns


def test_a_column_that_the_model_does_not_read_is_named_once() -> None:
    unread = UnreadColumns()
    for _ in range(2):
        unread.notice([{"age": 1, "aeg": 2}], ["age"], model="risk@1")
    assert unread.named == {"aeg"}


def test_a_misspelt_column_is_named_although_a_default_made_the_row_complete() -> None:
    unread = UnreadColumns()
    unread.notice([{"aeg": 2}], ["age", "visits"], model="risk@1")
    assert unread.named == {"aeg"}


def test_a_row_with_nothing_more_is_not_looked_at() -> None:
    unread = UnreadColumns()
    for instance in ({"age": 1}, [1, 2, 3], "text"):
        unread.notice([instance], ["age"], model="risk@1")
    assert unread.named == set()


def test_names_that_callers_make_up_are_bounded() -> None:
    unread = UnreadColumns()
    for number in range(100):
        unread.notice([{"age": 1, f"x{number}": 2}], ["age"], model="risk@1")
    assert len(unread.named) == MOST_NAMES
