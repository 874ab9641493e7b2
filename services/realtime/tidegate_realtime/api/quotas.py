"""What tenants may ask of this process: looked at once a key is known, before a body is read."""

import math
from collections import defaultdict
from typing import Self

from tidegate.errors import RequestRejectedError
from tidegate.keys.access import Principal
from tidegate.units import ns_to_ms
from tidegate_realtime.core.quota import Allowance, Quota


class QuotaExceededError(RequestRejectedError):
    """The tenant has asked for more than its keys allow; never because of load."""

    code = "quota_exceeded"
    rows_per_second: float
    burst_rows: int
    retry_after_ms: int

    @classmethod
    def of(cls, quota: Quota, *, wait_ns: int) -> Self:
        """Describe one refusal; ``wait_ns`` is the exact time until a row is left."""
        retry_after_ms = max(1, math.ceil(ns_to_ms(wait_ns)))
        error = cls(
            f"The rows of this key's tenant are used up: {quota.rows_per_second:g} rows/s, and "
            f"{quota.burst_rows} at once. Ask again after {retry_after_ms} ms, or less often."
        )
        error.rows_per_second, error.burst_rows = quota.rows_per_second, quota.burst_rows
        error.retry_after_ms = retry_after_ms
        return error


class Quotas:
    """What each tenant has left here; as many as the file of keys has ever named."""

    def __init__(self) -> None:
        self._left: defaultdict[str, Allowance] = defaultdict(Allowance)

    def begin(self, principal: Principal, now_ns: int) -> None:
        """Let a request through, and take the one row that it has for sure.

        Raises:
            QuotaExceededError: Not even that is left.
        """
        quota = principal.quota
        if quota is None:
            return
        left = self._left[principal.tenant]
        wait_ns = left.wait_ns(quota, now_ns)
        if wait_ns:
            raise QuotaExceededError.of(quota, wait_ns=wait_ns)
        left.take(quota, 1, now_ns)

    def take_rest(self, principal: Principal, rows: int, now_ns: int) -> None:
        """Take the other rows of a request that was let through."""
        if principal.quota is not None:
            self._left[principal.tenant].take(principal.quota, rows - 1, now_ns)
