"""Gather the facts of a diagnosis in an order in which changes meanwhile do not look like errors.

1. the end of a partition        for read_committed consumers, and for all
2. its leader's transactions     only of blocked partitions
3. the coordinators' states      of the producers of 2
4. its leader's transactions     again: one of 2 that is not in 4 ended during 3, and is no hanging transaction
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping

import msgspec

from app.core.blocked.facts import (
    GroupFacts,
    GroupPosition,
    LogEnds,
    OpenTransaction,
    PartitionFacts,
    PendingOffset,
    Refused,
    strangers_in,
    with_journal,
)
from app.core.blocked.stretch import LogStretch, measure
from app.core.clusters.brokers import SHARE
from app.core.clusters.partition import Partition
from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals import group_records, transaction_state
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.query_marker import marker_of
from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_client import errors
from app.edges.kafka.raw_fetch import read_logs
from app.edges.kafka.transactions.client import TransactionClient
from app.edges.kafka.transactions.questions import FETCH
from app.kit.errors import NotFoundError, UnavailableError

# Each is at most a megabyte of one partition: enough to show its records, and never a whole backlog.
_ANSWERS = 4
_ABSENT = "Dead"

Batches = list[RecordBatch | UnreadableBatch]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def look_at_partitions(
    client: TransactionClient,
    resolved: Mapping[str, str],
    attempt: ConnectionAttempt,
    partitions: Collection[Partition],
    *,
    with_waiting: bool = True,
) -> list[PartitionFacts]:
    """Return the facts of each partition, in the order of the request."""
    facts = look_at_holders(client, partitions)
    behind = {
        at: (one.ends.last_stable, one.ends.high_watermark)
        for at, one in zip(partitions, facts, strict=True)
        if with_waiting and isinstance(one.ends, LogEnds) and one.ends.last_stable < one.ends.high_watermark
    }
    strangers = {producer_id for one in facts for producer_id in strangers_in(one)}
    if strangers and not facts[0].coordinators.unanswered:
        facts = _corroborated(facts, strangers, resolved, attempt)
    waiting = read_stretches(client, behind)
    return [msgspec.structs.replace(one, waiting=waiting.get(at)) for at, one in zip(partitions, facts, strict=True)]


def look_at_holders(client: TransactionClient, partitions: Collection[Partition]) -> list[PartitionFacts]:
    """Do the same without blocked records and without `__transaction_state`: no log is read."""
    ends = client.ends(partitions)
    ends_at_ms = now_ms()
    behind = [
        at for at, found in ends.items() if isinstance(found, LogEnds) and found.last_stable < found.high_watermark
    ]
    opened = client.open_transactions(behind)
    open_at_ms = now_ms()
    producer_ids = {row.producer_id for found in opened.values() for row in _rows(found)}
    coordinators = client.coordinators(producer_ids, now_ms=now_ms)
    again = client.open_transactions(behind) if producer_ids else {}
    return [
        PartitionFacts(
            topic=at.topic,
            partition=at.partition,
            ends=ends[at],
            ends_at_ms=ends_at_ms,
            open=opened.get(at, ()),
            open_at_ms=open_at_ms,
            still_open=frozenset(row.identity for row in _rows(again.get(at, ()))),
            coordinators=coordinators,
        )
        for at in partitions
    ]


def look_at_group(
    client: TransactionClient, resolved: Mapping[str, str], attempt: ConnectionAttempt, group: str
) -> GroupFacts:
    """Return the facts of a group, and of its partitions. Raises NotFoundError for an unknown group."""
    nobody = NotFoundError(f"there is no group {group} on the cluster at {attempt.address}")
    numbers = client.partitions_of(group_records.TOPIC)
    if isinstance(numbers, Refused) and numbers.permission is None:
        # Looking up the group's coordinator would create this topic: no group exists here yet.
        raise nobody
    described = client.describe(group)
    described_at_ms = now_ms()
    if described.protocol == SHARE:
        return GroupFacts(
            group=group,
            state=described.state,
            members=len(described.members),
            described_at_ms=described_at_ms,
            offsets_at_ms=described_at_ms,
            positions=(),
            is_share=True,
        )
    pending, holders, pending_refused = _pending(client, resolved, attempt, group, numbers)
    committed, markers = client.offsets_and_markers(group)
    if described.state == _ABSENT and not (committed or markers or pending):
        raise nobody
    partitions = sorted({*committed, *pending})
    unstable = set(client.unstable(group, partitions)) if partitions else set[Partition]()
    offsets_at_ms = now_ms()
    facts = look_at_partitions(client, resolved, attempt, partitions)
    readable = {
        at: (committed[at], one.ends.last_stable)
        for at, one in zip(partitions, facts, strict=True)
        if at in committed and isinstance(one.ends, LogEnds) and committed[at] < one.ends.last_stable
    }
    ahead = read_stretches(client, readable)
    return GroupFacts(
        group=group,
        state=described.state,
        members=len(described.members),
        described_at_ms=described_at_ms,
        offsets_at_ms=offsets_at_ms,
        positions=tuple(
            GroupPosition(
                partition=one,
                committed=committed.get(at),
                is_unstable=at in unstable,
                pending=pending.get(at, ()),
                ahead=ahead.get(at),
            )
            for at, one in zip(partitions, facts, strict=True)
        ),
        offsets_partition=holders,
        pending_refused=pending_refused,
        is_query=bool(markers),
    )


def _pending(
    client: TransactionClient,
    resolved: Mapping[str, str],
    attempt: ConnectionAttempt,
    group: str,
    numbers: tuple[int, ...] | Refused,
) -> tuple[dict[Partition, tuple[PendingOffset, ...]], PartitionFacts | None, Refused | None]:
    """Return the pending offsets of the group with their producers, and the facts of their journal partition.

    All of them are behind its last stable offset, so only that part of the journal is read.
    """
    if isinstance(numbers, Refused):
        return {}, None, numbers
    at = Partition(group_records.TOPIC, transaction_log_partition(group, len(numbers)))
    (facts,) = look_at_partitions(client, resolved, attempt, [at])
    if isinstance(facts.ends, Refused):
        return {}, None, facts.ends
    span = (facts.ends.last_stable, facts.ends.high_watermark)
    if span[0] >= span[1]:
        return {}, None, None
    try:
        batches, is_whole = _read(client, {at: span})[at]
    except errors.AuthorizationError as error:
        return {}, None, FETCH.refused(facts.name, error)
    live = LiveGroups()
    for batch in batches:
        live.apply(at.partition, batch, is_wanted=lambda name: name == group)
    found: defaultdict[Partition, list[PendingOffset]] = defaultdict(list)
    if group in live.groups:
        for (topic, partition, producer_id), one in live.groups[group].pending.items():
            if marker_of(one.commit.offset, one.commit.metadata) is not None:
                continue
            pending = PendingOffset(producer_id, one.producer_epoch, one.commit.offset)
            found[Partition(topic, partition)].append(pending)
    cut = None if is_whole else Refused(f"Fetch of {facts.name}", "too many records are behind its last stable offset")
    return {where: tuple(ones) for where, ones in found.items()}, facts, cut


def _corroborated(
    facts: list[PartitionFacts], strangers: Collection[int], resolved: Mapping[str, str], attempt: ConnectionAttempt
) -> list[PartitionFacts]:
    """Check in the journal whether an id has these producer ids and is only hidden from the caller."""
    live = LiveTransactions()
    try:
        for partition, batch in read_logs(resolved, attempt.half(), transaction_state.TOPIC):
            live.apply(partition, batch)
    except UnavailableError:
        return facts
    hidden = {one.state.producer_id: name for name, one in live.ids.items() if one.state.producer_id in strangers}
    return [with_journal(one, hidden, is_whole=not live.reading.unreadable) for one in facts]


def _rows(found: tuple[OpenTransaction, ...] | Refused) -> tuple[OpenTransaction, ...]:
    return () if isinstance(found, Refused) else found


def read_stretches(
    client: TransactionClient, spans: Mapping[Partition, tuple[int, int]]
) -> dict[Partition, LogStretch]:
    """Return the records of each span, without those that may not be read."""
    try:
        read = _read(client, spans)
    except errors.AuthorizationError:
        # One topic without permission fails the answer for all. DescribeProducers requires the same permission, and
        # reports it.
        topics = {at.topic for at in spans}
        if len(topics) == 1:
            return {}
        parts = ({at: span for at, span in spans.items() if at.topic == topic} for topic in topics)
        return {at: found for part in parts for at, found in read_stretches(client, part).items()}
    return {
        at: measure(batches, first_offset=spans[at][0], end_offset=spans[at][1], is_whole=is_whole)
        for at, (batches, is_whole) in read.items()
    }


def _read(
    client: TransactionClient, spans: Mapping[Partition, tuple[int, int]]
) -> dict[Partition, tuple[Batches, bool]]:
    """Return the first batches of each span, and whether they are all."""
    positions = {at: first for at, (first, _) in spans.items()}
    batches: defaultdict[Partition, Batches] = defaultdict(list)
    for _ in range(_ANSWERS):
        left = {at: offset for at, offset in positions.items() if offset < spans[at][1]}
        if not left:
            break
        for at, found in client.fetch(left).items():
            batches[at] += found.batches
            positions[at] = found.next_offset
    return {at: (batches[at], positions[at] >= end) for at, (_, end) in spans.items()}
