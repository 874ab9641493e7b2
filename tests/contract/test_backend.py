"""What every backend promises, and what the one on onnxruntime promises besides."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.fakes.backends import FakeBackend
from tests.fixtures import onnx_models
from tidegate.clock import ManualClock
from tidegate.errors import ArtifactError, BackendError
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.runner import ModelRunner, RunControl
from tidegate.profiles import ProfileSampler, load_profile
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate.units import ms_to_ns
from tidegate_realtime.backends.emulated import EmulatedBackend
from tidegate_realtime.backends.onnx import OnnxBackend, RunnableModel
from tidegate_realtime.runtime.ports import Backend, BatchResult, Call

ENTRIES = 100
ENDLESS = [10**15] * 50
"""Rows of which a call takes for ever, unless it is terminated."""


def look_up(inputs: Tensors) -> BatchResult:
    """What the ONNX model does: ``i`` gives ``i``, and what is not in its table raises."""
    if (inputs["input"] >= ENTRIES).any():
        raise BackendError("indices element out of data bounds")
    return {"output": inputs["input"].astype(np.float32)}


def on_onnxruntime(folder: Path) -> Backend:
    file = onnx_models.counts_and_looks_up(folder / "model.onnx", entries=ENTRIES)
    return OnnxBackend(ModelRunner.load(file, threads=1))


def on_the_loop(_: Path) -> Backend:
    return FakeBackend(model=look_up, took_s=lambda rows: 3_600 * (rows == len(ENDLESS)))


def emulated(_: Path) -> Backend:
    clock = ManualClock()

    def wait(terminated: threading.Event, duration_ns: int) -> None:
        if duration_ns > ms_to_ns(len(ENDLESS)):
            assert terminated.wait(30)
        clock.advance(duration_ns)

    sampler = ProfileSampler(load_profile("linear:1:5"), Random(1))
    return EmulatedBackend(sampler, lambda inputs, _rows: look_up(inputs), clock=clock, wait=wait)


@pytest.fixture(params=[on_onnxruntime, on_the_loop, emulated])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    build: Callable[[Path], Backend] = request.param
    with closing(build(tmp_path)) as backend:
        yield backend


class Watched:
    """Counts the calls of ``done``, and brings the first one to the loop."""

    def __init__(self) -> None:
        self.call: Call | None = None
        self.calls = 0
        self.thread: threading.Thread | None = None
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[BatchResult] = self._loop.create_future()

    def done(self, result: BatchResult) -> None:
        self.calls += 1
        self.thread = threading.current_thread()
        if self.calls == 1:
            self._loop.call_soon_threadsafe(self._future.set_result, result)

    async def result(self) -> BatchResult:
        async with asyncio.timeout(30):
            return await self._future

    def terminate(self) -> None:
        assert self.call is not None
        self.call.terminate()

    async def answers(self) -> list[float]:
        result = await self.result()
        assert not isinstance(result, BackendError), result
        return list(map(float, result["output"].ravel()))


def rows(*numbers: int) -> dict[str, Array]:
    return {"input": np.array(numbers, np.int64)}


def begin(backend: Backend, *numbers: int) -> Watched:
    watched = Watched()
    watched.call = backend.begin(rows(*numbers), rows=len(numbers), done=watched.done)
    return watched


class Replaced:
    """Counts the calls of ``ready``, and brings the first one to the loop."""

    def __init__(self, backend: Backend, hung: Watched) -> None:
        self.calls = 0
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[BackendError | None] = self._loop.create_future()
        assert hung.call is not None
        backend.replace(hung.call, ready=self._ready)

    def _ready(self, fault: BackendError | None) -> None:
        self.calls += 1
        if self.calls == 1:
            self._loop.call_soon_threadsafe(self._future.set_result, fault)

    async def fault(self) -> BackendError | None:
        async with asyncio.timeout(30):
            return await self._future


async def test_a_batch_is_answered_row_by_row(backend: Backend) -> None:
    assert backend.executors >= 1
    assert backend.fixed_rows is None
    assert await begin(backend, 3, 1, 2).answers() == [3, 1, 2]


async def test_each_of_many_batches_is_told_once_and_of_its_own_rows(backend: Backend) -> None:
    batches = [begin(backend, *range(start, start + 5)) for start in range(ENTRIES - 5)]
    for start, batch in enumerate(batches):
        assert await batch.answers() == list(range(start, start + 5))
    assert {batch.calls for batch in batches} == {1}


async def test_a_batch_that_raises_is_told_so_and_the_next_one_is_answered(
    backend: Backend,
) -> None:
    raising, fine = begin(backend, 1, ENTRIES), begin(backend, 5)
    result = await raising.result()
    assert isinstance(result, BackendError)
    assert "out of data bounds" in str(result)
    assert await fine.answers() == [5]
    assert raising.calls == 1


async def test_outputs_stay_as_they_are_while_later_batches_run(backend: Backend) -> None:
    first = await begin(backend, 1, 2).result()
    await begin(backend, 8, 9).result()
    assert not isinstance(first, BackendError)
    assert first["output"].tolist() == [1, 2]


async def test_inputs_are_read_and_never_written(backend: Backend) -> None:
    inputs = rows(4, 5)
    inputs["input"].flags.writeable = False
    watched = Watched()
    backend.begin(inputs, rows=2, done=watched.done)
    assert await watched.answers() == [4, 5]


async def test_closing_lets_what_was_begun_end_and_refuses_what_comes_after(
    backend: Backend,
) -> None:
    batches = [begin(backend, number) for number in range(20)]
    await asyncio.to_thread(backend.close)
    assert [batch.calls for batch in batches] == [1] * 20
    assert [await batch.answers() for batch in batches] == [[number] for number in range(20)]

    late = begin(backend, 1)
    assert isinstance(await late.result(), BackendError)
    assert late.calls == 1
    await asyncio.to_thread(backend.close)


async def test_a_call_that_nobody_waits_for_ends_early_and_the_next_one_is_answered(
    backend: Backend,
) -> None:
    endless, fine = begin(backend, *ENDLESS), begin(backend, 5)
    endless.terminate()
    assert isinstance(await endless.result(), BackendError)
    assert await fine.answers() == [5]
    assert endless.calls == fine.calls == 1


async def test_a_call_can_be_terminated_before_it_runs(backend: Backend) -> None:
    running, behind = begin(backend, *ENDLESS), begin(backend, *ENDLESS)
    behind.terminate()
    running.terminate()
    assert isinstance(await running.result(), BackendError)
    assert isinstance(await behind.result(), BackendError)
    assert await begin(backend, 5).answers() == [5]
    assert running.calls == behind.calls == 1


async def test_terminating_after_the_end_or_twice_changes_nothing(backend: Backend) -> None:
    ended, endless = begin(backend, 1, 2), begin(backend, *ENDLESS)
    assert await ended.answers() == [1, 2]
    ended.terminate()
    endless.terminate()
    endless.terminate()
    await endless.result()
    endless.terminate()
    assert await begin(backend, 5).answers() == [5]
    assert ended.calls == endless.calls == 1


@pytest.mark.field_fault("S-31")
async def test_a_hanging_executor_is_replaced_and_the_other_one_answers(backend: Backend) -> None:
    hung = begin(backend, *ENDLESS)
    replaced = Replaced(backend, hung)
    assert await replaced.fault() is None
    assert await begin(backend, 5).answers() == [5]
    assert replaced.calls == 1
    hung.terminate()  # so that nothing of it is left when the test has ended


async def test_onnxruntime_stops_in_the_middle_of_a_call(tmp_path: Path) -> None:
    file = onnx_models.counts_and_looks_up(tmp_path / "model.onnx", entries=ENTRIES)
    runner, running = ModelRunner.load(file, threads=1), threading.Event()

    class Watching(Stub):
        def run(self, inputs: Tensors, control: RunControl | None = None) -> dict[str, Array]:
            running.set()
            return runner.run(inputs, control)

    with closing(OnnxBackend(Watching(dict))) as backend:
        endless = begin(backend, *ENDLESS)
        assert await asyncio.to_thread(running.wait, 30)
        assert endless.calls == 0
        endless.terminate()
        result = await endless.result()
        assert isinstance(result, BackendError)
        assert "terminate flag" in str(result)


class Stub:
    """A model in Python, for what onnxruntime does not do on demand."""

    def __init__(self, run: Callable[[Tensors], dict[str, Array]], rows: int = -1) -> None:
        self._run = run
        self.reopen: Callable[[], RunnableModel] = lambda: self
        spec = TensorSpec(name="input", datatype="INT64", shape=(rows,))
        self.signature = Signature(inputs=(spec,), outputs=(spec,))

    def run(self, inputs: Tensors, control: RunControl | None = None) -> dict[str, Array]:
        return self._run(inputs)

    def reopened(self) -> RunnableModel:
        return self.reopen()


def test_the_thread_bears_a_name_and_ends_with_the_backend() -> None:
    before = set(threading.enumerate())
    with closing(OnnxBackend(Stub(dict), name="echo@1")):
        (thread,) = set(threading.enumerate()) - before
        assert thread.name == "onnx echo@1"
    assert not thread.is_alive()


async def test_results_are_told_on_the_thread_of_the_model(tmp_path: Path) -> None:
    with closing(on_onnxruntime(tmp_path)) as backend:
        watched = begin(backend, 1)
        await watched.result()
    assert watched.thread is not None
    assert watched.thread.name == "onnx model"


async def test_whatever_a_model_raises_is_a_result_and_the_thread_lives_on() -> None:
    def run(inputs: Tensors) -> dict[str, Array]:
        if inputs["input"][0]:
            raise ZeroDivisionError("by zero")
        return {"output": inputs["input"]}

    with closing(OnnxBackend(Stub(run))) as backend:
        result = await begin(backend, 1).result()
        assert isinstance(result, BackendError)
        assert str(result) == "the model raised ZeroDivisionError: by zero"
        assert await begin(backend, 0).answers() == [0]


@pytest.mark.field_fault("S-11")
async def test_a_model_of_fixed_rows_gets_them_and_padding_is_never_an_answer() -> None:
    asked: list[list[int]] = []

    def run(inputs: Tensors) -> dict[str, Array]:
        asked.append(inputs["input"].tolist())
        return {"output": inputs["input"]}

    with closing(OnnxBackend(Stub(run, rows=4))) as backend:
        assert backend.fixed_rows == 4
        assert await begin(backend, 1, 2).answers() == [1, 2]
        assert await begin(backend, 1, 2, 3, 4).answers() == [1, 2, 3, 4]
    assert asked == [[1, 2, 2, 2], [1, 2, 3, 4]]


async def test_an_onnx_model_of_fixed_rows_answers_fewer(tmp_path: Path) -> None:
    file = onnx_models.echo_fixed_rows(tmp_path / "model.onnx", rows=4, width=1)
    with closing(OnnxBackend(ModelRunner.load(file, threads=1))) as backend:
        watched = Watched()
        backend.begin({"input": np.array([[7], [8]], np.float32)}, rows=2, done=watched.done)
        assert await watched.answers() == [7, 8]


async def test_the_arrays_of_a_batch_are_let_go_of_when_it_has_ended() -> None:
    with closing(OnnxBackend(Stub(lambda inputs: {"output": inputs["input"] + 1}))) as backend:
        array = np.array([1], np.int64)
        released = threading.Event()
        weakref.finalize(array, released.set)
        watched = Watched()
        backend.begin({"input": array}, rows=1, done=watched.done)
        del array
        await watched.result()
        assert await asyncio.to_thread(released.wait, timeout=30)


def blocks_on(event: threading.Event) -> Stub:
    """A model that hangs where nothing can stop it."""

    def run(inputs: Tensors) -> dict[str, Array]:
        assert event.wait(30)
        return {"output": inputs["input"]}

    return Stub(run)


def echo() -> Stub:
    return Stub(lambda inputs: {"output": inputs["input"]})


@pytest.mark.field_fault("S-31")
async def test_a_thread_that_hangs_is_left_alone_and_ends_when_its_call_does() -> None:
    event, before = threading.Event(), set(threading.enumerate())
    model = blocks_on(event)
    model.reopen = echo
    with closing(OnnxBackend(model)) as backend:
        (thread,) = set(threading.enumerate()) - before
        hung = begin(backend, 1)
        assert await Replaced(backend, hung).fault() is None
        assert await begin(backend, 2).answers() == [2]
    assert thread.is_alive()  # closing has not waited for it
    assert thread.daemon  # nor does the interpreter
    event.set()
    await asyncio.to_thread(thread.join, 30)
    assert not thread.is_alive()


@pytest.mark.field_fault("S-31")
async def test_closing_waits_for_a_call_that_hangs_only_until_it_is_given_up() -> None:
    event, before = threading.Event(), set(threading.enumerate())
    backend = OnnxBackend(blocks_on(event))
    (hanging,) = set(threading.enumerate()) - before
    hung = begin(backend, 1)
    closing = threading.Thread(target=backend.close, daemon=True)
    closing.start()
    while not begin(backend, 2).calls:  # until it is closing, when a batch is refused at once
        pass
    assert str(await Replaced(backend, hung).fault()) == "onnx model is closed"
    await asyncio.to_thread(closing.join, 10)
    assert not closing.is_alive()
    event.set()
    await asyncio.to_thread(hanging.join, 30)


async def test_an_executor_that_cannot_be_replaced_says_why_and_can_be_asked_again() -> None:
    event = threading.Event()
    model = blocks_on(event)

    def gone() -> Stub:
        raise ArtifactError("no such file")

    model.reopen = gone
    with closing(OnnxBackend(model)) as backend:
        hung = begin(backend, 1)
        fault = await Replaced(backend, hung).fault()
        assert str(fault) == "the model cannot be loaded again: no such file"
        assert isinstance(await begin(backend, 2).result(), BackendError)
        model.reopen = echo
        assert await Replaced(backend, hung).fault() is None
        assert await begin(backend, 3).answers() == [3]
    assert isinstance(await Replaced(backend, hung).fault(), BackendError)  # it is closed
    event.set()
