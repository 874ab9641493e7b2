"""The driver's lease, as seen from outside."""

from tidegate_batch.core.lease import LEASE_NS, RENEW_NS, LeaseWatch


def test_a_lease_expires_when_its_revision_stands_still_on_the_observers_own_clock() -> None:
    watch = LeaseWatch(revision=7, since_ns=1_000)
    assert not watch.observe(7, 1_000 + LEASE_NS - 1).is_expired(1_000 + LEASE_NS - 1)
    assert watch.observe(7, 1_000 + LEASE_NS).is_expired(1_000 + LEASE_NS)


def test_a_renewal_starts_the_lease_anew() -> None:
    watch = LeaseWatch(revision=7, since_ns=0).observe(8, LEASE_NS - 1)
    assert not watch.is_expired(2 * LEASE_NS - 2)
    assert watch.is_expired(2 * LEASE_NS - 1)


def test_two_lost_renewals_do_not_end_a_lease() -> None:
    assert 2 * RENEW_NS < LEASE_NS
