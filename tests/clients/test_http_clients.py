"""Every HTTP client of the protocol works unmodified, each in a process of its own."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.clients import require_client, run_client
from tests.fixtures.gateways import Gateway


def address(gateway: Gateway) -> str:
    return f"127.0.0.1:{gateway.port}"


@pytest.mark.field_fault("P-02", "P-05", "P-10")
def test_tritonclient_http(client_gateway: Gateway) -> None:
    assert run_client("tritonclient", "triton_http.py", address(client_gateway)) == "ok\n"


@pytest.mark.field_fault("P-05")
def test_tritonclient_http_aio(client_gateway: Gateway) -> None:
    assert run_client("tritonclient", "triton_http_aio.py", address(client_gateway)) == "ok\n"


@pytest.mark.field_fault("P-02", "P-03", "P-09")
def test_kserve_rest(client_gateway: Gateway) -> None:
    assert run_client("kserve", "kserve_http.py", client_gateway.url).endswith("ok\n")


@pytest.mark.parametrize("form", [[], ["--binary-data"]])
def test_mlserver_infer(client_gateway: Gateway, tmp_path: Path, form: list[str]) -> None:
    python = require_client("mlserver")
    asked, answered = tmp_path / "asked.jsonl", tmp_path / "answered.jsonl"
    rows = [[place, 2 * place] for place in range(20)]
    tensor = {"name": "input", "datatype": "FP32", "shape": [1, 2]}
    lines = [json.dumps({"inputs": [{**tensor, "data": row}], "id": str(row[0])}) for row in rows]
    asked.write_text("\n".join(lines) + "\n")
    command: list[str | Path] = [python.parent / "mlserver", "infer", "--retries", "1", *form]
    command += ["-u", address(client_gateway), "-m", "scaled", "-i", asked, "-o", answered]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    replies = {
        reply["id"]: reply["outputs"][0]["data"]
        for reply in map(json.loads, answered.read_text().splitlines())
    }
    assert replies == {str(row[0]): [2 * value for value in row] for row in rows}
