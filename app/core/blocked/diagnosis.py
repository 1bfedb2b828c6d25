"""The answer to "why do readers wait here?": a chain of sentences, each with its evidence, and what to do.

Hanging is a transaction that a partition's leader has open and that no coordinator will ever end: its producer id
belongs to no transactional id, or to one whose open transaction does not have this partition. Kafka's
`kafka-transactions.sh find-hanging` decides it so, and leaves out whatever is younger than the longest timeout. Here
the leader is asked a second time after the coordinators: one that ended meanwhile is told apart, however young it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from app.core.blocked.advice import Asked, Verdict, advice_on, known_sentence
from app.core.blocked.facts import KnownTransaction, LogEnds, OpenTransaction, PartitionFacts, Refused, with_ages
from app.core.blocked.left_out import ADVICE, may_be_committed
from app.core.blocked.wording import abort_line, clock, describe_line, end_line, fence_line
from app.kit.words import count, duration

UNSEEN = (
    " Be sure first that you may describe all transactional ids: one that you may not see looks the same, and "
    "__transaction_state could not be read to rule that out."
)


class Source(StrEnum):
    """Which answer a sentence stands on."""

    LIST_OFFSETS = "ListOffsets"
    DESCRIBE_PRODUCERS = "DescribeProducers"
    COORDINATORS = "ListTransactions, DescribeTransactions"
    LOG = "Fetch"
    GROUP = "DescribeGroups"
    OFFSETS = "OffsetFetch"
    OFFSETS_LOG = "__consumer_offsets"
    HEARTBEATS = "heartbeats"


class Link(msgspec.Struct, frozen=True):
    """One sentence of the chain, which answer it stands on, and when that was given."""

    sentence: str
    source: Source
    seen_ms: int


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The open transaction that holds readers up, and where; `transactional_id` None: no coordinator says whose."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    transactional_id: str | None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """About `subject` (a partition): what is so, because of what, and what to do.

    until_ms: when it ends by itself, as far as that is known. commands: lines to paste, ours and Kafka's own.
    holder: what holds readers up, where somebody does.
    """

    subject: str
    verdict: Verdict
    headline: str
    links: tuple[Link, ...]
    advice: str
    until_ms: int | None = None
    commands: tuple[str, ...] = ()
    holder: Holder | None = None


class Kind(StrEnum):
    GROUP = "group"
    TOPIC = "topic"


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A group or a topic: its worst partition first. The verdict is that one's."""

    kind: Kind
    subject: str
    verdict: Verdict
    headline: str
    links: tuple[Link, ...] = ()
    partitions: tuple[Diagnosis, ...]


def diagnose_partition(facts: PartitionFacts, asked: Asked) -> Diagnosis:
    """Why readers of committed data do not get to the end of a partition."""
    ends, facts = facts.ends, with_ages(facts, asked.clocks, now_ms=asked.now_ms)
    if isinstance(ends, Refused):
        return Diagnosis(
            subject=facts.name,
            verdict=Verdict.CANNOT_TELL,
            headline=f"Where {facts.name} ends is not told: {ends.error}.",
            links=(Link(ends.sentence, Source.LIST_OFFSETS, facts.ends_at_ms),),
            advice=_way_out((ends,)),
        )
    if ends.last_stable >= ends.high_watermark:
        return Diagnosis(
            subject=facts.name,
            verdict=Verdict.FREE,
            headline=f"Nothing waits in {facts.name}: everything up to its end, {ends.high_watermark:,}, can be read.",
            links=(_ends_link(facts, ends),),
            advice="Nothing to do here.",
        )
    headline, links = _waiting(facts, ends)
    if isinstance(facts.open, Refused):
        return Diagnosis(
            subject=facts.name,
            verdict=Verdict.CANNOT_TELL,
            headline=headline,
            links=(*links, Link(facts.open.sentence, Source.DESCRIBE_PRODUCERS, facts.open_at_ms)),
            advice=_way_out((facts.open,)),
        )
    holder = holder_at(facts, ends)
    if holder is None:
        return Diagnosis(
            subject=facts.name,
            verdict=Verdict.UNSETTLED,
            headline=headline,
            links=(*links, _settled_link(facts, first_open(facts))),
            advice="Look again: a transaction was decided while the brokers were asked.",
        )
    links = (*links, _holder_link(facts, holder))
    return judge_holder(facts, holder, asked, headline=headline, links=links)


