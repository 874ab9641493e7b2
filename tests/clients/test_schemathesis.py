"""Requests made up from the OpenAPI document: sound ones and broken ones, and none a 5xx."""

import re
import subprocess
from pathlib import Path

from tests.fixtures.clients import VENVS, require_client
from tests.fixtures.gateways import Gateway

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "allow_header_conformance",
    "unsupported_method",
)
CONFIG = '[parameters]\nmodel = "scaled"\nversion = "1"\n'


def test_whatever_the_document_allows_is_answered_as_it_says(
    client_gateway: Gateway, tmp_path: Path
) -> None:
    require_client("schemathesis")
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    ran = subprocess.run(
        [
            *(VENVS / "schemathesis/bin/schemathesis", "run"),
            *(f"{client_gateway.admin_url}/openapi.json", "--url", client_gateway.url),
            *("--checks", ",".join(CHECKS), "--phases", "coverage,fuzzing"),
            *("--max-examples", "30", "--seed", "1", "--continue-on-failure"),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout[-5_000:] + ran.stderr
    (generated,) = re.findall(r"(\d+) generated, \d+ passed", ran.stdout)
    assert int(generated) > 500
    assert client_gateway.metric("tidegate_requests_total", outcome="failed") == 0
    assert client_gateway.metric("tidegate_requests_total", reason="internal") == 0
