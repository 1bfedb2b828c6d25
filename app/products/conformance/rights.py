"""Name the missing permission from a broker's error: a check that may not run is never a kept guarantee."""

from __future__ import annotations

from app.products.conformance.report import ConformanceFinding, not_checked

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
"""Kafka's error codes of authorization, with the checks' usual operation and resource."""


def refusal(code: int, reason: str, *, prefix: str, operation: str | None = None, what: str = "") -> ConformanceFinding:
    """Return not checked, with the missing permission or the broker's own reason.

    Args:
        operation: the requested operation, if it is not the usual one.
        `what`: the step, for a reason other than a missing permission.
    """
    if code not in _RESOURCES:
        return not_checked(f"{what}: {reason}" if what else reason)
    usual, resource = _RESOURCES[code]
    where = resource if code == CLUSTER else f"{resource} that begin with {prefix}"
    return not_checked(f"permission {operation or usual} on {where} is missing")
