"""Triton's load generator measures a gateway as if it were Triton's server."""

import re
import subprocess

import pytest

from tests.fixtures.clients import VENVS, require_client
from tests.fixtures.gateways import Gateway


def measure(*options: str) -> str:
    """Measure for a moment, and return the report."""
    require_client("perf_analyzer")
    ran = subprocess.run(
        [
            VENVS / "perf_analyzer/bin/perf_analyzer",
            *("-m", "scaled", "--concurrency-range", "4", *options),
            *(
                "--measurement-interval",
                "500",
                "--max-trials",
                "3",
                "--stability-percentage",
                "999",
            ),
        ],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.field_fault("P-04", "P-06", "P-10")
@pytest.mark.parametrize("form", ["binary", "json"])
def test_it_measures_http_with_the_servers_own_statistics(
    client_gateway: Gateway, form: str
) -> None:
    forms = ("--input-tensor-format", form, "--output-tensor-format", form)
    report = measure("-i", "http", "-u", f"127.0.0.1:{client_gateway.port}", *forms)
    client, server = report.split("Server:")
    assert int(re.findall(r"Request count: (\d+)", client)[0]) > 0
    assert int(re.findall(r"Inference count: (\d+)", server)[0]) > 0
    assert re.search(r"queue \d+ usec \+ compute input \d+ usec \+ compute infer \d+ usec", server)


@pytest.mark.field_fault("P-10")
def test_it_measures_grpc(client_gateway: Gateway) -> None:
    report = measure("-i", "grpc", "-u", client_gateway.grpc_target)
    assert int(re.findall(r"Request count: (\d+)", report)[0]) > 0
