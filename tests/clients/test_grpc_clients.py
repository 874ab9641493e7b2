"""Every gRPC client of the protocol works unmodified, each in a process of its own."""

import sysconfig

import pytest

from tests.fixtures.clients import run_client
from tests.fixtures.gateways import Gateway
from tests.project import PACKAGES


@pytest.mark.field_fault("P-08", "P-11", "P-12")
def test_tritonclient_grpc(client_gateway: Gateway) -> None:
    assert run_client("tritonclient", "triton_grpc.py", client_gateway.grpc_target) == "ok\n"


def test_tritonclient_grpc_aio(client_gateway: Gateway) -> None:
    assert run_client("tritonclient", "triton_grpc_aio.py", client_gateway.grpc_target) == "ok\n"


@pytest.mark.field_fault("P-11", "P-12")
def test_kserve_grpc(client_gateway: Gateway) -> None:
    assert run_client("kserve", "kserve_grpc.py", client_gateway.grpc_target).endswith("ok\n")


@pytest.mark.field_fault("P-01")
@pytest.mark.parametrize("first", ["client", "ours"])
@pytest.mark.parametrize(
    ("client", "stubs"),
    [
        ("tritonclient", "tritonclient.grpc.service_pb2"),
        ("kserve", "kserve.protocol.grpc.grpc_predict_v2_pb2"),
    ],
)
def test_a_client_and_this_server_can_be_imported_into_one_process(
    client: str, stubs: str, first: str
) -> None:
    ours = [PACKAGES[name].parent for name in ("tidegate", "tidegate_realtime")]
    folders = [*map(str, ours), sysconfig.get_path("purelib")]
    assert run_client(client, "together.py", first, stubs, *folders).endswith("ok\n")
