"""Threads that read, on virtual time: each job takes as long as a test says."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from tidegate_realtime.runtime.reading import Readers

T = TypeVar("T")


class VirtualExecutor(Executor):
    """Does each job at the end of its time, on the loop."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.begun = 0
        self.running = 0
        self.most_running = 0
        self.is_shut_down = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:  # noqa: ANN401 - as the library's
        assert not self.is_shut_down
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        self.begun += 1
        self.running += 1
        self.most_running = max(self.most_running, self.running)

        def finish() -> None:
            self.running -= 1
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:
                future.set_exception(error)

        asyncio.get_running_loop().call_later(self.takes_s, finish)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        del wait, cancel_futures
        self.is_shut_down = True


def virtual_readers(takes_s: float, *, threads: int = 1) -> tuple[Readers, VirtualExecutor]:
    executor = VirtualExecutor(takes_s)
    return Readers(executor=executor, threads=threads), executor
