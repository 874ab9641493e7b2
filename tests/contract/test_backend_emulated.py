"""What the emulated backend promises besides: the times of the profile, and honest ones."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from random import Random

import numpy as np
import pytest

from tidegate.clock import ManualClock
from tidegate.clock.system import SystemClock
from tidegate.errors import BackendError
from tidegate.inference.arrays import Array, Tensors
from tidegate.profiles import (
    DriftStep,
    LatencyProfile,
    Linear,
    Origin,
    ProfileError,
    ProfileSampler,
    load_profile,
)
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate_realtime.backends.emulated import (
    EARLY_NS,
    Answer,
    EmulatedBackend,
    Placeholders,
    build_emulated,
)
from tidegate_realtime.runtime.ports import BatchResult

MS = 1_000_000
PROFILE = "linear:1:5"


def echo(inputs: Tensors, rows: int) -> BatchResult:
    assert len(inputs["input"]) == rows
    return dict(inputs)


def batch(rows: int) -> dict[str, Array]:
    return {"input": np.arange(rows, dtype=np.float32)}


class Bench:
    """A backend whose sleeps take no time and are written down."""

    def __init__(self, profile: LatencyProfile, answer: Answer = echo) -> None:
        self.clock = ManualClock()
        self.slept_ns: list[int] = []
        self._told: SimpleQueue[tuple[int, BatchResult]] = SimpleQueue()
        sampler = ProfileSampler(profile, Random(1))
        self.backend = EmulatedBackend(sampler, answer, clock=self.clock, wait=self._wait)

    def _wait(self, _: threading.Event, duration_ns: int) -> None:
        self.slept_ns.append(duration_ns)
        self.clock.advance(duration_ns)

    def begin(self, rows: int) -> None:
        self.backend.begin(
            batch(rows),
            rows=rows,
            done=lambda result: self._told.put((self.clock.now_ns(), result)),
        )

    def told(self) -> tuple[int, BatchResult]:
        """Wait for the next batch to end: when, and with what."""
        return self._told.get(timeout=30)


@contextmanager
def bench(profile: LatencyProfile | None = None, answer: Answer = echo) -> Iterator[Bench]:
    on = Bench(profile or load_profile(PROFILE), answer)
    try:
        yield on
    finally:
        on.backend.close()


def test_a_batch_takes_as_long_as_the_profile_says() -> None:
    with bench() as on:
        on.begin(1)
        assert on.told()[0] == 6 * MS - EARLY_NS
        on.clock.advance(4 * MS + EARLY_NS)
        on.begin(10)
        assert on.told()[0] == (10 + 15) * MS - EARLY_NS


def test_batches_that_wait_for_the_executor_follow_each_other_without_a_gap() -> None:
    at_work = threading.Event()

    def answer(inputs: Tensors, rows: int) -> BatchResult:
        at_work.wait(30)
        return echo(inputs, rows)

    with bench(answer=answer) as on:
        for rows in (1, 5, 15):
            on.begin(rows)
        at_work.set()
        assert [on.told()[0] for _ in range(3)] == [end - EARLY_NS for end in (6e6, 16e6, 36e6)]


def test_a_thread_that_comes_late_does_not_sleep_on_top() -> None:
    def answer(inputs: Tensors, rows: int) -> BatchResult:
        on.clock.advance(50 * MS)  # as if the interpreter's lock had been elsewhere
        return echo(inputs, rows)

    with bench(answer=answer) as on:
        on.begin(1)
        on.told()
        assert on.slept_ns == []


def test_drift_counts_from_the_start_of_the_backend() -> None:
    profile = LatencyProfile(
        schema=1,
        name="slowing",
        law=Linear(alpha_ms=1, beta_ms=5),
        origin=Origin(status="assumed", source="a test", date=""),
        drift=(DriftStep(at_s=20, factor=2),),
    )
    with bench(profile) as on:
        on.begin(5)
        on.told()
        on.clock.advance(20_000 * MS)
        on.begin(5)
        on.told()
        assert on.slept_ns == [10 * MS - EARLY_NS, 20 * MS - EARLY_NS]


def test_more_rows_than_were_measured_fail_that_batch_and_no_other() -> None:
    with bench(load_profile("v100-resnet50-clockwork")) as on:
        on.begin(17)
        _, refused = on.told()
        assert isinstance(refused, BackendError)
        assert "measured for 1 to 16 rows and says nothing of 17" in str(refused)
        on.begin(16)
        assert not isinstance(on.told()[1], BackendError)


def test_whatever_an_answer_raises_fails_that_batch_and_no_other() -> None:
    def answer(inputs: Tensors, rows: int) -> BatchResult:
        if rows == 1:
            raise ZeroDivisionError("by zero")
        return echo(inputs, rows)

    with bench(answer=answer) as on:
        on.begin(1)
        _, failed = on.told()
        assert isinstance(failed, BackendError)
        assert str(failed) == "the answer raised ZeroDivisionError: by zero"
        on.begin(2)
        assert not isinstance(on.told()[1], BackendError)


def test_as_many_batches_run_at_once_as_there_are_executors() -> None:
    asleep, wake = threading.Barrier(3), threading.Event()

    def wait(_: threading.Event, duration_ns: int) -> None:
        asleep.wait(30)
        wake.wait(30)

    before = set(threading.enumerate())
    backend = EmulatedBackend(
        ProfileSampler(load_profile(PROFILE), Random(1)),
        echo,
        clock=ManualClock(),
        wait=wait,
        executors=2,
    )
    threads = set(threading.enumerate()) - before
    ended: SimpleQueue[BatchResult] = SimpleQueue()
    for _ in range(2):
        backend.begin(batch(1), rows=1, done=ended.put)
    asleep.wait(30)  # both are
    assert ended.empty()
    wake.set()
    backend.close()
    assert ended.qsize() == 2
    assert {thread.name for thread in threads} == {
        "emulated linear:1:5 0",
        "emulated linear:1:5 1",
    }
    assert not any(thread.is_alive() for thread in threads)


def spec(name: str, datatype: str, *shape: int) -> TensorSpec:
    return TensorSpec(name=name, datatype=datatype, shape=shape)


SIGNATURE = Signature(
    inputs=(spec("ids", "INT64", -1), spec("x", "FP32", -1, 3), spec("y", "FP32", -1, 3)),
    outputs=(
        spec("score", "FP32", -1, 2),
        spec("same", "FP32", -1, 3),
        spec("label", "BYTES", -1),
        spec("steps", "FP32", -1, -1, 4),
    ),
)


def test_an_output_that_looks_like_an_input_repeats_it_and_others_are_zeros() -> None:
    inputs: dict[str, Array] = {
        "ids": np.arange(2),
        "x": np.ones((2, 3), np.float32),
        "y": np.zeros((2, 3), np.float32),
    }
    outputs = Placeholders(SIGNATURE)(inputs, 2)
    assert list(outputs) == ["score", "same", "label", "steps"]
    assert outputs["same"].tolist() == [[1, 1, 1]] * 2
    assert not np.shares_memory(outputs["same"], inputs["x"])
    assert outputs["label"].tolist() == ["", ""]
    for output in SIGNATURE.outputs:
        output.check(outputs[output.name])
    assert not outputs["score"].any()
    assert not outputs["steps"].any()


def told_by(backend: EmulatedBackend, inputs: Tensors, rows: int) -> BatchResult:
    ended: SimpleQueue[BatchResult] = SimpleQueue()
    backend.begin(inputs, rows=rows, done=ended.put)
    backend.close()
    return ended.get(timeout=30)


def test_it_is_built_from_a_profile_and_a_signature() -> None:
    both = spec("x", "FP32", -1, 3)
    backend = build_emulated(
        "linear:0:0.001", Signature(inputs=(both,), outputs=(both,)), clock=SystemClock()
    )
    assert (backend.executors, backend.fixed_rows) == (1, None)
    assert backend.profile.allowed_sizes is None
    result = told_by(backend, {"x": np.ones((2, 3), np.float32)}, 2)
    assert not isinstance(result, BackendError)
    assert result["x"].tolist() == [[1, 1, 1]] * 2


def test_a_model_of_fixed_rows_takes_as_long_for_fewer() -> None:
    clock = ManualClock()
    sampler = ProfileSampler(load_profile(PROFILE), Random(1))
    backend = EmulatedBackend(
        sampler, echo, clock=clock, wait=lambda _, ns: clock.advance(ns), fixed_rows=8
    )
    told_by(backend, batch(2), 2)
    assert clock.now_ns() == 13 * MS - EARLY_NS


def test_a_profile_that_does_not_reach_the_rows_of_the_model_is_refused_at_once() -> None:
    fixed = spec("x", "FP32", 64, 3)
    with pytest.raises(ProfileError, match="1 to 16 rows and says nothing of 64"):
        build_emulated(
            "v100-resnet50-clockwork",
            Signature(inputs=(fixed,), outputs=(fixed,)),
            clock=ManualClock(),
        )


def test_a_thread_that_was_replaced_tells_nothing_more_and_ends() -> None:
    asleep, wake = threading.Event(), threading.Event()
    clock = ManualClock()

    def wait(_: threading.Event, duration_ns: int) -> None:
        if not asleep.is_set():
            asleep.set()
            assert wake.wait(30)
        clock.advance(duration_ns)

    before = set(threading.enumerate())
    sampler = ProfileSampler(load_profile(PROFILE), Random(1))
    backend = EmulatedBackend(sampler, echo, clock=clock, wait=wait)
    (thread,) = set(threading.enumerate()) - before
    hung: SimpleQueue[BatchResult] = SimpleQueue()
    ready: SimpleQueue[BackendError | None] = SimpleQueue()
    call = backend.begin(batch(1), rows=1, done=hung.put)
    assert asleep.wait(30)
    backend.replace(call, ready=ready.put)
    assert ready.get(timeout=30) is None
    fine: SimpleQueue[BatchResult] = SimpleQueue()
    backend.begin(batch(2), rows=2, done=fine.put)
    assert not isinstance(fine.get(timeout=30), BackendError)
    backend.close()
    wake.set()
    thread.join(30)
    assert not thread.is_alive()
    assert hung.empty()


@pytest.mark.field_fault("S-31")
def test_closing_waits_for_a_call_that_hangs_only_until_it_is_given_up() -> None:
    asleep, wake = threading.Event(), threading.Event()

    def wait(_: threading.Event, _duration_ns: int) -> None:
        asleep.set()
        assert wake.wait(30)

    sampler = ProfileSampler(load_profile(PROFILE), Random(1))
    before = set(threading.enumerate())
    backend = EmulatedBackend(sampler, echo, clock=ManualClock(), wait=wait)
    (hanging,) = set(threading.enumerate()) - before
    told: SimpleQueue[BatchResult] = SimpleQueue()
    hung = backend.begin(batch(1), rows=1, done=told.put)
    assert asleep.wait(30)
    closing = threading.Thread(target=backend.close, daemon=True)
    closing.start()
    while told.empty():  # until it is closing, when a batch is refused at once
        backend.begin(batch(1), rows=1, done=told.put)
    ready: SimpleQueue[BackendError | None] = SimpleQueue()
    backend.replace(hung, ready=ready.put)
    assert str(ready.get(timeout=30)) == "the emulated backend is closed"
    closing.join(10)
    assert not closing.is_alive()
    assert set(threading.enumerate()) - before == {hanging}  # and no other one has come
    wake.set()
    hanging.join(30)
