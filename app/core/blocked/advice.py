"""Recommend an action for an open transaction that its coordinator knows: wait, check its owner, or fence its id.

Its age comes from its coordinator's clock. While that clock is not measured, no irreversible action is recommended.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from app.core.blocked.facts import ONGOING, KnownTransaction, TaskOwner
from app.core.blocked.wording import clock
from app.core.clocks.clock_offset import ClockOffset
from app.core.clusters.partition import Partition
from app.core.lag.report import PartitionLag
from app.kit.words import count, duration

WAIT_AT_MOST_MS = 60_000
"""Wait for a transaction that ends by itself within this time."""
# Kafka checks for timed-out transactions every 10 s (transaction.abort.timed.out.transaction.cleanup.interval.ms).
_OVERDUE_MS = 20_000
_HEARTBEAT_FRESH_MS = 5_000


class AdviceVerdict(StrEnum):
    """The recommended action, worst first.

    UNSETTLED: a transaction ended between the brokers' answers, so that the check must be repeated. FREE: nothing is
    blocked.
    """

    END = "end"
    FENCE = "fence"
    OWNER = "look at its owner"
    WAIT = "wait"
    NO_MEMBERS = "no members"
    BEHIND = "consumer is behind"
    CANNOT_TELL = "cannot tell"
    UNSETTLED = "unsettled"
    ONLY_MARKERS = "only markers"
    FREE = "free"

    @property
    def label(self) -> str:
        """The state that people read; the values are part of REST."""
        return _LABELS.get(self, self.value)


_LABELS = {
    AdviceVerdict.END: "hanging",
    AdviceVerdict.FENCE: "blocked by an open transaction",
    AdviceVerdict.OWNER: "blocked, owner alive",
    AdviceVerdict.WAIT: "blocked, ends by itself",
    AdviceVerdict.BEHIND: "readable lag",
    AdviceVerdict.CANNOT_TELL: "cannot be verified",
    AdviceVerdict.UNSETTLED: "changed during the check",
    AdviceVerdict.FREE: "not blocked",
}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a check.

    owners: the Fenceline tasks among the owners, by transactional id; None without a server. clocks: by broker, as the
    server measured them. lag: of the group in question, as the server's samples show it.
    """

    bootstrap_servers: str
    now_ms: int
    owners: Mapping[str, TaskOwner] | None = None
    clocks: Mapping[int, ClockOffset] = {}
    lag: Mapping[Partition, PartitionLag] = {}


def advice_on(known: KnownTransaction, asked: Asked) -> tuple[AdviceVerdict, str]:
    if not known.has_timeout:
        decided = (
            f"Its outcome is decided ({known.state}) and its markers are being written: wait. If that does not end, "
            f"check the logs of its coordinator, broker {known.coordinator_id}, and of the partition's leader. Fencing "
            "would not help."
        )
        return AdviceVerdict.WAIT, decided
    age, until_ms = known.age, known.times_out_at_ms(asked.now_ms)
    if is_alive(asked, known.transactional_id):
        until = "it ends" if until_ms is None else clock(until_ms)
        return (
            AdviceVerdict.OWNER,
            f"Its owner is alive. Wait until {until}, or drain its run. It would start again after a fence.",
        )
    if age is None or until_ms is None:
        return _without_its_age(known, asked)
    overdue_ms = age.least_ms - known.timeout_ms
    if overdue_ms > _OVERDUE_MS:
        overdue = (
            f"Its coordinator, broker {known.coordinator_id}, should have ended it {duration(overdue_ms)} ago by its "
            "own clock"
        )
        return AdviceVerdict.FENCE, f"{overdue}. Check that broker, and fence the id."
    if known.timeout_ms - age.most_ms <= WAIT_AT_MOST_MS:
        left_ms = known.timeout_ms - age.least_ms
        when = f"in {duration(left_ms)}, at {clock(until_ms)}" if left_ms > 0 else "with its coordinator's next check"
        return AdviceVerdict.WAIT, f"It ends by itself {when}. No action is required."
    late = f"It would end by itself only at {clock(until_ms)}, in {duration(known.timeout_ms - age.most_ms)}"
    return AdviceVerdict.FENCE, f"{late}. If the process is dead, fence the id. If it is alive, fix it first."


def _without_its_age(known: KnownTransaction, asked: Asked) -> tuple[AdviceVerdict, str]:
    """The time left is at most the timeout at any age: the same clock measures both."""
    look_again = clock(asked.now_ms + known.timeout_ms + _OVERDUE_MS)
    how = (
        f"Its age is not known, because the clock of broker {known.coordinator_id} is not measured. It ends by "
        f"itself within {duration(known.timeout_ms)}. If it is still open at {look_again}, check that broker."
    )
    return AdviceVerdict.WAIT if known.timeout_ms <= WAIT_AT_MOST_MS else AdviceVerdict.CANNOT_TELL, how


def known_sentence(known: KnownTransaction, now_ms: int) -> str:
    """Return the coordinator's description of the transaction, as a continuation with "which"."""
    age, until_ms = known.age, known.times_out_at_ms(now_ms)
    for_how_long = f" for {duration(age.least_ms)}" if age is not None else ""
    if age is None and known.start_ms >= 0:
        for_how_long = f" since {clock(known.start_ms)} by broker {known.coordinator_id}'s clock, which is not measured"
    ends = f": it ends at {clock(until_ms)}" if until_ms is not None else ""
    timeout = f", timeout {duration(known.timeout_ms)}{ends}" if known.has_timeout else ""
    state = "ongoing" if known.state == ONGOING else known.state
    return (
        f"which is {known.transactional_id}, {state}{for_how_long}, in {count(len(known.partitions), 'partition')}"
        f"{timeout}"
    )


def is_alive(asked: Asked, transactional_id: str) -> bool:
    """Return True if a Fenceline task owns the id and has sent a heartbeat in the last 5 s."""
    owner = (asked.owners or {}).get(transactional_id)
    return (
        owner is not None
        and owner.heartbeat_ms is not None
        and asked.now_ms - owner.heartbeat_ms <= _HEARTBEAT_FRESH_MS
    )
