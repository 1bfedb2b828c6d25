"""What the reconciler may do next: each a row that is written, an act on an application, or both in this order."""

from __future__ import annotations

from datetime import datetime

import msgspec

from app.core.runs.instance import Instance, InstanceOutcome, InstanceState


class LeaseAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Write the ordinal's next lease, at the revision that the run wants of it, after so many failures in a row."""

    ordinal: int
    reason: str | None
    failures: int = 0


class Submit(msgspec.Struct, frozen=True, kw_only=True):
    ordinal: int
    lease: int


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """Write a new state, or with the same state a new reason."""

    ordinal: int
    lease: int
    to: InstanceState
    reason: str | None


class MarkMissing(msgspec.Struct, frozen=True, kw_only=True):
    """Write since when it has been gone by all accounts; None: it is not."""

    ordinal: int
    lease: int
    since: datetime | None


class TakeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Write the outcome that the driver left on this host while no server heard it."""

    ordinal: int
    lease: int
    outcome: InstanceOutcome


class MarkHealthy(msgspec.Struct, frozen=True, kw_only=True):
    """Write that it was at work for a while: earlier failures count no more."""

    ordinal: int
    lease: int


class SignalDrain(msgspec.Struct, frozen=True, kw_only=True):
    """SIGTERM to the Python driver, once: it drains without any server."""

    ordinal: int
    lease: int
    reason: str


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """SIGKILL to driver and JVM. `reason` is None when it is sent again: it was told the first time."""

    ordinal: int
    lease: int
    reason: str | None


class FailRun(msgspec.Struct, frozen=True, kw_only=True):
    """Every ordinal ended with a permanent error."""

    reason: str


Action = LeaseAgain | Submit | Advance | MarkMissing | MarkHealthy | TakeOutcome | SignalDrain | Kill | FailRun


def advance(instance: Instance, to: InstanceState, reason: str | None) -> Advance:
    return Advance(ordinal=instance.ordinal, lease=instance.lease, to=to, reason=reason)


def mark_missing(instance: Instance, since: datetime) -> MarkMissing:
    return MarkMissing(ordinal=instance.ordinal, lease=instance.lease, since=since)


def not_missing(instance: Instance) -> list[Action]:
    if instance.missing_since is None:
        return []
    return [MarkMissing(ordinal=instance.ordinal, lease=instance.lease, since=None)]
