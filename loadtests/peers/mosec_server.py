"""Mosec: a Rust front, and a worker process that is handed batches."""

import sys

import numpy as np
import orjson
from common import MAX_ROWS, MAX_WAIT_MS, PATIENCE_S, PORT, Model, reply, rows_of
from mosec import Server, Worker


class Infer(Worker):
    """JSON in and out; a body that is none is one row of raw floats."""

    def __init__(self):
        super().__init__()
        self.model = Model()

    def deserialize(self, data):
        if data[:1] == b"{":
            return True, rows_of(orjson.loads(data))
        return False, np.frombuffer(data, np.float32)[np.newaxis]

    def serialize(self, data):
        as_json, answer = data
        return orjson.dumps(reply(answer)) if as_json else answer.tobytes()

    def forward(self, data):
        answers = self.model.run_each([rows for _, rows in data])
        return [(as_json, answer) for (as_json, _), answer in zip(data, answers, strict=True)]


if __name__ == "__main__":
    sys.argv += ["--port", str(PORT), "--timeout", str(PATIENCE_S * 1000), "--log-level", "error"]
    server = Server()
    server.append_worker(Infer, num=1, max_batch_size=MAX_ROWS, max_wait_time=MAX_WAIT_MS)
    server.run()
