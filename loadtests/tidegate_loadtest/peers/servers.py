"""Every server of the comparison: what it needs, how it starts, what it can be asked."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tidegate_loadtest.peers.work import Form, Request, Work, model_file, request_of
from tidegate_loadtest.proof.gateway import HOST, free_ports

READY_WITHIN_S: Final = 120
"""Ray Serve has taken half a minute on two busy cores."""
_STOPPED_WITHIN_S: Final = 20
_ANSWER_WITHIN_S: Final = 10
_POLL_S: Final = 0.2
_OK: Final = 200


class ServerError(RuntimeError):
    """A server did not start or answer; the message ends with what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where everything lies that a server starts from."""

    root: Path
    """The checkout."""
    models: Path
    """What ``make_models`` has written."""
    slo_ms: float
    """Of Tidegate, which derives its batches from it; the others know none."""

    @property
    def environments(self) -> Path:
        """The others' environments, one each."""
        return self.root / ".parts/peers"

    @property
    def scripts(self) -> Path:
        """What the others run."""
        return self.root / "loadtests/peers"


class Ports(NamedTuple):
    """Free ones; only Tidegate has a use for the second, and few for the third."""

    public: int
    admin: int
    grpc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One of them."""

    name: str
    environment: str | None = None
    """Its folder under ``Site.environments``; ``None``: this process's own."""
    command: "Command"
    path: str = "/"
    model: str = "{model}"
    """What it calls the model."""
    forms: Mapping[Form, Form] = field(default_factory=lambda: {Form.JSON: Form.JSON})
    """What it can be asked in, as people call it, and how that is written for it."""

    def is_here(self, site: Site) -> bool:
        """Say whether it is installed."""
        return self.environment is None or python_of(site, self.environment).exists()


Command: TypeAlias = Callable[[Site, Work, Ports], Sequence[str]]
"""How a server starts that serves one model."""


def python_of(site: Site, environment: str) -> Path:
    """Return the interpreter of one environment."""
    return site.environments / environment / "bin/python"


def _tidegate(http: str) -> Command:
    def command(site: Site, work: Work, ports: Ports) -> Sequence[str]:
        store = site.models / "store"
        return [
            *(sys.executable, "-m", "tidegate", "serve", "--store", str(store)),
            *("--model", work.name, "--server", http, "--slo-ms", str(site.slo_ms)),
            *("--port", str(ports.public), "--admin-port", str(ports.admin)),
            *("--grpc-port", str(ports.grpc)),
        ]

    return command


def _script(environment: str, file: str) -> Command:
    def command(site: Site, work: Work, ports: Ports) -> Sequence[str]:
        return [str(python_of(site, environment)), str(site.scripts / file)]

    return command


def _bentoml(site: Site, work: Work, ports: Ports) -> Sequence[str]:
    return [
        *(str(python_of(site, "bentoml")), "-m", "bentoml", "serve", "bentoml_service:Bento"),
        *("--working-dir", str(site.scripts), "--host", HOST, "--port", str(ports.public)),
    ]


def _triton(site: Site, work: Work, ports: Ports) -> Sequence[str]:
    return ["sh", str(site.scripts / "triton/start.sh")]


_HTTP: Final = {Form.JSON: Form.JSON, Form.BINARY: Form.BINARY}
_ALL: Final = _HTTP | {Form.GRPC: Form.GRPC}
SERVERS: Final = {
    server.name: server
    for server in (
        Server(
            name="tidegate",
            command=_tidegate("granian"),
            path="/v2/models/{model}/infer",
            forms=_ALL,
        ),
        Server(
            name="tidegate-uvicorn",
            command=_tidegate("uvicorn"),
            path="/v2/models/{model}/infer",
            forms=_HTTP,
        ),
        Server(
            name="mosec",
            environment="mosec",
            command=_script("mosec", "mosec_server.py"),
            path="/inference",
            forms={Form.JSON: Form.JSON, Form.BINARY: Form.RAW},
        ),
        Server(
            name="triton",
            environment="triton",
            command=_triton,
            path="/v2/models/peer/infer",
            model="peer",
            forms=_ALL,
        ),
        Server(
            name="litserve",
            environment="litserve",
            command=_script("litserve", "litserve_server.py"),
            path="/predict",
        ),
        Server(name="bentoml", environment="bentoml", command=_bentoml, path="/infer"),
        Server(
            name="ray-serve", environment="ray", command=_script("ray", "ray_serve.py"), path="/"
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A server that answers."""

    server: Server
    work: Work
    ports: Ports
    folder: Path
    """Of its own, and removed with it."""
    process_id: int
    """Of what was started; most servers start others from there."""

    @property
    def url(self) -> str:
        """Where a prediction is asked for."""
        return f"http://{HOST}:{self.ports.public}{self.path}"

    @property
    def path(self) -> str:
        """Without host and port."""
        return self.server.path.format(model=self.work.name)

    def request(self, form: Form) -> Request:
        """Write a request as this server reads it."""
        model = self.server.model.format(model=self.work.name)
        return request_of(self.work, self.server.forms[form], model=model)

    def ask(self, form: Form) -> tuple[int, bytes]:
        """Ask once; the status and the body.

        Raises:
            OSError, HTTPException: It does not answer.
        """
        request = self.request(form)
        connection = HTTPConnection(HOST, self.ports.public, timeout=_ANSWER_WITHIN_S)
        try:
            connection.request("POST", self.path, request.body, dict(request.headers))
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()


@contextmanager
def running(server: Server, site: Site, work: Work, folder: Path) -> Iterator[Running]:
    """Start a server in a folder of its own, wait for its first answer, stop it in the end.

    Raises:
        ServerError: It ended, or did not answer in time.
    """
    ports = Ports(*free_ports(3))
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            server.command(site, work, ports),
            env=_environment(server, site, work, ports),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    try:
        found = Running(
            server=server, work=work, ports=ports, folder=folder, process_id=process.pid
        )
        _wait_until_ready(found, process, log)
        yield found
    finally:
        _stop(process)


def _environment(server: Server, site: Site, work: Work, ports: Ports) -> Mapping[str, str]:
    added = {
        "MODEL": str(model_file(site.models, work)),
        "PORT": str(ports.public),
        "GRPC_PORT": str(ports.grpc),
        "PEERS": str(site.scripts),
        "OMP_NUM_THREADS": "1",
        "DO_NOT_TRACK": "1",
        "BENTOML_DO_NOT_TRACK": "True",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    if server.environment is not None:
        libraries = site.environments / server.environment / "lib"
        added["SITE_PACKAGES"] = str(next(libraries.glob("python3*/site-packages"), libraries))
    return os.environ | added


def _wait_until_ready(found: Running, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Ask until the first answer: what listens does not always serve yet."""
    give_up_at = time.monotonic() + READY_WITHIN_S
    last: object = "no answer"
    while time.monotonic() < give_up_at and process.poll() is None:
        try:
            status, body = found.ask(Form.JSON)
        except (OSError, HTTPException) as error:
            last = error
        else:
            if status == _OK:
                return
            last = f"status {status}: {body[:200]!r}"
        time.sleep(_POLL_S)
    tail = log.read_text(errors="replace")[-2_000:]
    raise ServerError(f"{found.server.name} does not serve ({last}). It said:\n{tail}")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop a server and whatever it has started, by their process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOPPED_WITHIN_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
