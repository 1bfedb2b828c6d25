"""Which right is missing, by what a broker refuses: a check that may not be made is never taken for a promise kept."""

from __future__ import annotations

from app.products.conformance.report import Finding, not_checked

TOPIC = 29
GROUP = 30
CLUSTER = 31
TRANSACTIONAL_ID = 53
_RESOURCES = {
    TOPIC: ("Write", "topics"),
    GROUP: ("Read", "groups"),
    CLUSTER: ("IdempotentWrite", "the cluster"),
    TRANSACTIONAL_ID: ("Write", "transactional ids"),
}
"""Kafka's error codes of authorization: what the checks do there unless they say otherwise."""


def refusal(code: int, reason: str, *, prefix: str, operation: str | None = None, what: str = "") -> Finding:
    """Not checked, for want of a right or for the broker's own reason.

    Args:
        operation: what was asked for, where it is not what the checks do there most of the time.
        what: what was being done, for a reason that is no missing right.
    """
    if code not in _RESOURCES:
        return not_checked(f"{what}: {reason}" if what else reason)
    usual, resource = _RESOURCES[code]
    where = resource if code == CLUSTER else f"{resource} that begin with {prefix}"
    return not_checked(f"right {operation or usual} on {where} is missing")
