"""kserve's InferenceRESTClient, unmodified, against a gateway: ``kserve_http.py URL``."""

import asyncio
import sys

import numpy as np
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceRESTClient, RESTConfig
from kserve.protocol.infer_type import RequestedOutput

URL = sys.argv[1]
ROW = np.array([[1, 2]], np.float32)


def request(*, binary: bool, outputs: list[RequestedOutput] | None = None) -> InferRequest:
    tensor = InferInput("input", list(ROW.shape), "FP32")
    tensor.set_data_from_numpy(ROW, binary_data=binary)
    return InferRequest("scaled", [tensor], request_id="mine", request_outputs=outputs)


async def open_inference_protocol() -> None:
    client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=20))
    assert await client.is_server_live(URL)
    assert await client.is_server_ready(URL)
    assert await client.is_model_ready(URL, "scaled")
    as_bytes = [RequestedOutput("output", parameters={"binary_data": True})]
    for asked in (
        request(binary=True),
        request(binary=False),
        request(binary=True, outputs=as_bytes),
    ):
        reply = await client.infer(URL, asked, model_name="scaled")
        assert (reply.model_name, reply.id) == ("scaled", "mine")
        assert reply.outputs[0].as_numpy().reshape(1, 2).tolist() == [[2, 4]]
        assert reply.parameters["tidegate_digest"].startswith("sha256:"), reply.parameters
    try:
        await client.infer(URL, request(binary=False), model_name="none")
    except Exception as raised:  # whichever it is, it must tell our sentence
        error = str(raised)
    assert "not served" in error, error


async def friendly_form() -> None:
    client = InferenceRESTClient(RESTConfig(protocol="v1", timeout=20))
    assert await client.is_model_ready(URL, "scaled")
    answer = await client.infer(URL, {"instances": [[1, 2]]}, model_name="scaled")
    assert answer["predictions"] == [[2, 4]], answer


async def main() -> None:
    await open_inference_protocol()
    await friendly_form()


asyncio.run(main())
sys.stdout.write("ok\n")
