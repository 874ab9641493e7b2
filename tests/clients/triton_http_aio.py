"""tritonclient.http.aio, unmodified, against a gateway: ``triton_http_aio.py HOST:PORT``."""

import asyncio
import sys

import numpy as np
import tritonclient.http.aio as triton
from tritonclient.utils import InferenceServerException

ROW = np.array([[1, 2]], np.float32)


def row(*, binary: bool) -> list[triton.InferInput]:
    made = triton.InferInput("input", list(ROW.shape), "FP32")
    made.set_data_from_numpy(ROW, binary_data=binary)
    return [made]


async def look_around(client: triton.InferenceServerClient) -> None:
    assert await client.is_server_live()
    assert await client.is_server_ready()
    assert await client.is_model_ready("scaled", "1")
    assert (await client.get_server_metadata())["name"] == "tidegate"
    assert (await client.get_model_metadata("scaled"))["versions"] == ["1", "2"]
    assert (await client.get_model_config("scaled"))["max_batch_size"] > 0
    (statistics,) = (await client.get_inference_statistics("scaled"))["model_stats"]
    assert statistics["name"] == "scaled"


async def infer(client: triton.InferenceServerClient) -> None:
    for binary_in in (True, False):
        for binary_out in (True, False):
            wanted = [triton.InferRequestedOutput("output", binary_data=binary_out)]
            result = await client.infer(
                "scaled", row(binary=binary_in), outputs=wanted, timeout=10_000_000
            )
            assert result.as_numpy("output").tolist() == [[2, 4]]
    many = [client.infer("scaled", row(binary=True), model_version="2") for _ in range(50)]
    for result in await asyncio.gather(*many):
        assert result.as_numpy("output").tolist() == [[3, 6]]


async def refusals(client: triton.InferenceServerClient) -> None:
    try:
        await client.infer("none", row(binary=True))
    except InferenceServerException as raised:
        error = raised
    assert error.status() == "404", error
    assert "not served" in error.message(), error


async def main() -> None:
    async with triton.InferenceServerClient(sys.argv[1]) as client:
        await look_around(client)
        await infer(client)
        await refusals(client)


asyncio.run(main())
sys.stdout.write("ok\n")
