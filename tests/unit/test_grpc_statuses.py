"""Each status has a gRPC twin, and the page says which; it names every method, too."""

import re

import grpc

from tests.project import ROOT
from tidegate_realtime.api.error_map import GRPC_BY_STATUS, STATUS_BY_CODE, STATUS_BY_FAMILY
from tidegate_realtime.api.grpc.lookups import LOOKUPS

PAGE = (ROOT / "docs/grpc.md").read_text(encoding="utf-8")
OF_HTTP_ALONE = {405, 409, 412, 414, 431}
"""Of request lines and headers, which the gRPC library reads itself, and of operators, who have no
gRPC."""


def test_every_status_has_a_twin_that_exists() -> None:
    statuses = {*STATUS_BY_CODE.values(), *STATUS_BY_FAMILY.values()} - OF_HTTP_ALONE
    assert statuses - GRPC_BY_STATUS.keys() == set()
    assert {grpc.StatusCode[name].name for name in GRPC_BY_STATUS.values()} <= {
        code.name for code in grpc.StatusCode if code is not grpc.StatusCode.OK
    }


def test_the_page_names_every_method_and_its_route() -> None:
    table = re.search(r"^\| method \|.*?\n\n", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert table is not None
    assert set(re.findall(r"`([A-Z]\w+)`", table[0])) == {"ModelInfer", *LOOKUPS}


def test_the_page_shows_the_same_statuses() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| `([A-Z_]+)` \|$", PAGE, flags=re.MULTILINE)
    shown = {int(status): name for statuses, name in rows for status in statuses.split(", ")}
    assert shown == GRPC_BY_STATUS
