"""The words of ``tidegate explain``, for each thing that can shape batches."""

from dataclasses import replace

import orjson
import pytest

from tidegate_realtime.api.caps import CapLimit, CapNumbers
from tidegate_realtime.api.explaining import Observed, explain, explanation
from tidegate_realtime.main.explaining import as_text

BUSY = Observed(
    model="risk@7",
    window_s=2.0,
    objective_ms=50.0,
    one_row_ms=4.1,
    cap=CapNumbers(effective=32, slo=32, knee=128, memory=256, need=4, limited_by="slo"),
    answered=4_000,
    expired=0,
    refused={},
    in_progress=60.0,
    batches=200,
    rows=4_000,
    reasons={"free": 200},
    call_ms=9.0,
    busy_ratio=0.9,
    arriving_per_second=2_000.0,
    capacity_per_second=3_500.0,
    slower_ratio=1.0,
)


def kinds(observed: Observed) -> list[str]:
    return [finding.kind for finding in explain(observed)]


def said(observed: Observed, kind: str) -> str:
    (found,) = [finding for finding in explain(observed) if finding.kind == kind]
    assert found.change
    return f"{found.said} {found.change}"


@pytest.mark.field_fault("S-10")
def test_too_few_callers_are_named_with_the_bound_that_they_set() -> None:
    observed = replace(
        BUSY, in_progress=3.7, answered=3_600, rows=3_600, batches=1_000, call_ms=2.0
    )
    assert kinds(observed) == ["few_callers", "cap_slo"]
    assert "at 4 connections and 2 ms a batch holds at most 4 (now 3.6)" in said(
        observed, "few_callers"
    )


@pytest.mark.field_fault("S-10")
def test_one_caller_in_a_closed_loop_is_told_that_its_batches_hold_one_row() -> None:
    observed = replace(BUSY, in_progress=0.95, answered=500, rows=500, batches=500, call_ms=3.5)
    assert "at 1 connection and 3.5 ms a batch holds at most 1" in said(observed, "few_callers")


def test_callers_who_send_several_rows_fill_as_many_places() -> None:
    observed = replace(BUSY, in_progress=2.0, answered=1_000, rows=8_000, batches=600)
    assert "holds at most 16" in said(observed, "few_callers")


def test_a_model_with_little_to_do_needs_no_batches() -> None:
    observed = replace(BUSY, busy_ratio=0.08, batches=400, rows=440, answered=440)
    assert kinds(observed) == ["idle", "cap_slo"]
    assert "idle 92% of the time" in said(observed, "idle")
    assert "nothing needs to change" in said(observed, "idle")


def test_batches_that_grow_with_the_load_are_as_they_should_be() -> None:
    assert kinds(BUSY) == ["load", "cap_slo"]
    assert "While a call of 9 ms runs, about 20.0 rows arrive" in said(BUSY, "load")


def test_full_batches_lead_to_the_cap_and_its_reason() -> None:
    observed = replace(BUSY, rows=6_300)
    assert kinds(observed) == ["full", "cap_slo"]
    assert "31.5 of 32 rows" in said(observed, "full")


def test_deadlines_that_keep_batches_small_are_named() -> None:
    observed = replace(BUSY, reasons={"free": 150, "fits": 50})
    assert kinds(observed) == ["deadlines", "cap_slo"]
    assert "50 of 200 batches were kept small" in said(observed, "deadlines")


@pytest.mark.parametrize(
    ("limit", "words", "change"),
    [
        ("slo", "a call with more would not end within 50 ms", "raise slo_ms"),
        ("knee", "less than 3 % more throughput", "nothing needs to change"),
        ("memory", "memory_rows says so", "[models.risk]"),
        ("measured", "largest size", "batch axis"),
        ("too_slow", "not even one is answered within 50 ms, for it takes 4.1 ms", "raise slo_ms"),
        ("set", "nothing is promised", "set slo_ms"),
    ],
)
def test_each_reason_for_the_cap_has_its_words(limit: CapLimit, words: str, change: str) -> None:
    observed = replace(BUSY, cap=BUSY.cap._replace(limited_by=limit))
    told = said(observed, f"cap_{limit}")
    assert told.startswith("A batch may hold 32 rows: ")
    assert words in told
    assert change in told


@pytest.mark.field_fault("S-21")
def test_refusals_come_first_each_with_its_reason_and_the_most_frequent_above() -> None:
    observed = replace(
        BUSY, answered=900, refused={"queue_full": 10, "deadline_unreachable": 90}, expired=3
    )
    assert kinds(observed)[:3] == ["deadline_unreachable", "queue_full", "expired"]
    assert "90 of 1003 requests" in said(observed, "deadline_unreachable")
    assert "came in bursts" in said(observed, "deadline_unreachable")
    overloaded = replace(observed, arriving_per_second=5_000.0)
    assert "5000 rows/s arrive, and 3500 can be taken" in said(overloaded, "deadline_unreachable")


def test_a_model_that_has_become_slower_than_foretold_is_told_so() -> None:
    observed = replace(BUSY, slower_ratio=1.34)
    assert kinds(observed)[0] == "slower"
    assert "1.34 times as long as was foretold" in said(observed, "slower")
    assert kinds(replace(BUSY, slower_ratio=1.05)) == kinds(BUSY)


def test_without_traffic_there_is_nothing_to_explain_but_the_cap() -> None:
    quiet = replace(BUSY, answered=0, rows=0, batches=0, in_progress=0.0, reasons={})
    assert kinds(quiet) == ["quiet", "cap_slo"]
    assert "--window-s" in said(quiet, "quiet")


def test_the_answer_is_json_and_a_person_reads_every_finding() -> None:
    answer = orjson.loads(orjson.dumps(explanation(BUSY)))
    assert answer["cap"]["limited_by"] == "slo"
    text = as_text(answer)
    assert text.startswith("risk@7 over 2 s: 4000 rows in 200 batches, 20.0 rows each")
    for finding in explain(BUSY):
        assert finding.said in text
        assert f"to change it: {finding.change}" in text
