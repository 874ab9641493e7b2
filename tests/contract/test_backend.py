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
from tidegate.errors import BackendError
from tidegate.inference.arrays import Array, Tensors
from tidegate.inference.runner import ModelRunner
from tidegate.profiles import ProfileSampler, load_profile
from tidegate.tensors.signature import Signature, TensorSpec
from tidegate_realtime.backends.emulated import EmulatedBackend
from tidegate_realtime.backends.onnx import OnnxBackend
from tidegate_realtime.runtime.ports import Backend, BatchResult

ENTRIES = 100


def look_up(inputs: Tensors) -> BatchResult:
    """What the ONNX model does: ``i`` gives ``i``, and what is not in its table raises."""
    if (inputs["input"] >= ENTRIES).any():
        raise BackendError("indices element out of data bounds")
    return {"output": inputs["input"].astype(np.float32)}


def on_onnxruntime(folder: Path) -> Backend:
    file = onnx_models.looks_up(folder / "model.onnx", entries=ENTRIES)
    return OnnxBackend(ModelRunner.load(file, threads=1))


def on_the_loop(_: Path) -> Backend:
    return FakeBackend(model=look_up)


def emulated(_: Path) -> Backend:
    clock = ManualClock()
    sampler = ProfileSampler(load_profile("linear:1:5"), Random(1))
    return EmulatedBackend(
        sampler, lambda inputs, _rows: look_up(inputs), clock=clock, sleep=clock.advance
    )


@pytest.fixture(params=[on_onnxruntime, on_the_loop, emulated])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    build: Callable[[Path], Backend] = request.param
    with closing(build(tmp_path)) as backend:
        yield backend


class Watched:
    """Counts the calls of ``done``, and brings the first one to the loop."""

    def __init__(self) -> None:
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

    async def answers(self) -> list[float]:
        result = await self.result()
        assert not isinstance(result, BackendError), result
        return list(map(float, result["output"].ravel()))


def rows(*numbers: int) -> dict[str, Array]:
    return {"input": np.array(numbers, np.int64)}


def begin(backend: Backend, *numbers: int) -> Watched:
    watched = Watched()
    backend.begin(rows(*numbers), rows=len(numbers), done=watched.done)
    return watched


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


class Stub:
    """A model in Python, for what onnxruntime does not do on demand."""

    def __init__(self, run: Callable[[Tensors], dict[str, Array]], rows: int = -1) -> None:
        self.run = run
        spec = TensorSpec(name="input", datatype="INT64", shape=(rows,))
        self.signature = Signature(inputs=(spec,), outputs=(spec,))


def test_the_thread_is_no_daemon_bears_a_name_and_ends_with_the_backend() -> None:
    before = set(threading.enumerate())
    with closing(OnnxBackend(Stub(dict), name="echo@1")):
        (thread,) = set(threading.enumerate()) - before
        assert (thread.name, thread.daemon) == ("onnx echo@1", False)
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
