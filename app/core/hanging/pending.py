"""Pending offsets of open transactions: a new owner of these partitions cannot start before the transactions end.

Until then its OffsetFetch gets UNSTABLE_OFFSET_COMMIT.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from app.core.hanging.hanging_transaction import HangingTransaction
from app.core.journals import group_records
from app.core.observing.snapshot import Snapshot

NOT_WORTH_A_WORD_MS = 1_000
"""Each transaction has pending offsets during its commit, for a moment."""


class PendingHold(msgspec.Struct, frozen=True, kw_only=True):
    """A group's offset that is pending since `since_ms` (by the server's clock, if its coordinator's is measured).

    transactional_id, state, times_out_ms: of its transaction, if the coordinators' journal has it. They are None for a
    hanging one: it stays pending until it is ended in `journal_partition` of __consumer_offsets.
    """

    group: str
    topic: str
    partition: int
    offset: int
    since_ms: int
    producer_id: int
    producer_epoch: int
    journal_partition: int
    transactional_id: str | None
    state: str | None
    times_out_ms: int | None
    is_hanging: bool


def pending_holds(
    snapshot: Snapshot, hanging: Collection[HangingTransaction], *, now_ms: int, for_ms: int = NOT_WORTH_A_WORD_MS
) -> tuple[PendingHold, ...]:
    """Return the offsets that have been pending for that long, the oldest first, and those with an unknown age."""
    groups = [group for group in snapshot.groups.values() if group.pending]
    if not groups:
        return ()
    hang = {(one.key.partition, one.key.producer_id) for one in hanging if one.key.topic == group_records.TOPIC}
    owners = {live.state.producer_id: live for live in snapshot.open_transactions.values()}
    found: list[PendingHold] = []
    for group in groups:
        for (topic, partition, producer_id), pending in group.pending.items():
            stamped_ms = pending.commit.commit_ms
            age = snapshot.clocks.age_at(group_records.TOPIC, group.partition, stamped_ms, now_ms=now_ms)
            if age is not None and age.most_ms < for_ms:
                continue
            since_ms = snapshot.clocks.ours_ms(group_records.TOPIC, group.partition, stamped_ms)
            is_hanging = (group.partition, producer_id) in hang
            owner = None if is_hanging else owners.get(producer_id)
            found.append(
                PendingHold(
                    group=group.group,
                    topic=topic,
                    partition=partition,
                    offset=pending.commit.offset,
                    since_ms=since_ms,
                    producer_id=producer_id,
                    producer_epoch=pending.producer_epoch,
                    journal_partition=group.partition,
                    is_hanging=is_hanging,
                    transactional_id=None if owner is None else owner.transactional_id,
                    state=None if owner is None else owner.state.status.word,
                    times_out_ms=None if owner is None else snapshot.clocks.ours(owner).times_out_at_ms,
                )
            )
    return tuple(sorted(found, key=lambda one: (one.since_ms, one.group, one.topic, one.partition)))
