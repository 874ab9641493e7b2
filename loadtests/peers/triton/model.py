"""The model as Triton's Python backend runs it."""

import os
import sys

# The interpreter in Triton's backend looks at no PYTHONPATH.
sys.path[:0] = [os.environ["SITE_PACKAGES"], os.environ["PEERS"]]

import triton_python_backend_utils as backend  # noqa: E402 - found by the line above
from common import Model  # noqa: E402 - likewise


class TritonPythonModel:
    """One instance; Triton has gathered what it is handed."""

    def initialize(self, args):
        self.model = Model()

    def execute(self, requests):
        rows = [backend.get_input_tensor_by_name(each, "input").as_numpy() for each in requests]
        return [
            backend.InferenceResponse(output_tensors=[backend.Tensor("output", answer)])
            for answer in self.model.run_each(rows)
        ]
