"""Stores and gateways for contract tests."""

from tests.fixtures.gateways import gateway, http_store
from tests.fixtures.stores import (
    aws_stays_outside,
    local_url,
    moto_environment,
    moto_url,
    s3_url,
    store_url,
    versitygw_environment,
    versitygw_url,
)

__all__ = [
    "aws_stays_outside",
    "gateway",
    "http_store",
    "local_url",
    "moto_environment",
    "moto_url",
    "s3_url",
    "store_url",
    "versitygw_environment",
    "versitygw_url",
]
