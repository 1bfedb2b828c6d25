"""The brokers' answers, for diagnoses without brokers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.core.blocked.diagnosis import Asked
from app.core.blocked.facts import (
    Coordinators,
    KnownTransaction,
    LogEnds,
    OpenTransaction,
    PartitionFacts,
    Refused,
    TaskOwner,
)
from app.core.blocked.stretch import LogStretch
from app.core.clocks.clock_offset import ClockOffset
from app.core.clusters.partition import Partition

NOW_MS = 1_700_000_100_000
ID = "orders-7"
IN_STEP = ClockOffset(least_ms=0, most_ms=0, measured_ms=NOW_MS)


def asked(*, owners: dict[str, TaskOwner] | None = None, clocks: dict[int, ClockOffset] | None = None) -> Asked:
    return Asked(bootstrap_servers="b1:9092", now_ms=NOW_MS, owners=owners, clocks=clocks or {})


def opened(*, producer_id: int = 4015, producer_epoch: int = 2, start: int = 10, coordinator_epoch: int = 3):
    return OpenTransaction(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_sequence=41,
        last_ms=NOW_MS - 7_000,
        start_offset=start,
    )


def known(
    *,
    state: str = "Ongoing",
    age_ms: int = 7_000,
    timeout_ms: int = 10_000,
    partitions: Sequence[Partition] = (Partition("orders", 0), Partition("__consumer_offsets", 12)),
    producer_epoch: int = 2,
    clock: ClockOffset | None = IN_STEP,
) -> KnownTransaction:
    return KnownTransaction(
        transactional_id=ID,
        coordinator_id=1,
        state=state,
        producer_id=4015,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        start_ms=NOW_MS - age_ms,
        partitions=frozenset(partitions),
        age=None if clock is None else clock.age_of(NOW_MS - age_ms, now_ms=NOW_MS),
    )


def held(
    said: KnownTransaction | None,
    *,
    rows: tuple[OpenTransaction, ...] | Refused | None = None,
    ended_since: bool = False,
    unanswered: tuple[Refused, ...] = (),
    is_corroborated: bool = True,
) -> PartitionFacts:
    """orders-0 with LSO 10 and high watermark 14, and the coordinators' answer about producer 4015."""
    found = (opened(),) if rows is None else rows
    still = () if isinstance(found, Refused) or ended_since else found
    return PartitionFacts(
        topic="orders",
        partition=0,
        ends=LogEnds(0, 10, 14),
        ends_at_ms=NOW_MS - 300,
        open=found,
        open_at_ms=NOW_MS - 200,
        still_open=frozenset(row.identity for row in still),
        coordinators=Coordinators(
            {} if said is None else {4015: said}, unanswered, is_corroborated=is_corroborated, at_ms=NOW_MS - 100
        ),
        waiting=LogStretch(10, 14, undecided=4, first_ms=NOW_MS - 7_000),
    )


def read_through(facts: PartitionFacts) -> PartitionFacts:
    """The same partition, not blocked."""
    return msgspec.structs.replace(facts, ends=LogEnds(0, 14, 14), open=(), still_open=frozenset(), waiting=None)
