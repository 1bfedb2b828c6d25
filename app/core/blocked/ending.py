"""Plan the end of a transaction by hand: the change, the losses, and the objections.

A fence (InitProducerId with the id) goes through the coordinator: it aborts the open transaction everywhere and fences
the current producer. An end (WriteTxnMarkers) writes an abort marker into one partition, without the coordinator. If
the coordinator still knows the transaction, an end would tear it apart. It would be aborted here and committed
elsewhere by its producer, and no broker refuses that.
"""

from __future__ import annotations

import msgspec

from app.core.blocked.advice import Asked, is_alive
from app.core.blocked.diagnosis import UNSEEN, first_open, is_hanging
from app.core.blocked.facts import ONGOING, KnownTransaction, OpenTransaction, PartitionFacts, Refused, with_age
from app.core.blocked.left_out import ADVICE, may_be_committed
from app.core.blocked.wording import abort_line, clock, describe_line, terminate_line
from app.kit.words import count, duration

_JUST_BEGUN_MS = 10_000
"""A foreign producer sends no heartbeats. So a transaction as young as this counts as one of a live producer."""


class EndingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A planned change. objections: without `force` it is refused for them. impossible: it is refused in any case.

    known: the coordinator's answer about the affected producer, if it knows it.
    """

    what: str
    losses: tuple[str, ...] = ()
    objections: tuple[str, ...] = ()
    impossible: str | None = None
    command: str = ""
    known: KnownTransaction | None = None

    def refusal(self, *, force: bool) -> str | None:
        """Return the reason for a refusal; None if the change is allowed."""
        if self.impossible is not None:
            return self.impossible
        return None if force or not self.objections else "; ".join(self.objections)


class EndPlan(EndingPlan, frozen=True, kw_only=True):
    """`target` is the transaction of the marker. It is read again before the change and must be the same."""

    target: OpenTransaction | None = None


def plan_fence(transactional_id: str, known: KnownTransaction | Refused | None, asked: Asked) -> EndingPlan:
    """Plan a fence of an id.

    Args:
        known: its coordinator's answer; None if the id does not exist, where an InitProducerId would create it.
    """
    what = f"fence {transactional_id}: abort its open transaction, and refuse the producer that uses it now"
    if isinstance(known, Refused):
        return EndingPlan(what=what, impossible=f"its state is not known: {known.sentence}")
    if known is None:
        return EndingPlan(
            what=what, impossible=f"the transactional id {transactional_id} does not exist on this cluster"
        )
    known = with_age(known, asked.clocks, now_ms=asked.now_ms)
    command = terminate_line(transactional_id, asked.bootstrap_servers)
    who = f"producer {known.producer_id} epoch {known.producer_epoch}"
    if known.is_open and known.state != ONGOING:
        return EndingPlan(
            what=what,
            impossible=f"the outcome of its transaction is decided ({known.state}); its coordinator, broker "
            f"{known.coordinator_id}, still writes the markers, and fencing does not speed that up",
            command=describe_line(known, asked.bootstrap_servers),
        )
    losses = [f"{who} is fenced: its process fails, and starts again only if a user or a manager restarts it"]
    if known.state == ONGOING:
        losses.insert(
            0,
            f"its records{_since(known, asked.now_ms)} in {count(len(known.partitions), 'partition')} are "
            f"aborted: {_named(known)}",
        )
    objections = tuple(_fence_objections(known, asked))
    return EndingPlan(what=what, losses=tuple(losses), objections=objections, command=command, known=known)


def _fence_objections(known: KnownTransaction, asked: Asked) -> list[str]:
    if is_alive(asked, known.transactional_id):
        return [f"its owner, {(asked.owners or {})[known.transactional_id].name}, is alive: drain its run instead"]
    if known.state != ONGOING:
        return [f"it has no open transaction ({known.state}), so it blocks no consumer"]
    age = known.age
    if age is None:
        unmeasured = (
            f"its age is not known, because the clock of broker {known.coordinator_id} is not "
            "measured: a live producer may have begun it just now"
        )
        return [unmeasured]
    if age.least_ms < _JUST_BEGUN_MS:
        return [f"its transaction began {duration(age.least_ms)} ago, so its producer may be alive"]
    return []


def _since(known: KnownTransaction, now_ms: int) -> str:
    return "" if known.age is None else f" since {clock(now_ms - known.age.least_ms)}"


def plan_end(facts: PartitionFacts, start_offset: int | None, asked: Asked) -> EndPlan:
    """Plan the end of an open transaction in this partition.

    Args:
        start_offset: the first offset of the transaction; None for the one that blocks consumers.
    """
    where = facts.name
    what = f"write an abort marker into {where}"
    if isinstance(facts.ends, Refused):
        return EndPlan(what=what, impossible=facts.ends.sentence)
    if isinstance(facts.open, Refused):
        return EndPlan(what=what, impossible=facts.open.sentence)
    target = (
        first_open(facts)
        if start_offset is None
        else next((one for one in facts.open if one.start_offset == start_offset), None)
    )
    if target is None or target.identity not in facts.still_open:
        at = "" if start_offset is None else f" that begins at offset {start_offset:,}"
        return EndPlan(what=what, impossible=f"no transaction{at} is open in {where}")
    return EndPlan(
        what=f"{what} for producer {target.producer_id} epoch {target.producer_epoch}, coordinator epoch "
        f"{marker_epoch(target)}, whose transaction begins there at offset {target.start_offset:,}",
        losses=(_loss(facts, target),),
        objections=tuple(_end_objections(facts, target, asked)),
        command=abort_line(facts.topic, facts.partition, target.start_offset, asked.bootstrap_servers),
        target=target,
        known=facts.coordinators.known.get(target.producer_id),
    )


def marker_epoch(target: OpenTransaction) -> int:
    """Return the coordinator epoch of the marker. A producer without a marker there has -1, which brokers refuse; 0 is
    never newer than another (as in Kafka's own tool).
    """
    return max(0, target.coordinator_epoch)


def _end_objections(facts: PartitionFacts, target: OpenTransaction, asked: Asked) -> list[str]:
    known = facts.coordinators.known.get(target.producer_id)
    objections = [one.sentence for one in facts.coordinators.unanswered]
    if known is not None and is_alive(asked, known.transactional_id):
        objections.append(f"its owner, {(asked.owners or {})[known.transactional_id].name}, is alive")
    if known is not None and not is_hanging(facts, target):
        objections.append(
            f"its coordinator knows it as {known.transactional_id}, {known.state}: fence that id instead, since a "
            "marker in one partition would abort it here while it may commit elsewhere"
        )
    if known is not None and is_hanging(facts, target) and may_be_committed(target, known):
        objections.append(
            f"it may be committed ({known.transactional_id} is {known.state} at epoch {known.producer_epoch}). {ADVICE}"
        )
    if known is None and not facts.coordinators.is_corroborated:
        objections.append("no coordinator knows its transactional id." + UNSEEN)
    return objections


def _loss(facts: PartitionFacts, target: OpenTransaction) -> str:
    waiting = facts.waiting
    if waiting is None:
        return f"its records in {facts.name} from offset {target.start_offset:,} on are aborted"
    more = "" if waiting.is_whole else "more than "
    return (
        f"its records in {facts.name} from offset {target.start_offset:,} on are aborted: of "
        f"{more}{count(waiting.records + waiting.undecided, 'blocked record')} there, those of producer "
        f"{target.producer_id}"
    )


def _named(known: KnownTransaction) -> str:
    names = sorted(f"{topic}-{number}" for topic, number in known.partitions)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more
