"""TLS and client certificates, under every server."""

import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.fixtures.certificates import Certificates, make_certificates
from tests.fixtures.gateways import SERVERS, command, free_port, running_gateway

every_server = pytest.mark.parametrize("server", SERVERS)
BODY = {"instances": [[1, 2, 3]]}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def environment(certificates: Certificates, *, mutual: bool = False) -> dict[str, str]:
    client_ca = {"TIDEGATE_SERVE__TLS_CLIENT_CA": str(certificates.ca)} if mutual else {}
    return {
        "TIDEGATE_SERVE__TLS_CERT": str(certificates.server),
        "TIDEGATE_SERVE__TLS_KEY": str(certificates.server_key),
        **client_ca,
    }


def trusting(
    certificates: Certificates, *, shown: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """Return a client's side, which shows a certificate and its key if it has one."""
    context = ssl.create_default_context(cafile=certificates.ca)
    if shown is not None:
        context.load_cert_chain(shown, key)
    return context


def predict(url: str, context: ssl.SSLContext) -> httpx.Response:
    with httpx.Client(verify=context) as client:
        return client.post(f"{url}/v1/models/echo:predict", json=BODY)


@every_server
def test_callers_speak_tls_and_nothing_else(
    http_store: Path, certificates: Certificates, server: str
) -> None:
    arguments = ("--server", server, "--model", "echo")
    with running_gateway(http_store, *arguments, environment=environment(certificates)) as gateway:
        url = gateway.url.replace("http", "https")
        assert f"callers    {url}" in gateway.announcement
        assert predict(url, trusting(certificates)).json()["predictions"] == [[1, 2, 3]]
        old = trusting(certificates)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert predict(url, old).status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{gateway.url}/v2/health/live")
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            httpx.get(f"{url}/v2/health/live")  # signed by nobody whom this machine knows
        assert httpx.get(f"{gateway.admin_url}/v2/health/live").status_code == 200


@every_server
def test_a_caller_without_a_certificate_of_the_authority_is_not_answered(
    http_store: Path, certificates: Certificates, server: str
) -> None:
    arguments = ("--server", server, "--model", "echo")
    with running_gateway(
        http_store, *arguments, environment=environment(certificates, mutual=True)
    ) as gateway:
        url = gateway.url.replace("http", "https")
        ours = trusting(certificates, shown=certificates.client, key=certificates.client_key)
        assert predict(url, ours).status_code == 200
        stranger = trusting(
            certificates, shown=certificates.stranger, key=certificates.stranger_key
        )
        for refused in (trusting(certificates), stranger):
            with pytest.raises(httpx.TransportError):
                predict(url, refused)
        assert predict(url, ours).status_code == 200
        assert gateway.metric("tidegate_arrivals_total", model="echo") == 2


def test_files_that_do_not_belong_together_stop_the_start(
    http_store: Path, certificates: Certificates, tmp_path: Path
) -> None:
    sound = environment(certificates)
    nothing = str(tmp_path / "none.pem")
    mistakes = [
        (sound | {"TIDEGATE_SERVE__TLS_KEY": str(certificates.client_key)}, "is not the key of"),
        (sound | {"TIDEGATE_SERVE__TLS_CERT": nothing}, nothing),
        (sound | {"TIDEGATE_SERVE__TLS_CLIENT_CA": nothing}, nothing),
        ({"TIDEGATE_SERVE__TLS_CERT": str(certificates.server)}, "both serve.tls_cert and"),
        ({"TIDEGATE_SERVE__TLS_CLIENT_CA": str(certificates.ca)}, "both serve.tls_cert and"),
    ]
    for variables, said in mistakes:
        started = subprocess.run(
            command(http_store, free_port(), free_port()),
            env=variables,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (started.returncode, said in started.stderr) == (2, True), started.stderr
        assert "Traceback" not in started.stderr
