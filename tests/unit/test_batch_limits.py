import pytest

from tidegate.errors import SettingError
from tidegate.settings import load_settings
from tidegate_realtime.core.limits import BatchLimits
from tidegate_realtime.core.sweep import POWERS_OF_TWO


@pytest.mark.field_fault("S-06")
@pytest.mark.parametrize(("cap", "queue"), [(0, 10), (11, 10)])
def test_limits_under_which_no_batch_could_be_full_are_refused(cap: int, queue: int) -> None:
    with pytest.raises(SettingError, match=f"cap_rows={cap}, queue_limit_rows={queue}"):
        BatchLimits(cap_rows=cap, queue_limit_rows=queue)


@pytest.mark.parametrize(("fixed_rows", "cap"), [(None, 8), (4, 4), (16, 8)])
def test_a_cap_is_only_ever_lowered_to_what_a_backend_takes(
    fixed_rows: int | None, cap: int
) -> None:
    limits = BatchLimits(cap_rows=8, queue_limit_rows=100).lowered_to(fixed_rows)
    assert limits == BatchLimits(cap_rows=cap, memory_rows=fixed_rows, queue_limit_rows=100)


@pytest.mark.field_fault("S-06")
def test_a_queue_without_room_for_the_largest_batch_stops_the_start() -> None:
    largest = max(POWERS_OF_TWO)
    load_settings(flags={"serve.queue_limit_rows": largest})
    with pytest.raises(SettingError) as caught:
        load_settings(flags={"serve.queue_limit_rows": largest - 1})
    told = f"should be greater than or equal to {largest} (found {largest - 1})"
    assert told in str(caught.value)
