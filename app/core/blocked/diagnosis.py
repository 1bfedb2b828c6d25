"""Explain why consumers are blocked: a chain of sentences with their evidence, and the recommended action.

A transaction is hanging if a partition's leader has it open and no coordinator will ever end it. Then its producer id
belongs to no transactional id, or to one whose open transaction lacks this partition. Kafka's `kafka-transactions.sh
find-hanging` uses the same condition, above the longest timeout only. Here the leader is asked again after the
coordinators. That excludes transactions that ended in between, so the condition is valid for young ones too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from app.core.blocked.advice import AdviceVerdict, Asked, advice_on, known_sentence
from app.core.blocked.facts import KnownTransaction, LogEnds, OpenTransaction, PartitionFacts, Refused, with_ages
from app.core.blocked.left_out import ADVICE, may_be_committed
from app.core.blocked.wording import abort_line, clock, describe_line, end_line, fence_line
from app.kit.words import count, duration

UNSEEN = (
    " First verify that you may describe all transactional ids. An id without that permission looks the same, and "
    "__transaction_state could not be read to rule that out."
)


class AnswerSource(StrEnum):
    """The request whose answer is the evidence of a sentence."""

    LIST_OFFSETS = "ListOffsets"
    DESCRIBE_PRODUCERS = "DescribeProducers"
    COORDINATORS = "ListTransactions, DescribeTransactions"
    LOG = "Fetch"
    GROUP = "DescribeGroups"
    OFFSETS = "OffsetFetch"
    OFFSETS_LOG = "__consumer_offsets"
    HEARTBEATS = "heartbeats"


class ChainLink(msgspec.Struct, frozen=True):
    """One sentence of the chain, its source, and the time of that answer."""

    sentence: str
    source: AnswerSource
    seen_ms: int


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The open transaction that blocks consumers, and its partition. transactional_id None: no coordinator knows its
    id.
    """

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    transactional_id: str | None


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The state of `subject` (a partition), its cause, and the recommended action.

    until_ms: the time at which it ends by itself, if known. commands: to paste, Fenceline's and Kafka's own. holder:
    the transaction that blocks consumers, if there is one.
    """

    subject: str
    verdict: AdviceVerdict
    headline: str
    links: tuple[ChainLink, ...]
    advice: str
    until_ms: int | None = None
    commands: tuple[str, ...] = ()
    holder: Holder | None = None


class DiagnosisKind(StrEnum):
    GROUP = "group"
    TOPIC = "topic"


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """A group or a topic, its worst partition first. That partition has the verdict."""

    kind: DiagnosisKind
    subject: str
    verdict: AdviceVerdict
    headline: str
    links: tuple[ChainLink, ...] = ()
    partitions: tuple[Diagnosis, ...]


def diagnose_partition(facts: PartitionFacts, asked: Asked) -> Diagnosis:
    """Explain why read_committed consumers do not reach the end of a partition."""
    ends, facts = facts.ends, with_ages(facts, asked.clocks, now_ms=asked.now_ms)
    if isinstance(ends, Refused):
        return Diagnosis(
            subject=facts.name,
            verdict=AdviceVerdict.CANNOT_TELL,
            headline=f"The end offset of {facts.name} is not known: {ends.error}.",
            links=(ChainLink(ends.sentence, AnswerSource.LIST_OFFSETS, facts.ends_at_ms),),
            advice=_way_out((ends,)),
        )
    if ends.last_stable >= ends.high_watermark:
        return Diagnosis(
            subject=facts.name,
            verdict=AdviceVerdict.FREE,
            headline=f"{facts.name} is not blocked: consumers can read up to its end, {ends.high_watermark:,}.",
            links=(_ends_link(facts, ends),),
            advice="No action is required.",
        )
    headline, links = _waiting(facts, ends)
    if isinstance(facts.open, Refused):
        return Diagnosis(
            subject=facts.name,
            verdict=AdviceVerdict.CANNOT_TELL,
            headline=headline,
            links=(*links, ChainLink(facts.open.sentence, AnswerSource.DESCRIBE_PRODUCERS, facts.open_at_ms)),
            advice=_way_out((facts.open,)),
        )
    holder = holder_at(facts, ends)
    if holder is None:
        return Diagnosis(
            subject=facts.name,
            verdict=AdviceVerdict.UNSETTLED,
            headline=headline,
            links=(*links, _settled_link(facts, first_open(facts))),
            advice="Check again: a transaction ended while the brokers were asked.",
        )
    links = (*links, _holder_link(facts, holder))
    return judge_holder(facts, holder, asked, headline=headline, links=links)


def explain_topic(topic: str, facts: Sequence[PartitionFacts], asked: Asked) -> Explanation:
    """Explain the checked partitions of a topic."""
    found = worst_first([diagnose_partition(one, asked) for one in facts])
    held = [one for one in found if one.verdict is not AdviceVerdict.FREE]
    headline = (
        f"read_committed consumers of {topic} are blocked in {len(held)} of {count(len(found), 'partition')}, worst in "
        f"{held[0].subject}."
        if held
        else f"{topic} is not blocked: consumers can read {count(len(found), 'partition')} to the end."
    )
    worst = found[0].verdict if found else AdviceVerdict.FREE
    return Explanation(kind=DiagnosisKind.TOPIC, subject=topic, verdict=worst, headline=headline, partitions=found)


def worst_first(found: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    order = list(AdviceVerdict)
    return tuple(sorted(found, key=lambda one: order.index(one.verdict)))


def first_open(facts: PartitionFacts) -> OpenTransaction | None:
    """Return the open transaction that determines the last stable offset."""
    if isinstance(facts.open, Refused) or not facts.open:
        return None
    return min(facts.open, key=lambda one: one.start_offset)


def holder_at(facts: PartitionFacts, ends: LogEnds) -> OpenTransaction | None:
    """Return the transaction open at the last stable offset, both before and after the coordinators' answers."""
    first = first_open(facts)
    if first is None or first.start_offset > ends.last_stable or first.identity not in facts.still_open:
        return None
    return first


