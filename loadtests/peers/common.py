"""What every server here shares: the model, and the protocol's JSON on either side of it."""

import os

import numpy as np
import onnxruntime as ort

PORT = int(os.environ["PORT"])
MAX_ROWS = 64
MAX_WAIT_MS = 2
PATIENCE_S = 60


class Model:
    """One session with one thread, as every server here is given one core."""

    def __init__(self):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        file = os.environ["MODEL"]
        self.session = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def run(self, rows):
        """Answer rows of shape ``(rows, features)``."""
        return self.session.run(None, {"input": rows})[0]

    def run_each(self, requests):
        """Answer requests of any number of rows each in one call."""
        answers = self.run(np.concatenate(requests))
        ends = np.cumsum([len(rows) for rows in requests])
        return np.split(answers, ends[:-1])


def rows_of(request):
    """Read the one input of a request."""
    (tensor,) = request["inputs"]
    return np.asarray(tensor["data"], np.float32).reshape(tensor["shape"])


def reply(answer):
    """Write the one output of a reply."""
    output = {
        "name": "output",
        "datatype": "FP32",
        "shape": answer.shape,
        "data": answer.ravel().tolist(),
    }
    return {"model_name": "peer", "model_version": "1", "outputs": [output]}
