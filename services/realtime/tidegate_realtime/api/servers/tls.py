"""The files of a listener that speaks TLS."""

import ssl
from pathlib import Path
from typing import NamedTuple


class Tls(NamedTuple):
    """PEM files; both servers read them themselves, once."""

    cert: Path
    """Of this server, and those that lead from it to the root."""
    key: Path
    """Of ``cert``, without a passphrase."""
    client_ca: Path | None
    """Who must have signed the certificate that a caller shows; ``None``: none is asked for."""

    def context(self) -> ssl.SSLContext:
        """Return what the standard library makes of them: TLS 1.2 and later.

        Raises:
            OSError: A file cannot be read, or is not what it must be (``ssl.SSLError``).
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # With no passphrase at all OpenSSL would ask for one at the terminal.
        context.load_cert_chain(self.cert, self.key, password="")
        if self.client_ca is not None:
            context.load_verify_locations(self.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context
