"""Whether there is a gRPC listener, and whether it can be: asked before anything is loaded."""

from importlib.util import find_spec
from typing import Final

from tidegate.errors import SettingError
from tidegate_realtime.api.servers.sockets import check_free

_LIBRARIES: Final = ("grpc", "google.protobuf")


def check_grpc(host: str, port: int) -> None:
    """Refuse a gRPC listener that could not start; with port 0 there is to be none.

    Raises:
        SettingError: Its libraries are not installed, or the port is taken.
    """
    if port == 0:
        return
    if not _is_installed():
        raise SettingError(
            "the gRPC listener needs grpcio and protobuf: pip install 'tidegate[realtime]', or "
            "serve HTTP alone with --grpc-port 0."
        )
    check_free(host, port)


def _is_installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in _LIBRARIES)
    except ModuleNotFoundError:  # not even the package that the module would be in
        return False
