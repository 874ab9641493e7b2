"""The words of ``tidegate explain``, for each thing that can shape batches."""

import re
from dataclasses import replace

import orjson
import pytest

from tests.project import ROOT
from tidegate_realtime.api.caps import CapLimit, CapNumbers
from tidegate_realtime.api.explaining import Observed, explain
from tidegate_realtime.api.explanations import explanation
from tidegate_realtime.core.statistics import RefusalCode
from tidegate_realtime.main.explaining import as_text

BUSY = Observed(
    model="risk@7",
    window_s=2.0,
    objective_ms=50.0,
    one_row_ms=4.1,
    cap=CapNumbers(effective=32, calm=32, slo=32, knee=128, memory=256, need=4, limited_by="slo"),
    answered=4_000,
    expired=0,
    refused={},
    held_in_vain=0,
    refusal_ms=0.0,
    in_progress=60.0,
    most_in_progress=60,
    batches=200,
    rows=4_000,
    reasons={"free": 200},
    call_ms=9.0,
    busy_ratio=0.9,
    arriving_per_second=2_000.0,
    capacity_per_second=3_500.0,
    objective_percentile=0.99,
    promised_percentile=0.99,
    slower_ratio=1.0,
    terminated=0,
    given_up=0,
    executors=1,
    executors_usable=1,
    sharing=(),
    others_busy_ratio=0.0,
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
        BUSY,
        in_progress=3.7,
        most_in_progress=4,
        answered=3_600,
        rows=3_600,
        batches=1_000,
        call_ms=2.0,
    )
    assert kinds(observed) == ["few_callers", "cap_slo"]
    assert "at 4 connections and 2 ms a batch holds at most 4 (now 3.6)" in said(
        observed, "few_callers"
    )


@pytest.mark.field_fault("S-10")
def test_one_caller_in_a_closed_loop_is_told_that_its_batches_hold_one_row() -> None:
    observed = replace(
        BUSY,
        in_progress=0.95,
        most_in_progress=1,
        answered=500,
        rows=500,
        batches=500,
        call_ms=3.5,
    )
    assert "at 1 connection and 3.5 ms a batch holds at most 1" in said(observed, "few_callers")


def test_callers_who_send_several_rows_fill_as_many_places() -> None:
    observed = replace(
        BUSY, in_progress=2.0, most_in_progress=2, answered=1_000, rows=8_000, batches=600
    )
    assert "holds at most 16" in said(observed, "few_callers")


def test_callers_who_come_by_chance_are_a_load_and_not_too_few() -> None:
    observed = replace(
        BUSY, in_progress=16.0, most_in_progress=25, answered=652, rows=652, batches=68
    )
    assert kinds(observed) == ["load", "cap_slo"]


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
    assert "they hold 31.5 rows, and 32 are the most" in said(observed, "full")


def test_batches_that_rows_in_a_hurry_have_filled_further_are_full() -> None:
    cap = BUSY.cap._replace(effective=58, calm=16)
    observed = replace(BUSY, cap=cap, rows=5_320)
    assert "they hold 26.6 rows, and are full with 16 to 58" in said(observed, "full")
    assert "Beyond 16, which leave room for who just missed a call" in said(observed, "cap_slo")


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
    why = said(overloaded, "deadline_unreachable")
    assert "5000 rows/s arrive, and full batches take 3500" in why


@pytest.mark.field_fault("S-38")
def test_refusals_that_came_late_are_told_apart_with_the_time_that_they_took() -> None:
    refused: dict[RefusalCode, int] = {"deadline_unreachable": 90, "queue_full": 10}
    observed = replace(BUSY, refused=refused, held_in_vain=70, refusal_ms=31.5)
    assert kinds(observed)[:3] == ["deadline_unreachable", "queue_full", "stood_by"]
    assert "70 of these 100 were told late: they stood by" in said(observed, "stood_by")
    assert "A refusal took 31.5 ms on average" in said(observed, "stood_by")
    assert "stood_by" not in kinds(replace(observed, held_in_vain=19))


def test_accepted_requests_that_were_given_up_are_told_with_all_that_were_asked() -> None:
    assert "3 of 4003 requests had to be given up" in said(replace(BUSY, expired=3), "expired")


@pytest.mark.field_fault("S-31")
def test_a_call_that_hung_and_an_executor_that_is_missing_come_before_all() -> None:
    hung = replace(BUSY, given_up=1, refused={"backend_unavailable": 5})
    assert kinds(hung)[:2] == ["given_up", "backend_unavailable"]
    assert "1 call did not end by far" in said(hung, "given_up")
    assert "executor_given_up" in said(hung, "backend_unavailable")
    missing = replace(BUSY, executors=2, executors_usable=1)
    assert kinds(missing)[0] == "replacing"
    assert "1 of 2 executors hung and is being replaced" in said(missing, "replacing")


def test_calls_that_nobody_waited_for_are_told_where_they_are_many() -> None:
    observed = replace(BUSY, terminated=60)
    assert "60 of 200 calls were ended early" in said(observed, "terminated")
    assert kinds(replace(BUSY, terminated=3)) == kinds(BUSY)


def test_models_that_share_the_executors_are_named_with_the_time_that_they_took() -> None:
    observed = replace(BUSY, busy_ratio=0.4, others_busy_ratio=0.55, sharing=("echo@1", "scan@3"))
    assert kinds(observed) == ["shared", "load", "cap_slo"]  # these are not idle
    assert "echo@1, scan@3 took 55% of the time of the executors" in said(observed, "shared")
    assert kinds(replace(observed, others_busy_ratio=0.1, busy_ratio=0.9)) == ["load", "cap_slo"]


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
    assert (answer["cap_rows"], answer["cap_limited_by"], answer["need_rows"]) == (32, "slo", 4)
    text = as_text(answer)
    assert text.startswith("risk@7 over 2 s: 4000 rows in 200 batches, 20.0 rows each")
    assert as_text(answer | {"batches": 0, "rows": 0}).startswith("risk@7 over 2 s: idle\n")
    for finding in explain(BUSY):
        assert finding.said in text
        assert f"to change it: {finding.change}" in text


def test_the_fields_of_its_json_are_those_of_the_page() -> None:
    section = (ROOT / "docs/metrics.md").read_text().partition("## `tidegate explain --json`")[2]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == [*explanation(BUSY)]


def test_what_the_metadata_or_a_metric_says_too_has_the_same_name_in_the_json() -> None:
    metrics = (ROOT / "docs/metrics.md").read_text()
    for name in explanation(BUSY):
        assert not name.endswith(("_s", "_seconds")), "durations are in milliseconds, as in /v2"
        if name.endswith("_per_second") or name in {"conformal_factor", "promised_percentile"}:
            assert f"`tidegate_{name}`" in metrics


def test_a_promise_below_the_objective_is_named_with_what_it_costs() -> None:
    text = said(replace(BUSY, promised_percentile=0.9), "promised_less")
    assert "within 50 ms at p99" in text
    assert "promised at p90: up to 10% of them may be late" in text
    assert kinds(BUSY) == [kind for kind in kinds(BUSY) if kind != "promised_less"]
