"""``[serve]`` of ``tidegate.toml``: the gateway's own settings."""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from tidegate.ids import ModelRef
from tidegate.settings import Section
from tidegate_realtime.api.host_names import is_host_name

Port = Annotated[int, Field(ge=1, le=65_535)]
PortOrNone = Annotated[int, Field(ge=0, le=65_535)]


EMULATED: Final = "emulated:"


def _backend(text: str) -> str:
    if text != "onnxruntime" and (not text.startswith(EMULATED) or text == EMULATED):
        raise ValueError(
            "expected onnxruntime, or emulated:PROFILE with the name or file of a latency profile"
        )
    return text


def _host_name(text: str) -> str:
    if not is_host_name(text):
        raise ValueError(
            f"{text[:80]!r} is no name: expected it as in a URL but without a port, such as "
            "api.example, 192.0.2.7 or [::1]"
        )
    return text


def _model_ref(text: str) -> str:
    return str(ModelRef.parse(text))


HostName = Annotated[str, AfterValidator(_host_name)]


class ServeSettings(Section):
    """What ``tidegate serve`` listens on and how much it holds."""

    host: str = "127.0.0.1"
    """Address of the public listener: one of this machine's, ``0.0.0.0`` for all of them."""
    port: Port = 8000
    """Of the public listener. 8000 to 8002 are what clients of Triton expect."""
    admin_port: Port = Field(8002, validate_default=True)
    """Of the admin listener, which is on loopback whatever ``host`` says."""
    grpc_port: PortOrNone = Field(8001, validate_default=True)
    """Of the gRPC listener, at ``host`` too; 0: none."""
    server: Literal["granian", "uvicorn"] = "granian"
    """What carries the public listener; uvicorn reaches about two thirds of the throughput."""
    models: tuple[Annotated[str, AfterValidator(_model_ref)], ...] = ()
    """``name``, ``name@alias`` or ``name@version``; none: every model with an alias ``stable``."""
    backend: Annotated[str, AfterValidator(_backend)] = "onnxruntime"
    """What runs the models, or ``emulated:PROFILE``, which only takes as long as one would."""
    threads: int = Field(1, ge=1)
    """Cores that one model call may use. More helps large models only; each model takes as many."""
    warm_up_budget_ms: int = Field(1_000, ge=1)
    """How long to measure each model before the first caller; a large one takes longer."""
    max_deadline_ms: int = Field(60_000, ge=1, le=99_999_999)
    """The longest deadline that a caller can ask for; a longer one is cut to it."""
    queue_limit_rows: int = Field(4_096, ge=256)
    """Rows that may wait for one model, of texts for each length; what comes on top is refused with
    503. At least the largest batch, which could never fill up otherwise."""
    follow_aliases_ms: int = Field(1_000, ge=0)
    """Pause between two looks at where the aliases point; 0: only when the server starts."""
    load_limit_ms: int = Field(600_000, ge=1)
    """How long a version may take to be loaded, and after that to be warmed up, before it fails."""
    memory_limit_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """For the files of all loaded versions together; none: no limit."""
    drain_limit_ms: int = Field(25_000, ge=0)
    """How long a stop waits for requests in progress. Kubernetes kills after 30 s."""
    anonymous_predict: bool = False
    """Let anybody who reaches ``host`` predict, without a key; nothing else is opened by it."""
    hosts: tuple[HostName, ...] = ()
    """The only names, without a port, by which callers may address ``host``; none: any."""
    admin_hosts: tuple[HostName, ...] = ()
    """Names of the admin listener besides ``localhost`` and ``127.0.0.1``, without a port."""
    trace_stages: bool = False
    """Time each stage of each request for ``/metrics``; it costs some 3 µs a request."""
    compress_replies: bool = False
    """Compress predictions above 1 KiB for callers who accept gzip or deflate."""
    connection_limit: int = Field(2_048, ge=1)
    """Connections that callers may have open at once, idle ones too."""
    connection_limit_per_address: int = Field(512, ge=1)
    """The same of one address; raise it behind a proxy. Only uvicorn can tell."""
    tls_cert: Path | None = None
    """Certificate chain of the public listeners, PEM; with ``tls_key`` they speak TLS alone."""
    tls_key: Path | None = None
    """Private key of ``tls_cert``, PEM, without a passphrase."""
    tls_client_ca: Path | None = None
    """Authority that must have signed the certificate that each caller shows, PEM."""

    @field_validator("admin_port")
    @classmethod
    def _is_not_the_public_port(cls, admin_port: int, others: ValidationInfo) -> int:
        if admin_port == others.data.get("port"):
            raise ValueError("both listeners have this port; change it or serve.port")
        return admin_port

    @field_validator("grpc_port")
    @classmethod
    def _is_a_port_of_its_own(cls, grpc_port: int, others: ValidationInfo) -> int:
        for other in ("port", "admin_port"):
            if grpc_port == others.data.get(other):
                raise ValueError(f"serve.{other} has this port, too; change either, or 0: no gRPC")
        return grpc_port

    @property
    def memory_limit_bytes(self) -> int | None:
        """The only place where this setting changes unit."""
        return None if self.memory_limit_mb is None else int(self.memory_limit_mb * 1_000_000)
