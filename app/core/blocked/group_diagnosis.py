"""Explain why a group is blocked, partition by partition: readable lag and blocked lag are distinguished."""

from __future__ import annotations

import msgspec

from app.core.blocked.diagnosis import (
    AdviceVerdict,
    AnswerSource,
    Asked,
    ChainLink,
    Diagnosis,
    DiagnosisKind,
    Explanation,
    diagnose_partition,
    holder_at,
    judge_holder,
    worst_first,
)
from app.core.blocked.facts import (
    GroupFacts,
    GroupPosition,
    LogEnds,
    LogStretch,
    OpenTransaction,
    PartitionFacts,
    Refused,
)
from app.core.clusters.partition import Partition
from app.core.journals.live_groups import SHARE_STATE_NOT_DECODED
from app.core.lag.movement import LagState
from app.core.lag.report import PartitionLag
from app.core.lag.wording import behind_of
from app.kit.words import count

_NOT_JUDGED = (
    "No transaction blocks the group. One check cannot tell whether it advances: check again and compare its committed "
    "offset, or ask the server, which judges by samples (`fenceline groups`)."
)
_BATCHES = (
    "No transaction blocks the group. Its query commits offsets with each batch, so lag includes the running one. "
    "Check the duration of its batches, not the brokers."
)


def diagnose_group(facts: GroupFacts, asked: Asked) -> Explanation:
    """Explain why the members of a group, or its future members, are blocked."""
    found = worst_first(_of_position(facts, position, asked) for position in facts.positions)
    links = [
        ChainLink(
            f"the group {facts.group} is {facts.state} with {count(facts.members, 'member')}",
            AnswerSource.GROUP,
            facts.described_at_ms,
        )
    ]
    if facts.pending_refused is not None:
        links.append(ChainLink(facts.pending_refused.sentence, AnswerSource.OFFSETS_LOG, facts.offsets_at_ms))
    worst = found[0].verdict if found else AdviceVerdict.CANNOT_TELL if facts.is_share else AdviceVerdict.FREE
    return Explanation(
        kind=DiagnosisKind.GROUP,
        subject=facts.group,
        verdict=worst,
        headline=_headline(facts, found, asked),
        links=tuple(links),
        partitions=found,
    )


def _headline(facts: GroupFacts, found: tuple[Diagnosis, ...], asked: Asked) -> str:
    if facts.is_share:
        return f"{facts.group}: {SHARE_STATE_NOT_DECODED}"
    if not found:
        return f"{facts.group} has no committed offsets, so its partitions are not known."
    troubled = [one for one in found if one.verdict not in (AdviceVerdict.FREE, AdviceVerdict.ONLY_MARKERS)]
    if not troubled and (behind := [one for one in _moving(facts, asked) if one.lag_records]):
        return f"{facts.group} is healthy: {behind_of(behind)}."
    if not troubled:
        return f"{facts.group} has read all readable records of {count(len(found), 'partition')}."
    return (
        f"{facts.group} has not read {len(troubled)} of {count(len(found), 'partition')} to the end: "
        f"{troubled[0].verdict.label} ({troubled[0].subject})."
    )


def _of_position(facts: GroupFacts, position: GroupPosition, asked: Asked) -> Diagnosis:
    ends = position.partition.ends
    if position.is_unstable:
        return _of_pending(facts, position, asked)
    if isinstance(ends, Refused) or position.committed is None:
        return diagnose_partition(position.partition, asked)
    ahead = position.ahead
    readable = 0 if ahead is None else ahead.records + ahead.undecided
    if readable or (ahead is not None and not ahead.is_whole):
        return _behind(facts, position, ends, readable, ahead, asked)
    if ends.last_stable < ends.high_watermark:
        return diagnose_partition(position.partition, asked)
    if position.committed < ends.last_stable:
        return _only_markers(position, ends, position.committed, ahead)
    return diagnose_partition(position.partition, asked)


def _moving(facts: GroupFacts, asked: Asked) -> list[PartitionLag]:
    """Return the group's partitions that are healthy by the samples of the server."""
    names = {(one.partition.topic, one.partition.partition) for one in facts.positions}
    return [one for at, one in asked.lag.items() if at in names and one.state is LagState.HEALTHY]


def _of_samples(position: GroupPosition, asked: Asked) -> str:
    """Describe the state in this partition by the server's samples, as its pages do, if there are any."""
    sampled = asked.lag.get(Partition(position.partition.topic, position.partition.partition))
    if sampled is None or sampled.state is LagState.UNKNOWN:
        return _NOT_JUDGED
    return (
        f"No transaction blocks the group. By the server's samples it is {sampled.state}: check the consumers (slow, "
        "paused, failing, or the partition is not assigned), not the brokers."
    )


