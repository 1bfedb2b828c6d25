"""Journals as an observer reads them: batches of any partition, and a cluster's live model fed with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from app.core.clocks.broker_clocks import ClockSample
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.journals import group_records
from app.core.journals.group_records import GroupRecordKey, RecordType
from app.core.journals.group_values.classic import ClassicGroup, ClassicMember
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.record_batch import MarkerType, RecordBatch
from app.core.journals.transaction_state import (
    TOPIC,
    TopicPartitions,
    TransactionState,
    TransactionStatus,
    encode_key,
    encode_value,
)
from app.core.observing.live_cluster import Folds, LiveCluster
from app.core.observing.snapshot import ReadingPhase
from app.core.wiring import Wiring
from tests.core.journals.batches import batch_of, marker

ODD = "a/b ?#%й🚀"
NOW_MS = 1_800_000_000_000


def state_of(
    status: TransactionStatus = TransactionStatus.ONGOING,
    *,
    epoch: int = 0,
    producer_id: int = 7,
    start_ms: int = NOW_MS,
    changed_ms: int = NOW_MS,
) -> TransactionState:
    return TransactionState(
        producer_id,
        epoch,
        60_000,
        status,
        (TopicPartitions("orders", (0,)),),
        last_update_ms=changed_ms,
        start_ms=start_ms,
    )


def transaction_batch(name: str, state: TransactionState | None, *, at: int, at_ms: int = 1_000) -> RecordBatch:
    """One record, appended at `at_ms`; None is a tombstone."""
    value = None if state is None else encode_value(state)
    return batch_of([(encode_key(name), value)], base_offset=at, timestamp_ms=at_ms)


def offset_batch(group: str, offset: int, *, at: int, producer_id: int = -1, committed_ms: int = NOW_MS) -> RecordBatch:
    """A stored offset, pending when a producer id is given."""
    key = group_records.encode_key(GroupRecordKey(group, "orders", 0, type=RecordType.OFFSET_COMMIT))
    value = group_records.encode_value(RecordType.OFFSET_COMMIT, OffsetCommit(offset, commit_ms=committed_ms), 3)
    return batch_of(
        [(key, value)],
        base_offset=at,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        is_transactional=producer_id >= 0,
    )


def double_commits(group: str, *, at: int, committed_ms: int) -> list[RecordBatch]:
    """Producer 7 commits 100 and 110, then producer 8 commits 105 and 120: offsets 105 to 109 are proved twice."""
    made = [generation_batch(group, 1, at=at)]
    for producer_id, offset in ((7, 100), (7, 110), (8, 105), (8, 120)):
        sent = offset_batch(
            group, offset, at=at + len(made), producer_id=producer_id, committed_ms=committed_ms + len(made) * 1_000
        )
        made += [sent, marker(MarkerType.COMMIT, base_offset=at + len(made) + 1, producer_id=producer_id)]
    return made


def generation_batch(group: str, generation: int, *, at: int, at_ms: int = NOW_MS) -> RecordBatch:
    """A classic group with one member, as a rebalance left it."""
    key = group_records.encode_key(GroupRecordKey(group, type=RecordType.CLASSIC_GROUP))
    members = (ClassicMember("member-1", client_id="client", client_host="/127.0.0.1"),)
    value = ClassicGroup("consumer", generation, "range", "member-1", at_ms, members)
    return batch_of(
        [(key, group_records.encode_value(RecordType.CLASSIC_GROUP, value, 3))], base_offset=at, timestamp_ms=at_ms
    )


def live_transaction(name: str, state: TransactionState, *, partition: int = 0, offset: int = 0) -> LiveTransaction:
    return LiveTransaction(name, state, partition, offset)


def cluster(folds: Folds | None = None, *, partitions: Sequence[int] = (0,)) -> LiveCluster:
    """A cluster whose journals are followed, without an answer so far."""
    live = LiveCluster("c", folds or Folds(), is_wanted=lambda _: True, now_ms=NOW_MS)
    for journal in (live.transactions, live.groups):
        journal.progress.expect(partitions, now_ms=NOW_MS)
    return live


def set_clock(live: LiveCluster, *, behind_ms: int = 0, partition: int = 0, now_ms: int = NOW_MS) -> None:
    """A broker that leads this partition of both journals, and whose clock is measured."""
    for topic in (TOPIC, group_records.TOPIC):
        live.clocks.lead(topic, partition, 1)
    live.clocks.note(ClockSample(1, now_ms - behind_ms, now_ms, now_ms))


def hear(
    live: LiveCluster,
    *batches: RecordBatch,
    topic: str = TOPIC,
    partition: int = 0,
    end: int | None = None,
    now_ms: int = NOW_MS,
) -> None:
    """An answer of the partition's leader, whose log ends after these batches unless `end` is given."""
    journal = live.journal(topic)
    next_offset = batches[-1].last_offset + 1 if batches else journal.next_offset(partition)
    journal.read(partition, batches, next_offset=next_offset, end=next_offset if end is None else end, now_ms=now_ms)


async def observed_cluster(wiring: Wiring) -> LiveCluster:
    """The registered cluster "c", followed live: ODD is open since 90 s, with an offset of a group pending; "done" is
    not. `publish` again after hearing more."""
    async with wiring.unit_of_work() as uow:
        await uow.of(ClusterStore).add(
            Cluster(
                name="c",
                kafka_cluster_id="kafka-1",
                bootstrap_servers="127.0.0.1:1",
                created_at=datetime.now(UTC),
                created_by="somebody",
            )
        )
        await uow.commit()
    made = cluster()
    now_ms = int(wiring.clock.now().timestamp() * 1000)
    hear(
        made,
        transaction_batch(ODD, state_of(start_ms=now_ms - 90_000, producer_id=7), at=0),
        transaction_batch("done", state_of(TransactionStatus.COMPLETE_COMMIT, producer_id=8), at=1),
        now_ms=now_ms,
    )
    hear(
        made,
        offset_batch("orders/copier", 5, at=0),
        offset_batch("orders/copier", 9, at=1, producer_id=7),
        topic=group_records.TOPIC,
        now_ms=now_ms,
    )
    for journal in (made.transactions, made.groups):
        made.enter(journal.topic, ReadingPhase.LIVE, now_ms=now_ms)
    publish(wiring, made)
    return made


def publish(wiring: Wiring, live: LiveCluster) -> None:
    wiring.observations.publish(live.snapshot(now_ms=int(wiring.clock.now().timestamp() * 1000)))
