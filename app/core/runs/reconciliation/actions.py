"""The actions of the reconciler: each writes a row, acts on an application, or does both in this order."""

from __future__ import annotations

from datetime import datetime

import msgspec

from app.core.runs.instance import Instance, InstanceOutcome, InstanceState


class LeaseAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Write the ordinal's next lease, at its desired revision, after so many failures in a row."""

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
    """Write since when it has been gone by all facts; None: it is not."""

    ordinal: int
    lease: int
    since: datetime | None


class TakeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Write the outcome that the driver left on this host while no server received it."""

    ordinal: int
    lease: int
    outcome: InstanceOutcome


class MarkHealthy(msgspec.Struct, frozen=True, kw_only=True):
    """Write that it has run for a while, which resets its failures."""

    ordinal: int
    lease: int


class SignalDrain(msgspec.Struct, frozen=True, kw_only=True):
    """SIGTERM to the Python driver, once: it drains without any server."""

    ordinal: int
    lease: int
    reason: str


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """SIGKILL to driver and JVM. `reason` is None if it is sent again: the first time has recorded it."""

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
