"""kserve's InferenceGRPCClient, unmodified, against a gateway: ``kserve_grpc.py HOST:PORT``."""

import asyncio
import sys
from typing import Any

import grpc
import numpy as np
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceGRPCClient

ROW = np.array([[1, 2]], np.float32)
TEXTS = np.array([["é".encode(), b""]], np.object_)
HALVES = np.array([[0.5, -2]], np.float16)
WISHES = {"priority": 1, "timeout": 10_000_000}


def tensor(name: str, datatype: str, array: np.ndarray[Any, Any], *, binary: bool) -> InferInput:
    made = InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def request(model: str, sent: InferInput, **more: object) -> InferRequest:
    return InferRequest(model_name=model, infer_inputs=[sent], request_id="mine", **more)


async def raw_and_typed(client: InferenceGRPCClient) -> None:
    for binary in (True, False):
        reply = await client.infer(request("scaled", tensor("input", "FP32", ROW, binary=binary)))
        assert (reply.model_name, reply.model_version, reply.id) == ("scaled", "1", "mine")
        assert reply.outputs[0].as_numpy().tolist() == [[2, 4]]
        assert "tidegate_digest" in reply.parameters, reply.parameters
        texts = tensor("x", "BYTES", TEXTS, binary=binary)
        reply = await client.infer(request("same-bytes", texts))
        assert reply.outputs[0].as_numpy().tolist() == TEXTS.tolist(), reply.outputs
    halves = await client.infer(request("same-fp16", tensor("x", "FP16", HALVES, binary=True)))
    assert halves.outputs[0].as_numpy().tolist() == HALVES.tolist()


async def refused(client: InferenceGRPCClient) -> grpc.aio.AioRpcError:
    try:
        await client.infer(request("none", tensor("input", "FP32", ROW, binary=True)))
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError("none was served")


async def main() -> None:
    async with InferenceGRPCClient(sys.argv[1], timeout=20) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("scaled")
        await raw_and_typed(client)
        row = tensor("input", "FP32", ROW, binary=True)
        await client.infer(request("scaled", row, parameters=WISHES))
        await client.infer(request("scaled", row), headers=(("x-request-id", "r-1"),))
        error = await refused(client)
        assert error.code() is grpc.StatusCode.NOT_FOUND, error
        assert "not served" in str(error.details()), error
        assert dict(error.trailing_metadata())["tidegate-code"] == "model_not_found"


asyncio.run(main())
sys.stdout.write("ok\n")
