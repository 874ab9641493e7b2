"""What tenants may ask of this process.

It is looked at before a body is read, and again once its rows are known: others of the tenant may
have used them up meanwhile. So what is refused before that costs no rows.
"""

import math
from collections import defaultdict
from typing import Self

from tidegate.errors import RequestRejectedError
from tidegate.keys.access import Principal
from tidegate.units import ns_to_ms
from tidegate_realtime.core.quota import Allowance, Quota


class QuotaExceededError(RequestRejectedError):
    """The tenant has asked for more than its keys allow, whatever the load is."""

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

    def check(self, principal: Principal, now_ns: int) -> None:
        """Let a request through to its body.

        Raises:
            QuotaExceededError: Not even one row is left.
        """
        quota = principal.quota
        if quota is not None:
            wait_ns = self._left[principal.tenant].wait_ns(quota, now_ns)
            if wait_ns:
                raise QuotaExceededError.of(quota, wait_ns=wait_ns)

    def take(self, principal: Principal, rows: int, now_ns: int) -> None:
        """Take all rows of a request, in advance where one is left and no more.

        Raises:
            QuotaExceededError: Others have used them up meanwhile.
        """
        quota = principal.quota
        if quota is not None:
            self.check(principal, now_ns)
            self._left[principal.tenant].take(quota, rows, now_ns)
