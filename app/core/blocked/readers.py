"""Blocked readers of a cluster: partitions whose last stable offset does not advance, by the open transaction there.

The observer knows all open transactions. The brokers are asked about partitions of those that are open for some time,
and of hanging ones (app/core/blocked/loops/blocked_readers.py). Each transaction is one `BlockedReaders`, however many
partitions it blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from app.core.blocked.advice import AdviceVerdict, Asked
from app.core.blocked.diagnosis import Diagnosis, diagnose_partition
from app.core.blocked.facts import LogEnds, PartitionFacts, Refused
from app.core.clusters.partition import Partition
from app.core.hanging.report import SearchReport
from app.core.journals.group_records import TOPIC as GROUPS
from app.core.journals.live_groups import LiveGroup
from app.core.journals.transaction_state import TOPIC as TRANSACTIONS
from app.core.observing.snapshot import Snapshot
from app.kit.words import count, moment

OPEN_AFTER_MS = 10_000
"""A transaction that is open for a shorter time is not asked about: most of them end in between."""
OURS_AFTER_MS = 30_000
"""A living task of Fenceline ends its transaction by itself; a batch of a query may take a while."""
MOST_PARTITIONS = 200
"""The most partitions of a cluster in one request; a transaction may have thousands."""
_QUIET = frozenset({AdviceVerdict.FREE, AdviceVerdict.UNSETTLED, AdviceVerdict.ONLY_MARKERS})

_Producer = tuple[int, int]


class BlockedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """records: behind the last stable offset, as many as were read: `at_least` says whether there are more."""

    topic: str
    partition: int
    last_stable: int
    high_watermark: int
    records: int
    at_least: bool = False

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class WaitingGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group with members whose committed offset is not beyond a last stable offset. before: the offsets up to it."""

    group: str
    before: int


class BlockedReaders(msgspec.Struct, frozen=True, kw_only=True):
    """One transaction, the partitions that it blocks, and who waits there.

    transactional_id: None if no coordinator knows it. owner: the Fenceline task, or the clients of the producer's
    groups; empty if it is not known. since_ms: it is open at least since then, by this server's clock.
    until_ms: the time at which its coordinator ends it; None: it does not, or that is not known.
    """

    cluster: str
    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    owner: str
    is_ours: bool
    since_ms: int
    until_ms: int | None
    verdict: AdviceVerdict
    advice: str
    partitions: tuple[BlockedPartition, ...]
    groups: tuple[WaitingGroup, ...] = ()

    @property
    def since(self) -> datetime | None:
        return moment(self.since_ms)

    @property
    def until(self) -> datetime | None:
        return moment(self.until_ms)

    @property
    def records(self) -> int:
        return sum(one.records for one in self.partitions)

    @property
    def key(self) -> str:
        """The same for as long as the transaction is open."""
        return f"{self.cluster}-{self.producer_id}-{self.producer_epoch}"

    @property
    def sentence(self) -> str:
        """The sentence about the blocked readers and the transaction."""
        more = "at least " if any(one.at_least for one in self.partitions) else ""
        where = self.partitions[0].name
        if len(self.partitions) > 1:
            where += f" and {count(len(self.partitions) - 1, 'other partition')}"
        by = self.transactional_id or f"producer {self.producer_id}, whose transactional id is not known"
        return f"{where}: {more}{count(self.records, 'record')} blocked by {by}"


class BlockedReport(msgspec.Struct, frozen=True, kw_only=True):
    """The blocked readers of a cluster, the longest blocked first, as of `at_ms` by this server's clock (-1: never).

    problem: why they are not known now; `causes` are the last known ones then.
    left_out: suspected partitions that were not asked about, beyond MOST_PARTITIONS.
    """

    cluster: str
    at_ms: int = -1
    causes: tuple[BlockedReaders, ...] = ()
    problem: str = ""
    left_out: int = 0

    @property
    def at(self) -> datetime | None:
        return moment(self.at_ms)

    @property
    def shown(self) -> tuple[object, ...]:
        """The values whose change refreshes a page."""
        return self.problem, self.left_out, self.causes


