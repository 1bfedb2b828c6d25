"""Before a transaction is ended by hand: what would be done, what would be lost, and what speaks against it.

Fencing (InitProducerId with the id) is the coordinator's own way: the open transaction is aborted everywhere, and
whoever uses the id is refused from then on. Ending (WriteTxnMarkers) writes an abort marker into one partition past
the coordinator. On a transaction that the coordinator still knows it would tear that apart: aborted here, and
committed elsewhere when its producer commits, which nobody refuses.
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
"""A foreign producer sends no heartbeats to us: a transaction as young as this is taken as one of a living one."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done. objections: without `force` it is refused for them. impossible: it is refused in any case.

    known: what the coordinator says of the producer that it is done to, if it knows it.
    """

    what: str
    losses: tuple[str, ...] = ()
    objections: tuple[str, ...] = ()
    impossible: str | None = None
    command: str = ""
    known: KnownTransaction | None = None

    def refusal(self, *, force: bool) -> str | None:
        """Why it is not done; None if it may be."""
        if self.impossible is not None:
            return self.impossible
        return None if force or not self.objections else "; ".join(self.objections)


class EndPlan(Plan, frozen=True, kw_only=True):
    """`target` is what the marker is for: read again before the act, it must be the same."""

    target: OpenTransaction | None = None


def plan_fence(transactional_id: str, known: KnownTransaction | Refused | None, asked: Asked) -> Plan:
    """What fencing an id would do.

    Args:
        known: what its coordinator says; None when it has no such id, where an InitProducerId would make one.
    """
    what = f"fence {transactional_id}: abort what it has open, and refuse whoever uses it now"
    if isinstance(known, Refused):
        return Plan(what=what, impossible=f"its state is not known: {known.sentence}")
    if known is None:
        return Plan(what=what, impossible=f"there is no transactional id {transactional_id} on this cluster")
    known = with_age(known, asked.clocks, now_ms=asked.now_ms)
    command = terminate_line(transactional_id, asked.bootstrap_servers)
    who = f"producer {known.producer_id} epoch {known.producer_epoch}"
    if known.is_open and known.state != ONGOING:
        return Plan(
            what=what,
            impossible=f"its transaction is decided already ({known.state}); its coordinator, broker "
            f"{known.coordinator_id}, still writes the markers, and fencing does not speed that up",
            command=describe_line(known, asked.bootstrap_servers),
        )
    losses = [f"{who} is fenced: whatever runs with it fails, and begins again if somebody restarts it"]
    if known.state == ONGOING:
        losses.insert(
            0,
            f"what it has written{_since(known, asked.now_ms)} in {count(len(known.partitions), 'partition')} is "
            f"aborted: {_named(known)}",
        )
    objections = tuple(_fence_objections(known, asked))
    return Plan(what=what, losses=tuple(losses), objections=objections, command=command, known=known)


def _fence_objections(known: KnownTransaction, asked: Asked) -> list[str]:
    if is_alive(asked, known.transactional_id):
        return [f"its owner, {(asked.owners or {})[known.transactional_id].name}, is alive: drain its run instead"]
    if known.state != ONGOING:
        return [f"it has nothing open ({known.state}), so it holds nobody up"]
    age = known.age
    if age is None:
        unmeasured = (
            f"how long it has been open is not known, because the clock of broker {known.coordinator_id} is not "
            "measured: a living producer may have begun it just now"
        )
        return [unmeasured]
    if age.least_ms < _JUST_BEGUN_MS:
        return [f"its transaction began {duration(age.least_ms)} ago, as those of a living producer do"]
    return []


def _since(known: KnownTransaction, now_ms: int) -> str:
    return "" if known.age is None else f" since {clock(now_ms - known.age.least_ms)}"


def plan_end(facts: PartitionFacts, start_offset: int | None, asked: Asked) -> EndPlan:
    """What ending an open transaction in this partition would do.

    Args:
        start_offset: which one, where it begins; None for the one that holds readers up.
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
    """The coordinator epoch of the marker. A producer that never got one there has -1, which brokers refuse; 0 is
    never newer than any (as Kafka's own tool does it)."""
    return max(0, target.coordinator_epoch)


def _end_objections(facts: PartitionFacts, target: OpenTransaction, asked: Asked) -> list[str]:
    known = facts.coordinators.known.get(target.producer_id)
    objections = [one.sentence for one in facts.coordinators.unanswered]
    if known is not None and is_alive(asked, known.transactional_id):
        objections.append(f"its owner, {(asked.owners or {})[known.transactional_id].name}, is alive")
    if known is not None and not is_hanging(facts, target):
        objections.append(
            f"its coordinator knows it as {known.transactional_id}, {known.state}: fence that id instead, since a "
            "marker in one partition would abort it here and let it commit elsewhere"
        )
    if known is not None and is_hanging(facts, target) and may_be_committed(target, known):
        objections.append(
            f"it may be committed ({known.transactional_id} is {known.state} at epoch {known.producer_epoch}). {ADVICE}"
        )
    if known is None and not facts.coordinators.is_corroborated:
        objections.append("no coordinator says whose it is." + UNSEEN)
    return objections


def _loss(facts: PartitionFacts, target: OpenTransaction) -> str:
    waiting = facts.waiting
    if waiting is None:
        return f"what it has written in {facts.name} from offset {target.start_offset:,} on is aborted"
    more = "" if waiting.is_whole else "more than "
    return (
        f"what it has written in {facts.name} from offset {target.start_offset:,} on is aborted: of "
        f"{more}{count(waiting.records + waiting.undecided, 'record')} that wait there, those of producer "
        f"{target.producer_id}"
    )


def _named(known: KnownTransaction) -> str:
    names = sorted(f"{topic}-{number}" for topic, number in known.partitions)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more