def explain_topic(topic: str, facts: Sequence[PartitionFacts], asked: Asked) -> Explanation:
    """The partitions of a topic that were looked at."""
    found = worst_first([diagnose_partition(one, asked) for one in facts])
    held = [one for one in found if one.verdict is not Verdict.FREE]
    headline = (
        f"Readers of {topic} wait in {len(held)} of {count(len(found), 'partition')}, worst in {held[0].subject}."
        if held
        else f"Nothing waits in {topic}: readers get to the end of {count(len(found), 'partition')}."
    )
    worst = found[0].verdict if found else Verdict.FREE
    return Explanation(kind=Kind.TOPIC, subject=topic, verdict=worst, headline=headline, partitions=found)


def worst_first(found: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    order = list(Verdict)
    return tuple(sorted(found, key=lambda one: order.index(one.verdict)))


def first_open(facts: PartitionFacts) -> OpenTransaction | None:
    """The open transaction that holds the last stable offset back."""
    if isinstance(facts.open, Refused) or not facts.open:
        return None
    return min(facts.open, key=lambda one: one.start_offset)


def holder_at(facts: PartitionFacts, ends: LogEnds) -> OpenTransaction | None:
    """The transaction that its leader has open at the last stable offset, before and after the coordinators spoke."""
    first = first_open(facts)
    if first is None or first.start_offset > ends.last_stable or first.identity not in facts.still_open:
        return None
    return first


def is_hanging(facts: PartitionFacts, one: OpenTransaction) -> bool:
    """Whether no coordinator will ever end it; False also where a coordinator did not answer."""
    known = facts.coordinators.known.get(one.producer_id)
    if known is None:
        return not facts.coordinators.unanswered and one.identity in facts.still_open
    return not _will_be_ended(facts, known) and one.identity in facts.still_open


def _will_be_ended(facts: PartitionFacts, known: KnownTransaction) -> bool:
    return known.is_open and (facts.topic, facts.partition) in known.partitions


def judge_holder(
    facts: PartitionFacts, holder: OpenTransaction, asked: Asked, *, headline: str, links: tuple[Link, ...]
) -> Diagnosis:
    """What is to be done about one open transaction of a partition."""
    facts = with_ages(facts, asked.clocks, now_ms=asked.now_ms)
    known = facts.coordinators.known.get(holder.producer_id)
    at_ms = facts.coordinators.at_ms
    held_by = Holder(
        topic=facts.topic,
        partition=facts.partition,
        producer_id=holder.producer_id,
        producer_epoch=holder.producer_epoch,
        start_offset=holder.start_offset,
        transactional_id=None if known is None else known.transactional_id,
    )
    who = f"producer {holder.producer_id}"
    if known is None and facts.coordinators.unanswered:
        refusals = tuple(Link(one.sentence, Source.COORDINATORS, at_ms) for one in facts.coordinators.unanswered)
        return Diagnosis(
            subject=facts.name,
            verdict=Verdict.CANNOT_TELL,
            headline=headline,
            links=(*links, *refusals),
            advice=f"Whose {who} is cannot be told before every coordinator answers. "
            + _way_out(facts.coordinators.unanswered),
            holder=held_by,
        )
    if is_hanging(facts, holder):
        is_in_doubt = may_be_committed(holder, known)
        return Diagnosis(
            subject=facts.name,
            verdict=Verdict.CANNOT_TELL if is_in_doubt else Verdict.END,
            headline=headline,
            links=(*links, Link(hanging_sentence(facts, holder), Source.COORDINATORS, at_ms)),
            advice=f"It hangs, and it may be committed. {ADVICE}."
            if is_in_doubt
            else "It hangs: nobody will ever end it. End it in this partition; its records here become aborted."
            + ("" if known or facts.coordinators.is_corroborated else UNSEEN),
            commands=(
                end_line(facts.topic, facts.partition, asked.bootstrap_servers),
                abort_line(facts.topic, facts.partition, holder.start_offset, asked.bootstrap_servers),
            ),
            holder=held_by,
        )
    # A holder that is not hanging is known: the three cases above are all the others.
    assert known is not None  # noqa: S101
    links = (*links, Link(known_sentence(known, asked.now_ms), Source.COORDINATORS, at_ms))
    if asked.owners is not None:
        links = (*links, _owner_link(asked, known.transactional_id))
    verdict, advice = advice_on(known, asked)
    return Diagnosis(
        subject=facts.name,
        verdict=verdict,
        headline=headline,
        links=links,
        advice=advice,
        until_ms=known.times_out_at_ms(asked.now_ms),
        commands=_lines(known, verdict, asked),
        holder=held_by,
    )


def _lines(known: KnownTransaction, verdict: Verdict, asked: Asked) -> tuple[str, ...]:
    """To paste; none for an id that no line can name."""
    fence = fence_line(known, asked.bootstrap_servers) if verdict is Verdict.FENCE else ""
    return tuple(filter(None, (describe_line(known, asked.bootstrap_servers), fence)))


def _waiting(facts: PartitionFacts, ends: LogEnds) -> tuple[str, tuple[Link, ...]]:
    waiting = facts.waiting
    offsets = ends.high_watermark - ends.last_stable
    where = f"Readers of {facts.name} see nothing from offset {ends.last_stable:,} on."
    if waiting is None:
        return f"{where} {_wait(offsets, 'offset')}.", (_ends_link(facts, ends),)
    records = waiting.records + waiting.undecided
    more = "" if waiting.is_whole else "More than "
    since = f", the oldest stamped {clock(waiting.first_ms)}" if waiting.first_ms >= 0 else ""
    return f"{where} {more}{_wait(records, 'record')}{since}.", (_ends_link(facts, ends),)


def _wait(number: int, noun: str) -> str:
    return f"{count(number, noun)} wait{'s' if number == 1 else ''}"


def _ends_link(facts: PartitionFacts, ends: LogEnds) -> Link:
    return Link(
        f"the last stable offset is {ends.last_stable:,} and the high watermark {ends.high_watermark:,}",
        Source.LIST_OFFSETS,
        facts.ends_at_ms,
    )


def _holder_link(facts: PartitionFacts, holder: OpenTransaction) -> Link:
    others = 0 if isinstance(facts.open, Refused) else len(facts.open) - 1
    behind = f"; {count(others, 'other transaction')} open behind it" if others else ""
    # A record's timestamp is of its producer's clock, or of the broker's: no age by ours.
    stamped = f"; its newest record is stamped {clock(holder.last_ms)}" if holder.last_ms >= 0 else ""
    return Link(
        f"producer {holder.producer_id} epoch {holder.producer_epoch} has a transaction open there from offset "
        f"{holder.start_offset:,} on{stamped}{behind}",
        Source.DESCRIBE_PRODUCERS,
        facts.open_at_ms,
    )


def _settled_link(facts: PartitionFacts, holder: OpenTransaction | None) -> Link:
    said = (
        "no producer has that transaction open any more"
        if holder is None or holder.identity not in facts.still_open
        else f"the first open transaction begins later, at offset {holder.start_offset:,}"
    )
    return Link(said, Source.DESCRIBE_PRODUCERS, facts.open_at_ms)


def hanging_sentence(facts: PartitionFacts, one: OpenTransaction) -> str:
    """What the coordinators say of a transaction that hangs, as a clause."""
    who = f"producer {one.producer_id}"
    known = facts.coordinators.known.get(one.producer_id)
    if known is None:
        return f"{who} belongs to no transactional id that any coordinator knows"
    in_doubt = ", so that it may be committed" if may_be_committed(one, known) else ""
    return (
        f"{who} belongs to {known.transactional_id}, which its coordinator has as {known.state} at epoch "
        f"{known.producer_epoch} and without {facts.name}{in_doubt}"
    )


def _owner_link(asked: Asked, transactional_id: str) -> Link:
    owner = (asked.owners or {}).get(transactional_id)
    if owner is None:
        return Link("whose owner is none of ours", Source.HEARTBEATS, asked.now_ms)
    heard = (
        "of which nothing is heard"
        if owner.heartbeat_ms is None
        else f"heard of {duration(asked.now_ms - owner.heartbeat_ms)} ago"
    )
    return Link(f"whose owner is {owner.name}, {heard}", Source.HEARTBEATS, asked.now_ms)


def _way_out(refusals: tuple[Refused, ...]) -> str:
    needed = sorted({one.permission for one in refusals if one.permission})
    return f"Ask for {' and '.join(needed)}." if needed else "Look whether all brokers run, then look again."
