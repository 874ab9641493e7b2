"""The one table of all timeouts says what the code does; each line has a test of its effect too.

Headers: tests/contract/test_http_hostile.py. Body: tests/driver/test_gateway_sweeper.py. Objective,
deadline of the caller, longest deadline, hanging call, lost call:
tests/driver/test_gateway_deadlines.py.
Drain: tests/contract/test_http_lifecycle.py.
"""

import re

import pytest

from tests.project import ROOT
from tidegate.settings.objective import DEFAULT_SLO_MS
from tidegate.units import NS_PER_SECOND
from tidegate_realtime.api.error_map import STATUS_BY_CODE
from tidegate_realtime.api.guards import HEADER_LIMIT_S
from tidegate_realtime.api.servers import uvicorn
from tidegate_realtime.api.sweeper import (
    SLOW_AFTER_NS,
    SLOWEST_UPLOAD_BYTES_PER_S,
    UPLOAD_LIMIT_NS,
)
from tidegate_realtime.core.admission import STUCK
from tidegate_realtime.core.executors import HUNG_LEAST_NS, HUNG_TAILS
from tidegate_realtime.main.gateway import CLOSE_LIMIT_S
from tidegate_realtime.settings import ServeSettings

PAGE = (ROOT / "docs/http.md").read_text(encoding="utf-8")


def rows() -> dict[str, str]:
    table = PAGE.split("| timeout | how long |")[1].split("\n\n")[0]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {name: " | ".join(rest) for name, *rest in lines}


@pytest.mark.field_fault("S-24")
def test_the_table_of_timeouts_says_how_long_each_one_is() -> None:
    settings = ServeSettings.model_validate({})
    expected = {
        "headers": f"{HEADER_LIMIT_S:g} s",
        "slow body": f"{SLOW_AFTER_NS / NS_PER_SECOND:g} s, "
        f"then {SLOWEST_UPLOAD_BYTES_PER_S >> 10} KiB/s",
        "body": f"{UPLOAD_LIMIT_NS / NS_PER_SECOND:g} s",
        "objective": f"`slo_ms` ({DEFAULT_SLO_MS:g} ms)",
        "deadline of the caller": "`timeout` µs, `Tidegate-Deadline-Ms` ms",
        "longest deadline": f"`serve.max_deadline_ms` ({settings.max_deadline_ms:,} ms)",
        "hanging call": f"{STUCK} times its promise",
        "lost call": f"{HUNG_TAILS} times its promise, {HUNG_LEAST_NS // NS_PER_SECOND} s at least",
        "kept connection": f"granian 5 s, uvicorn {uvicorn.KEEP_ALIVE_S} s",
        "drain": f"`serve.drain_limit_ms` ({settings.drain_limit_ms:,} ms)",
        "last call": f"{CLOSE_LIMIT_S:g} s",
    }
    found = rows()
    assert found.keys() == expected.keys()
    assert [name for name, words in expected.items() if not found[name].startswith(words)] == []


def test_each_status_in_the_table_is_that_of_its_code() -> None:
    told = re.findall(r"(\d{3}) `(\w+)`", "\n".join(rows().values()))
    assert told
    assert all(STATUS_BY_CODE[code] == int(status) for status, code in told)