class OpenSince:
    """Since when transactions are open at least, by this server's clock, with any clocks of brokers."""

    def __init__(self) -> None:
        # By producer: the start of its open transaction by its coordinator, and when it was first seen.
        self._first_seen: dict[_Producer, tuple[int, int]] = {}

    def of(self, producer: _Producer, *, now_ms: int) -> int:
        return self._first_seen[producer][1] if producer in self._first_seen else now_ms

    def see(self, snapshot: Snapshot, search: SearchReport, *, now_ms: int) -> list[Partition]:
        """Return the partitions of transactions that are open for OPEN_AFTER_MS, the longest open first."""
        since: dict[_Producer, tuple[int, int]] = {}
        partitions: dict[_Producer, Iterable[Partition]] = {}
        for live in snapshot.open_transactions.values():
            state = live.state
            if state.start_ms <= 0:
                continue
            # Without a new epoch for each transaction, two of one producer differ in their start only.
            producer, started_ms = (state.producer_id, state.producer_epoch), state.start_ms
            age = snapshot.clocks.age_at(TRANSACTIONS, live.partition, started_ms, now_ms=now_ms)
            first_ms = self._first_seen_ms(producer, started_ms, now_ms)
            since[producer] = started_ms, min(first_ms, now_ms - age.least_ms if age is not None else now_ms)
            partitions[producer] = [
                Partition(one.topic, number)
                for one in state.partitions or ()
                if one.topic != GROUPS
                for number in one.partitions
            ]
        for one in search.hanging:
            producer = one.key.producer_id, one.key.producer_epoch
            if producer not in since:
                since[producer] = 0, min(self._first_seen_ms(producer, 0, now_ms), now_ms - OPEN_AFTER_MS)
            partitions[producer] = (*partitions.get(producer, ()), Partition(one.key.topic, one.key.partition))
        self._first_seen = since
        longest_first = sorted(since, key=lambda producer: since[producer][1])
        suspected = [one for one in longest_first if now_ms - since[one][1] >= OPEN_AFTER_MS]
        return list(dict.fromkeys(at for producer in suspected for at in partitions[producer]))

    def _first_seen_ms(self, producer: _Producer, started_ms: int, now_ms: int) -> int:
        before = self._first_seen.get(producer)
        return now_ms if before is None or before[0] != started_ms else min(now_ms, before[1])


def blocked_readers(
    cluster: str,
    facts: Sequence[PartitionFacts],
    asked: Asked,
    groups: Mapping[str, LiveGroup],
    since: OpenSince | None = None,
) -> tuple[tuple[BlockedReaders, ...], str]:
    """Return one entry for each transaction that blocks readers, the longest open first; and what is not known.

    groups: of the cluster, as its journal was read. since: None: only the coordinators' answers have ages; a
    transaction of unknown age is not left out as a young one.
    """
    unknown: list[str] = []
    found: defaultdict[_Producer, list[tuple[PartitionFacts, Diagnosis]]] = defaultdict(list)
    for one in facts:
        if isinstance(one.ends, Refused) and one.ends.is_no_such_partition:
            # Its topic was deleted while the transaction was open.
            continue
        diagnosis = diagnose_partition(one, asked)
        if diagnosis.holder is None and diagnosis.verdict is AdviceVerdict.CANNOT_TELL:
            unknown.append(f"{diagnosis.headline} {diagnosis.advice}")
        elif diagnosis.holder is not None and diagnosis.verdict not in _QUIET:
            found[diagnosis.holder.producer_id, diagnosis.holder.producer_epoch].append((one, diagnosis))
    causes = [_cause(cluster, producer, blocked, asked, groups, since) for producer, blocked in found.items()]
    lasting = [one for one in causes if not _is_young(one, now_ms=asked.now_ms, is_age_known=since is not None)]
    more = f" And {count(len(unknown) - 1, 'other partition')}." if len(unknown) > 1 else ""
    return tuple(sorted(lasting, key=lambda one: (one.since_ms, one.key))), "".join(unknown[:1]) + more


