"""From settings to a running loop: everything that can be refused before a model is loaded."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.artifacts.store import ArtifactStore
from tidegate.cli.exits import ExitCode
from tidegate.errors import ModelNotFoundError
from tidegate.ids import DEFAULT_ALIAS, ModelRef
from tidegate.keys.ring import Keyring
from tidegate.objects.opening import open_existing_store
from tidegate.observability import configure_logging, get_logger
from tidegate.settings import Settings, load_settings
from tidegate_realtime.api.servers.sockets import check_free, numeric_host
from tidegate_realtime.api.servers.tls import Tls
from tidegate_realtime.main.certifying import open_tls
from tidegate_realtime.main.cores import check_threads, count_cores
from tidegate_realtime.main.grpc import check_grpc
from tidegate_realtime.main.guarding import check_reach, open_keys
from tidegate_realtime.settings import ServeSettings

log: Final = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be served, and how; checked as far as it can be without loading a model."""

    settings: Settings
    serve: ServeSettings
    host: str
    """Numeric."""
    store: ArtifactStore
    models: tuple[ModelRef, ...]
    keys: Keyring | None
    """What callers and operators show; ``None``: nobody is asked."""
    tls: Tls | None
    """Of the public listeners; ``None``: they speak plain HTTP."""

    @property
    def public_url(self) -> str:
        """Where somebody on this machine reaches the public listener."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{self._reachable_host}:{self.serve.port}"

    @property
    def grpc_target(self) -> str | None:
        """What somebody on this machine connects a gRPC channel to."""
        port = self.serve.grpc_port
        return f"{self._reachable_host}:{port}" if port else None

    @property
    def _reachable_host(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"[{host}]" if ":" in host else host


def start(*, config: Path | None, flags: Mapping[str, object], slo_ms: float | None) -> ExitCode:
    """Serve until a signal ends it.

    Raises:
        SettingError: Something that was asked for cannot be started.
        ArtifactError: A model cannot be loaded.
        PartUnavailableError: The store does not answer.
    """
    configure_logging()
    plan = make_plan(config=config, flags=flags, slo_ms=slo_ms)
    from tidegate_realtime.main.gateway import run_gateway  # after what may refuse

    with asyncio.Runner(loop_factory=_loop_factory(plan.serve.server)) as runner:
        return runner.run(run_gateway(plan))


def make_plan(*, config: Path | None, flags: Mapping[str, object], slo_ms: float | None) -> Plan:
    """Read the settings, and refuse what cannot be meant.

    Args:
        config: The file that was named.
        flags: As typed, by dotted key.
        slo_ms: As typed; it beats what the file says of any served model.
    """
    settings = load_settings(config=config, flags=flags)
    serve = settings.section(ServeSettings)
    check_threads(serve.threads, cores=count_cores())
    host = numeric_host(serve.host)
    keys = open_keys(settings.base.keys_file)
    check_reach(host, serve, keys)
    tls = open_tls(serve)
    check_free(host, serve.port)
    check_grpc(host, serve.grpc_port)
    store = ArtifactStore(open_existing_store(settings.store))
    models = _models(serve, store)
    if slo_ms is not None:
        objectives = {f"models.{ref.name}.slo_ms": slo_ms for ref in models}
        settings = load_settings(config=config, flags={**flags, **objectives})
    return Plan(
        settings=settings, serve=serve, host=host, store=store, models=models, keys=keys, tls=tls
    )


def _models(serve: ServeSettings, store: ArtifactStore) -> tuple[ModelRef, ...]:
    if serve.models:
        return tuple(map(ModelRef.parse, dict.fromkeys(serve.models)))
    found = tuple(
        ModelRef(name, DEFAULT_ALIAS)
        for name in store.names()
        if DEFAULT_ALIAS in store.aliases(name).aliases
    )
    if not found:
        raise ModelNotFoundError(
            f"no model in {store.objects.url} has an alias '{DEFAULT_ALIAS}', and --model names "
            "none. Publish one: tidegate model publish NAME FILE.onnx --alias stable"
        )
    return found


def _loop_factory(server: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if server == "granian":
        from tidegate_realtime.api.servers.granian import check_loop  # only if asked for

        check_loop()
    try:
        import uvloop  # an extra
    except ModuleNotFoundError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
