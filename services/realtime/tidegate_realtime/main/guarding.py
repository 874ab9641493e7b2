"""Who may reach a listener, and who may do what there: decided before anything listens."""

from pathlib import Path
from typing import Final

from tidegate.clock.system import SystemClock
from tidegate.errors import SettingError
from tidegate.keys.access import Access
from tidegate.keys.key import Scope
from tidegate.keys.ring import Keyring
from tidegate.observability import get_logger
from tidegate_realtime.api.policy import Policy
from tidegate_realtime.api.servers.connections import ConnectionLimits
from tidegate_realtime.api.servers.sockets import is_loopback
from tidegate_realtime.runtime.reading import Readers
from tidegate_realtime.settings import ServeSettings

log: Final = get_logger(__name__)


def open_keys(file: Path | None) -> Keyring | None:
    """Read the keys, if there are to be any; blocks.

    Raises:
        KeyFileError: The file that was named is none.
    """
    return None if file is None else Keyring(file, SystemClock())


def build_policy(serve: ServeSettings, keys: Keyring | None, *, cores: int = 1) -> Policy:
    """Say whom the listeners answer, and how.

    Texts and images are decoded on half of the cores: what is promised of model calls was measured
    while nobody decoded, and more threads at it would only make the calls late.
    """
    anonymous = {Scope.PREDICT} if serve.anonymous_predict else set()
    return Policy(
        access=Access(keys, anonymous=anonymous),
        hosts=frozenset(name.lower() for name in serve.hosts),
        admin_hosts=frozenset(name.lower() for name in serve.admin_hosts),
        compresses_replies=serve.compress_replies,
        traces_stages=serve.trace_stages,
        readers=Readers.of_threads(max(1, cores // 2)),
    )


def check_reach(host: str, serve: ServeSettings, keys: Keyring | None) -> None:
    """Refuse to be reached from outside this machine unless it is said who may ask.

    Raises:
        SettingError: There are no keys, and nobody said that none are needed.
    """
    if is_loopback(host):
        return
    if keys is None and not serve.anonymous_predict:
        raise SettingError(
            f"{host} can be reached from outside this machine, and there are no keys: whoever "
            "reaches it could use every model. Make one (tidegate keys create --file keys.json "
            "--scope predict --tenant NAME) and add --keys-file keys.json; or add "
            "--anonymous-predict if anybody may ask; or stay on 127.0.0.1 behind a proxy that asks "
            "for credentials."
        )
    if serve.anonymous_predict:
        log.warning("open_to_anybody", host=host, port=serve.port, scope="predict")
    elif serve.tls_cert is None:
        log.warning("keys_without_tls", host=host, port=serve.port)


def connection_limits(serve: ServeSettings) -> ConnectionLimits:
    """Say how many connections each listener may have."""
    return ConnectionLimits(
        all=serve.connection_limit, per_address=serve.connection_limit_per_address
    )
