"""Addresses to listen on: are they free, and whom do they let in?"""

import errno
import ipaddress
import socket
from typing import Final

from tidegate.errors import SettingError

_LOCALHOST: Final = "localhost"


def numeric_host(host: str) -> str:
    """Return the address to bind; a name other than ``localhost`` could mean several.

    Raises:
        SettingError: It is neither.
    """
    if host == _LOCALHOST:
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError as error:
        raise SettingError(
            f"--host {host!r} is no address; give one of this machine, such as 127.0.0.1, or "
            "0.0.0.0 for all of them."
        ) from error


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach an address."""
    return ipaddress.ip_address(host).is_loopback


def claim(host: str, port: int) -> socket.socket:
    """Bind an address that nobody else listens on, and do not listen yet.

    Raises:
        SettingError: Somebody does, or the address is none of this machine's, or may not be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    claimed = socket.socket(family, socket.SOCK_STREAM)
    try:
        claimed.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past TIME_WAIT, no more
        claimed.bind((host, port))
    except OSError as error:
        claimed.close()
        raise SettingError(_why_not(host, port, error)) from error
    return claimed


def check_free(host: str, port: int) -> None:
    """Refuse an address that is taken.

    granian always sets SO_REUSEPORT: a second one on the same port would start without a word and
    take part of the traffic.

    Raises:
        SettingError: As ``claim`` does.
    """
    claim(host, port).close()


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is taken by another process: stop that one, or choose another with "
            "--port, --grpc-port or --admin-port."
        )
    return f"cannot listen on {host} port {port}: {error.strerror}"
