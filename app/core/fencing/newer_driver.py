"""Decide which driver of a query initialised its id: a newer one, the same one for a newer attempt, or a zombie.

The journal has no sender of InitProducerId. Two facts show it for a pipeline of kind `dataframe`:
  the leases            a driver claims its lease at the server before it touches Kafka
  the group's journal   a driver joins the group as the static member `<pipeline>-driver` before it initialises the ids;
                        a writer initialises the id again without that
So a lease that was claimed while the victim's transaction was open shows a newer driver. Without such a lease and
without a new member, only a writer of the same driver is left. Spark repeats a task after the loss of its executor. A
new member without a lease is a driver outside Fenceline, for which this module has no answer.
Source: workers/dataframes, Run.java and Producers.java.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.core.fencing.evidence import Evidence, LeaseWord, MemberRecord
from app.core.fencing.fencing_event import FencingCause
from app.core.journals.live_transactions import RecordedState
from app.kit.words import duration

ZOMBIE_MS = 120_000
"""A driver whose lease has ended may live on for a while, and its writers may still initialise ids."""

CLOCK_MS = 1_000
"""The group's coordinator and the id's may be two brokers, whose clocks are measured within this."""


class DriverTaker(msgspec.Struct, frozen=True, kw_only=True):
    """cause: NEWER_DRIVER or NEWER_ATTEMPT; TAKEOVER if an older driver may be it, too. sentence: with a full stop."""

    cause: FencingCause
    sentence: str


def driver_taker_of(
    evidence: Sequence[Evidence], *, own: RecordedState | None, init: RecordedState | None
) -> DriverTaker | None:
    """Return the driver that sent the init; None for other pipelines, or if it is not shown.

    own: the victim's last record. init: the answer to its successor.
    """
    leases = sorted((one for one in evidence if isinstance(one, LeaseWord)), key=lambda one: one.place)
    if own is None or init is None or not leases:
        return None
    begun_ms = own.start_ms if own.start_ms >= 0 else own.timestamp_ms
    older = [one for one in leases if one.at_ms <= begun_ms]
    newer = [one for one in leases if begun_ms < one.at_ms <= init.timestamp_ms]
    joined = [
        one
        for one in evidence
        if isinstance(one, MemberRecord)
        and not one.has_left
        and begun_ms - CLOCK_MS < one.at_ms <= init.timestamp_ms + CLOCK_MS
    ]
    if newer:
        return _newer_driver(newer[-1], older, joined, init)
    if not older or joined:
        return None
    *before, last = older
    if last.ended_ms is not None and last.ended_ms <= init.timestamp_ms:
        return None
    zombie = next(
        (one for one in reversed(before) if one.ended_ms is None or init.timestamp_ms - one.ended_ms <= ZOMBIE_MS), None
    )
    if zombie is not None:
        return _older_driver_or_attempt(zombie, last, init)
    sentence = (
        f"A newer attempt took the id: a writer of {last.who}. Since the transaction began, no other driver of "
        f"{last.pipeline} had claimed a lease or joined its group."
    )
    return DriverTaker(cause=FencingCause.NEWER_ATTEMPT, sentence=sentence)


def _older_driver_or_attempt(zombie: LeaseWord, last: LeaseWord, init: RecordedState) -> DriverTaker:
    """A driver that thaws after its end may initialise ids until the group refuses it. The journal has no sender."""
    ended = "had not ended" if zombie.ended_ms is None else f"had ended {_before(zombie.ended_ms, init)}"
    sentence = (
        f"{zombie.who[0].upper()}{zombie.who[1:]} may have taken the id, though its lease {ended}, or a newer attempt "
        f"of {last.who}."
    )
    return DriverTaker(cause=FencingCause.TAKEOVER, sentence=sentence)


def _before(ended_ms: int, init: RecordedState) -> str:
    return f"{duration(max(0, init.timestamp_ms - ended_ms))} before"


def _newer_driver(
    taker: LeaseWord, older: Sequence[LeaseWord], joined: Sequence[MemberRecord], init: RecordedState
) -> DriverTaker:
    since = duration(init.timestamp_ms - taker.at_ms)
    older_one = ""
    if older:
        run = " of an earlier run" if older[-1].run_id != taker.run_id else ""
        older_one = f"; the older one had lease {older[-1].lease}{run}"
    sentence = f"A newer driver took pipeline {taker.pipeline}: {taker.who}, claimed {since} before{older_one}."
    member = next((one for one in reversed(joined) if one.instance_id and one.at_ms >= taker.at_ms - CLOCK_MS), None)
    if member is not None:
        sentence += f" It joined group {member.group} as static member {member.instance_id}."
    return DriverTaker(cause=FencingCause.NEWER_DRIVER, sentence=sentence)
