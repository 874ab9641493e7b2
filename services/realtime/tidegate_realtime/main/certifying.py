"""The files of TLS, looked at one by one: OpenSSL says what is wrong, but not with which."""

import ssl
from pathlib import Path
from typing import Final

from tidegate.errors import SettingError
from tidegate_realtime.api.servers.tls import Tls
from tidegate_realtime.settings import ServeSettings

_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = "PRIVATE KEY-----"
"""The end of the first line, whatever kind of key it is."""
_ENCRYPTED: Final = (b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED")
_DER: Final = b"\x30"
"""The first byte of the binary form, of certificates and keys alike."""


def open_tls(serve: ServeSettings) -> Tls | None:
    """Check the certificate, its key and the authority of the callers' certificates.

    Raises:
        SettingError: They are incomplete, cannot be read, or do not belong together; with the
            setting, the file and what to do.
    """
    if serve.tls_cert is None or serve.tls_key is None:
        if serve.tls_cert or serve.tls_key or serve.tls_client_ca:
            raise SettingError(
                "TLS needs both serve.tls_cert and serve.tls_key; serve.tls_client_ca adds to them"
            )
        return None
    _check_certificate("serve.tls_cert", serve.tls_cert)
    _check_key(serve.tls_key)
    if serve.tls_client_ca is not None:
        _check_certificate("serve.tls_client_ca", serve.tls_client_ca)
    tls = Tls(cert=serve.tls_cert, key=serve.tls_key, client_ca=serve.tls_client_ca)
    try:
        tls.context()
    except (OSError, ssl.SSLError) as error:
        raise SettingError(_why_not_together(tls, error)) from error
    return tls


def _check_certificate(setting: str, file: Path) -> None:
    content = _read(setting, file)
    if _CERTIFICATE in content:
        return
    if content.startswith(_DER):
        raise SettingError(
            f"{setting}: {file} is in the binary form (DER); write it as PEM: openssl x509 "
            f"-inform DER -in {file} -out {file.stem}.pem"
        )
    raise SettingError(
        f"{setting}: {file} holds no certificate: PEM has a line {_CERTIFICATE.decode()}"
    )


def _check_key(file: Path) -> None:
    content = _read("serve.tls_key", file)
    if any(mark in content for mark in _ENCRYPTED):
        raise SettingError(
            f"serve.tls_key: {file} is encrypted, and nobody types its passphrase at the start; "
            f"write it without one: openssl pkey -in {file} -out {file.stem}-plain.key"
        )
    if content.startswith(_DER):
        raise SettingError(
            f"serve.tls_key: {file} is in the binary form (DER); write it as PEM: openssl pkey "
            f"-inform DER -in {file} -out {file.stem}.pem"
        )
    if _KEY.encode() not in content:
        raise SettingError(
            f"serve.tls_key: {file} holds no private key: PEM has a line -----BEGIN {_KEY}"
        )


def _read(setting: str, file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingError(
            f"{setting}: {file} cannot be read: {error.strerror}. Name a PEM file that this user "
            "may read"
        ) from error


def _why_not_together(tls: Tls, error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    if reason == "KEY_VALUES_MISMATCH":
        return (
            f"serve.tls_key: {tls.key} is not the key of the first certificate in {tls.cert}, "
            "which must be this server's own. These two must print the same: openssl x509 -noout "
            f"-pubkey -in {tls.cert}; openssl pkey -pubout -in {tls.key}"
        )
    files = ", ".join(
        f"serve.tls_{field} = {file}" for field, file in zip(tls._fields, tls, strict=True) if file
    )
    said = reason.lower().replace("_", " ")
    return f"TLS cannot be set up with {files}: {said}. Is one of them damaged or cut short?"
