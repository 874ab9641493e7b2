import pytest

from tidegate.errors import SettingError
from tidegate_realtime.core.limits import BatchLimits


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
