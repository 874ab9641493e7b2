"""BentoML: one worker, whose endpoint is handed lists of requests."""

from typing import Any

import bentoml
from common import MAX_ROWS, PATIENCE_S, Model, reply, rows_of


@bentoml.service(
    workers=1,
    traffic={"timeout": PATIENCE_S, "max_concurrency": 100_000},
    logging={"access": {"enabled": False}},
)
class Bento:
    """Its batcher learns how long to wait; only what it could not do in a minute is refused."""

    def __init__(self):
        self.model = Model()

    @bentoml.api(batchable=True, max_batch_size=MAX_ROWS, max_latency_ms=60_000, route="/infer")
    def infer(self, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Answer one tensor of each request."""
        return [
            reply(answer)
            for answer in self.model.run_each([rows_of({"inputs": [i]}) for i in inputs])
        ]