def _is_young(cause: BlockedReaders, *, now_ms: int, is_age_known: bool) -> bool:
    """Return True for a transaction that is younger than the suspected one was, or of a task at work."""
    age_ms = now_ms - cause.since_ms
    if cause.verdict is AdviceVerdict.OWNER:
        return age_ms < OURS_AFTER_MS
    return cause.transactional_id is not None and age_ms < OPEN_AFTER_MS and (is_age_known or age_ms > 0)


def _cause(
    cluster: str,
    producer: _Producer,
    blocked: Sequence[tuple[PartitionFacts, Diagnosis]],
    asked: Asked,
    groups: Mapping[str, LiveGroup],
    since: OpenSince | None,
) -> BlockedReaders:
    order = list(AdviceVerdict)
    worst = min((diagnosis for _, diagnosis in blocked), key=lambda one: order.index(one.verdict))
    holder = worst.holder
    assert holder is not None  # noqa: S101 - only those are collected
    name = holder.transactional_id
    known = [facts.coordinators.known.get(producer[0]) for facts, _ in blocked]
    ages_ms = [one.age.least_ms for one in known if one is not None and one.age is not None]
    owner = (asked.owners or {}).get(name or "")
    partitions = sorted((_partition(one) for one, _ in blocked), key=lambda one: (-one.records, one.name))
    return BlockedReaders(
        cluster=cluster,
        producer_id=producer[0],
        producer_epoch=producer[1],
        transactional_id=name,
        owner=owner.name if owner is not None else _clients_of(producer, groups.values()),
        is_ours=owner is not None,
        since_ms=min(
            asked.now_ms if since is None else since.of(producer, now_ms=asked.now_ms),
            asked.now_ms - max(ages_ms, default=0),
        ),
        until_ms=worst.until_ms,
        verdict=worst.verdict,
        advice=worst.advice,
        partitions=tuple(partitions),
        groups=_waiting(partitions, groups.values()),
    )


def _partition(facts: PartitionFacts) -> BlockedPartition:
    ends, waiting = facts.ends, facts.waiting
    assert isinstance(ends, LogEnds)  # noqa: S101 - else nothing is known to block it
    return BlockedPartition(
        topic=facts.topic,
        partition=facts.partition,
        last_stable=ends.last_stable,
        high_watermark=ends.high_watermark,
        records=ends.high_watermark - ends.last_stable if waiting is None else waiting.records + waiting.undecided,
        at_least=waiting is not None and not waiting.is_whole,
    )


def _waiting(partitions: Iterable[BlockedPartition], groups: Iterable[LiveGroup]) -> tuple[WaitingGroup, ...]:
    """The groups with members that have not read beyond the last stable offset, the nearest to it first.

    A group beyond it reads uncommitted records, and waits for nothing.
    """
    stable = {(one.topic, one.partition): one.last_stable for one in partitions}
    found: list[WaitingGroup] = []
    for group in groups:
        before = [
            at - stored.commit.offset
            for place, at in stable.items()
            if (stored := group.offsets.get(place)) is not None and stored.commit.offset <= at
        ]
        if before and group.member_count:
            found.append(WaitingGroup(group=group.group, before=min(before)))
    return tuple(sorted(found, key=lambda one: (one.before, one.group)))


def _clients_of(producer: _Producer, groups: Iterable[LiveGroup]) -> str:
    """The members of the groups for which this producer has pending offsets: brokers tell no client of a producer."""
    for group in groups:
        if not any(key[2] == producer[0] for key in group.pending):
            continue
        classic = group.classic.members if group.classic is not None else ()
        clients = {(one.client_id, one.client_host) for one in classic}
        clients |= {
            (one.metadata.client_id, one.metadata.client_host)
            for one in group.members.values()
            if one.metadata is not None
        }
        told = ", ".join(f"{name} on {host}" for name, host in sorted(clients)[:3])
        more = f" and {len(clients) - 3} more" if len(clients) > 3 else ""
        return f"a client of group {group.group}" + (f": {told}{more}" if told else "")
    return ""
