"""Where time went, in the shape that Triton's clients read."""

from dataclasses import replace
from pathlib import Path

from tests.fakes.backends import FakeBackend
from tests.fixtures import edges, onnx_models
from tidegate.clock import ManualClock
from tidegate_realtime.api.metrics import MeasuredBackend
from tidegate_realtime.api.model_config import model_config
from tidegate_realtime.api.model_statistics import model_statistics
from tidegate_realtime.api.predicting import FORMS
from tidegate_realtime.api.routing import Action
from tidegate_realtime.api.spending import CallTimes, Spent, Stages

NOTHING = {"count": 0, "ns": 0}


def test_stages_add_up_to_the_whole_of_what_was_answered() -> None:
    stages = Stages()
    stages.on_answer(decode_ns=1, queue_ns=20, execute_ns=300, total_ns=4_321)
    stages.on_answer(decode_ns=1, queue_ns=20, execute_ns=300, total_ns=321)
    stages.on_refusal(7)
    assert stages.by_name() == {"decode": 2, "queue": 40, "execute": 600, "encode": 4_000}
    assert (stages.answered, stages.refused) == (2, Spent(1, 7))


def test_calls_are_told_by_their_rows_smallest_first() -> None:
    calls = CallTimes()
    for rows, took_ns in ((8, 80), (1, 10), (8, 70)):
        calls.note(rows, took_ns)
    assert list(calls.by_rows().items()) == [(1, Spent(1, 10)), (8, Spent(2, 150))]
    calls.clear()
    assert calls.by_rows() == {}


def test_statistics_have_tritons_shape(tmp_path: Path) -> None:
    measured = MeasuredBackend(FakeBackend(), ManualClock())
    measured.calls.note(1, 300)
    measured.calls.note(4, 500)
    model = edges.load(onnx_models.echo(tmp_path / "echo.onnx"))
    served = replace(edges.described(model), measured=measured)
    stages = Stages()
    stages.on_answer(decode_ns=1, queue_ns=20, execute_ns=300, total_ns=400)
    stages.on_refusal(7)
    assert model_statistics(served, stages) == {
        "name": "echo",
        "version": "1",
        "inference_count": 5,
        "execution_count": 2,
        "inference_stats": {
            "success": {"count": 1, "ns": 400},
            "fail": {"count": 1, "ns": 7},
            "queue": {"count": 1, "ns": 20},
            "compute_input": {"count": 1, "ns": 1},
            "compute_infer": {"count": 1, "ns": 300},
            "compute_output": {"count": 1, "ns": 79},
            "cache_hit": NOTHING,
            "cache_miss": NOTHING,
        },
        "batch_stats": [
            {
                "batch_size": rows,
                "compute_input": {"count": 1, "ns": 0},
                "compute_infer": {"count": 1, "ns": ns},
                "compute_output": {"count": 1, "ns": 0},
            }
            for rows, ns in ((1, 300), (4, 500))
        ],
    }


async def test_every_route_is_a_prediction_or_answered_without_one(tmp_path: Path) -> None:
    model = edges.load(onnx_models.echo(tmp_path / "echo.onnx"))
    edge = edges.serve([model], clock=ManualClock())
    try:
        assert edge.lookups.actions == set(Action) - FORMS.keys()
    finally:
        await edge.catalogue.versions[0].driver.aclose()


def test_the_configuration_leaves_the_rows_out_of_the_dimensions(tmp_path: Path) -> None:
    served = edges.described(edges.load(onnx_models.echo(tmp_path / "echo.onnx", width=3)))
    tensor = {"data_type": "TYPE_FP32", "dims": [3]}
    assert model_config(served) == {
        "name": "echo",
        "platform": "onnxruntime_onnx",
        "backend": "onnxruntime",
        "max_batch_size": 4096,
        "input": [{"name": "input", **tensor}],
        "output": [{"name": "output", **tensor}],
        "dynamic_batching": {},
    }
