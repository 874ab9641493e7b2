"""Ray Serve: an HTTP proxy process, and one replica with a batched method."""

import signal
import sys

import ray
from common import MAX_ROWS, MAX_WAIT_MS, PORT, Model, reply, rows_of
from ray import serve
from starlette.requests import Request


@serve.deployment(max_ongoing_requests=100_000, ray_actor_options={"num_cpus": 0.1})
class Peer:
    """One replica."""

    def __init__(self):
        self.model = Model()

    @serve.batch(max_batch_size=MAX_ROWS, batch_wait_timeout_s=MAX_WAIT_MS / 1000)
    async def infer(self, requests):
        return self.model.run_each(requests)

    async def __call__(self, request: Request):
        return reply(await self.infer(rows_of(await request.json())))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    serve.start(http_options={"host": "127.0.0.1", "port": PORT})
    serve.run(Peer.bind())
    signal.pause()