def _behind(
    facts: GroupFacts, position: GroupPosition, ends: LogEnds, readable: int, ahead: LogStretch | None, asked: Asked
) -> Diagnosis:
    """Records are readable: the group moves on, has no members, or reads too slowly."""
    name = position.partition.name
    more = "" if ahead is None or ahead.is_whole else "at least "
    waits = _more_behind(position.partition, ends)
    links = (
        ChainLink(f"the group has committed offset {position.committed:,}", AnswerSource.OFFSETS, facts.offsets_at_ms),
        ChainLink(
            f"the last stable offset is {ends.last_stable:,} and the high watermark {ends.high_watermark:,}",
            AnswerSource.LIST_OFFSETS,
            position.partition.ends_at_ms,
        ),
    )
    headline = f"{more}{count(readable, 'record')} of {name} are readable and not committed.{waits}"
    moving = [
        one for one in _moving(facts, asked) if one.at == (position.partition.topic, position.partition.partition)
    ]
    if moving:
        return Diagnosis(
            subject=name,
            verdict=AdviceVerdict.FREE,
            headline=headline,
            links=links,
            advice="No action is required: the group's commits advance, and its lag does not grow.",
        )
    if facts.members:
        return Diagnosis(
            subject=name,
            verdict=AdviceVerdict.BEHIND,
            headline=headline,
            links=links,
            advice=_BATCHES if facts.is_query else _of_samples(position, asked),
        )
    return Diagnosis(
        subject=name,
        verdict=AdviceVerdict.NO_MEMBERS,
        headline=headline,
        links=links,
        advice="The group has no members: its query has no driver. Start it."
        if facts.is_query
        else "The group has no members: start a consumer of the group.",
    )


def _more_behind(facts: PartitionFacts, ends: LogEnds) -> str:
    """Describe the offsets after the last stable offset; an open transaction only if the leader names one."""
    offsets = ends.high_watermark - ends.last_stable
    if not offsets:
        return ""
    if isinstance(facts.open, Refused):
        return (
            f" {count(offsets, 'more offset')} come after the last stable offset; whether a transaction is open there "
            "is not known."
        )
    return f" {count(offsets, 'more offset')} are behind an open transaction." if holder_at(facts, ends) else ""


def _only_markers(position: GroupPosition, ends: LogEnds, committed: int, ahead: LogStretch | None) -> Diagnosis:
    name = position.partition.name
    what = [] if ahead is None else [count(ahead.markers, "marker")]
    if ahead is not None and ahead.aborted:
        what.append(count(ahead.aborted, "aborted record"))
    lies = " and ".join(what) or "nothing that consumers receive"
    return Diagnosis(
        subject=name,
        verdict=AdviceVerdict.ONLY_MARKERS,
        headline=f"The lag of {ends.last_stable - committed:,} in {name} has no records that consumers receive.",
        links=(
            ChainLink(
                f"from offset {committed:,} on there are {lies}", AnswerSource.LOG, position.partition.ends_at_ms
            ),
        ),
        advice="No action is required: the lag disappears with the next record.",
    )


def _of_pending(facts: GroupFacts, position: GroupPosition, asked: Asked) -> Diagnosis:
    """An open transaction has pending offsets of the partition: a new owner cannot start before it ends."""
    name = position.partition.name
    headline = f"A new owner of {name} cannot start: an open transaction has a pending offset of {facts.group} for it."
    unstable = ChainLink("its offset is not stable", AnswerSource.OFFSETS, facts.offsets_at_ms)
    holders = facts.offsets_partition
    if holders is None or not position.pending:
        refused = facts.pending_refused
        return Diagnosis(
            subject=name,
            verdict=AdviceVerdict.CANNOT_TELL if refused else AdviceVerdict.UNSETTLED,
            headline=headline,
            links=(unstable,),
            advice=f"Its producer is not known: {refused.sentence}."
            if refused
            else "Check again: the transaction may have ended.",
        )
    judged = [
        _judged(holders, one, asked, headline, unstable, pending.offset)
        for pending in position.pending
        if (one := _row(holders, pending.producer_id)) is not None
    ]
    if not judged:
        return Diagnosis(
            subject=name,
            verdict=AdviceVerdict.UNSETTLED,
            headline=headline,
            links=(unstable,),
            advice="Check again: its transaction ended while the brokers were asked.",
        )
    return msgspec.structs.replace(worst_first(judged)[0], subject=name)


def _judged(
    holders: PartitionFacts, one: OpenTransaction, asked: Asked, headline: str, unstable: ChainLink, offset: int
) -> Diagnosis:
    pending = ChainLink(
        f"producer {one.producer_id} epoch {one.producer_epoch} has offset {offset:,} pending",
        AnswerSource.OFFSETS_LOG,
        holders.open_at_ms,
    )
    return judge_holder(holders, one, asked, headline=headline, links=(unstable, pending))


def _row(holders: PartitionFacts, producer_id: int) -> OpenTransaction | None:
    rows = () if isinstance(holders.open, Refused) else holders.open
    return next((one for one in rows if one.producer_id == producer_id and one.identity in holders.still_open), None)
