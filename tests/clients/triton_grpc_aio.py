"""tritonclient.grpc.aio, unmodified, against a gateway: ``triton_grpc_aio.py HOST:PORT``."""

import asyncio
import sys

import numpy as np
import tritonclient.grpc.aio as triton
from tritonclient.utils import InferenceServerException


def tensor(value: int) -> triton.InferInput:
    array = np.array([[value, 2]], np.float32)
    made = triton.InferInput("input", list(array.shape), "FP32")
    made.set_data_from_numpy(array)
    return made


async def main() -> None:
    async with triton.InferenceServerClient(sys.argv[1]) as client:
        assert await client.is_server_live()
        assert await client.is_model_ready("scaled", "1")
        many = [client.infer("scaled", [tensor(n)], model_version="2") for n in range(100)]
        for n, result in enumerate(await asyncio.gather(*many)):
            assert result.as_numpy("output").tolist() == [[3 * n, 6]]
        error = None
        try:
            await client.infer("none", [tensor(1)])
        except InferenceServerException as raised:
            error = raised
        assert error is not None, "none was served"
        assert error.status() == "StatusCode.NOT_FOUND", error
        assert "not served" in error.message(), error


asyncio.run(main())
sys.stdout.write("ok\n")