def is_hanging(facts: PartitionFacts, one: OpenTransaction) -> bool:
    """Return True if no coordinator will ever end it; False also if a coordinator did not answer."""
    known = facts.coordinators.known.get(one.producer_id)
    if known is None:
        return not facts.coordinators.unanswered and one.identity in facts.still_open
    return not _will_be_ended(facts, known) and one.identity in facts.still_open


def _will_be_ended(facts: PartitionFacts, known: KnownTransaction) -> bool:
    return known.is_open and (facts.topic, facts.partition) in known.partitions


def judge_holder(
    facts: PartitionFacts, holder: OpenTransaction, asked: Asked, *, headline: str, links: tuple[ChainLink, ...]
) -> Diagnosis:
    """Recommend an action for one open transaction of a partition."""
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
        refusals = tuple(
            ChainLink(one.sentence, AnswerSource.COORDINATORS, at_ms) for one in facts.coordinators.unanswered
        )
        return Diagnosis(
            subject=facts.name,
            verdict=AdviceVerdict.CANNOT_TELL,
            headline=headline,
            links=(*links, *refusals),
            advice=f"The owner of {who} is not known until every coordinator answers. "
            + _way_out(facts.coordinators.unanswered),
            holder=held_by,
        )
    if is_hanging(facts, holder):
        is_in_doubt = may_be_committed(holder, known)
        return Diagnosis(
            subject=facts.name,
            verdict=AdviceVerdict.CANNOT_TELL if is_in_doubt else AdviceVerdict.END,
            headline=headline,
            links=(*links, ChainLink(hanging_sentence(facts, holder), AnswerSource.COORDINATORS, at_ms)),
            advice=f"It hangs, and it may be committed. {ADVICE}."
            if is_in_doubt
            else "It hangs: no coordinator will ever end it. End it in this partition; its records here become aborted."
            + ("" if known or facts.coordinators.is_corroborated else UNSEEN),
            commands=(
                end_line(facts.topic, facts.partition, asked.bootstrap_servers),
                abort_line(facts.topic, facts.partition, holder.start_offset, asked.bootstrap_servers),
            ),
            holder=held_by,
        )
    # A holder that is not hanging is known: the three cases above are all the others.
    assert known is not None  # noqa: S101
    links = (*links, ChainLink(known_sentence(known, asked.now_ms), AnswerSource.COORDINATORS, at_ms))
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


