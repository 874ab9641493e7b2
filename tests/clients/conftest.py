"""One gateway for all client libraries, which run in environments and processes of their own."""

from tests.fixtures.clients import client_gateway, client_store

__all__ = ["client_gateway", "client_store"]