def _lines(known: KnownTransaction, verdict: AdviceVerdict, asked: Asked) -> tuple[str, ...]:
    """Return the commands to paste; none for an id that no command line can contain."""
    fence = fence_line(known, asked.bootstrap_servers) if verdict is AdviceVerdict.FENCE else ""
    return tuple(filter(None, (describe_line(known, asked.bootstrap_servers), fence)))


def _waiting(facts: PartitionFacts, ends: LogEnds) -> tuple[str, tuple[ChainLink, ...]]:
    waiting = facts.waiting
    offsets = ends.high_watermark - ends.last_stable
    where = f"read_committed consumers of {facts.name} are blocked at offset {ends.last_stable:,}."
    if waiting is None:
        return f"{where} {_behind_it(offsets, 'offset')}.", (_ends_link(facts, ends),)
    records = waiting.records + waiting.undecided
    more = "" if waiting.is_whole else "More than "
    since = f", the oldest stamped {clock(waiting.first_ms)}" if waiting.first_ms >= 0 else ""
    return f"{where} {more}{_behind_it(records, 'record')}{since}.", (_ends_link(facts, ends),)


def _behind_it(number: int, noun: str) -> str:
    return f"{count(number, noun)} {'is' if number == 1 else 'are'} behind it"


def _ends_link(facts: PartitionFacts, ends: LogEnds) -> ChainLink:
    return ChainLink(
        f"the last stable offset is {ends.last_stable:,} and the high watermark {ends.high_watermark:,}",
        AnswerSource.LIST_OFFSETS,
        facts.ends_at_ms,
    )


def _holder_link(facts: PartitionFacts, holder: OpenTransaction) -> ChainLink:
    others = 0 if isinstance(facts.open, Refused) else len(facts.open) - 1
    behind = f"; {count(others, 'other transaction')} open behind it" if others else ""
    # A record's timestamp is from the clock of its producer or broker, so it gives no age by the server's.
    stamped = f"; its newest record is stamped {clock(holder.last_ms)}" if holder.last_ms >= 0 else ""
    return ChainLink(
        f"producer {holder.producer_id} epoch {holder.producer_epoch} has a transaction open there from offset "
        f"{holder.start_offset:,} on{stamped}{behind}",
        AnswerSource.DESCRIBE_PRODUCERS,
        facts.open_at_ms,
    )


def _settled_link(facts: PartitionFacts, holder: OpenTransaction | None) -> ChainLink:
    said = (
        "no producer has that transaction open any more"
        if holder is None or holder.identity not in facts.still_open
        else f"the first open transaction begins later, at offset {holder.start_offset:,}"
    )
    return ChainLink(said, AnswerSource.DESCRIBE_PRODUCERS, facts.open_at_ms)


def hanging_sentence(facts: PartitionFacts, one: OpenTransaction) -> str:
    """Return the coordinators' description of a hanging transaction, as a part of a sentence."""
    who = f"producer {one.producer_id}"
    known = facts.coordinators.known.get(one.producer_id)
    if known is None:
        return f"{who} belongs to no transactional id that any coordinator knows"
    in_doubt = ", so that it may be committed" if may_be_committed(one, known) else ""
    return (
        f"{who} belongs to {known.transactional_id}, which its coordinator has as {known.state} at epoch "
        f"{known.producer_epoch} and without {facts.name}{in_doubt}"
    )


def _owner_link(asked: Asked, transactional_id: str) -> ChainLink:
    owner = (asked.owners or {}).get(transactional_id)
    if owner is None:
        return ChainLink("whose owner is not a Fenceline task", AnswerSource.HEARTBEATS, asked.now_ms)
    heartbeat = (
        "without a heartbeat"
        if owner.heartbeat_ms is None
        else f"last heartbeat {duration(asked.now_ms - owner.heartbeat_ms)} ago"
    )
    return ChainLink(f"whose owner is {owner.name}, {heartbeat}", AnswerSource.HEARTBEATS, asked.now_ms)


def _way_out(refusals: tuple[Refused, ...]) -> str:
    needed = sorted({one.permission for one in refusals if one.permission})
    return f"Ask for {' and '.join(needed)}." if needed else "Check that all brokers run, then check again."
