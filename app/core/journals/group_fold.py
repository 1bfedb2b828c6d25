"""Compute the groups from the records of `__consumer_offsets` (live_groups.py has the result).

Offsets of a transactional batch are pending until a marker of the same producer id in the same journal partition. The
marker commits or aborts them. The computation tolerates repeated records, compaction, a start in the middle, and
unknown versions. After such a start, a marker decides only the records that were read before it. Groups outside a
filter are only counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from app.core.journals import group_records
from app.core.journals.double_processing import DecidedCommit, ProducerCommit
from app.core.journals.group_records import GroupRecordKey, GroupRecordValue, RecordType
from app.core.journals.group_values import share
from app.core.journals.group_values.classic import ClassicGroup, ClassicMember
from app.core.journals.group_values.consumer import (
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    Pattern,
    TargetAssignment,
    TargetAssignmentEpoch,
)
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.group_values.share import (
    ShareCurrentAssignment,
    ShareGroupEpoch,
    ShareMember,
    ShareStatePartitions,
)
from app.core.journals.group_values.streams import (
    StreamsCurrentAssignment,
    StreamsGroupEpoch,
    StreamsMember,
    StreamsTargetAssignment,
    StreamsTopology,
)
from app.core.journals.group_values.streams_members import current_of, member_of, target_of
from app.core.journals.live_groups import (
    MAX_MEMBER_CHANGES,
    MAX_REBALANCES,
    CommittedOffset,
    LiveGroup,
    LiveMember,
    MemberChange,
    Rebalance,
)
from app.core.journals.query_marker import marker_of
from app.core.journals.reading import JournalCounts
from app.core.journals.record_batch import MarkerType, RecordBatch, UnreadableBatch, read_marker
from app.core.journals.wire_message import Undecodable


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    """The place of a transaction's pending offsets."""

    group: str
    topic: str
    partition: int


class LiveGroups(msgspec.Struct):
    """All groups, and the positions in the journal. A restart continues from its MessagePack.

    undecided: by journal partition and producer id, the offsets that the next marker decides.
    """

    reading: JournalCounts = msgspec.field(default_factory=JournalCounts)
    groups: dict[str, LiveGroup] = {}
    undecided: dict[tuple[int, int], list[_Waiting]] = {}
    records_of_others: int = 0

    def apply(
        self,
        partition: int,
        batch: RecordBatch | UnreadableBatch,
        *,
        is_wanted: Callable[[str], bool] = lambda _: True,
    ) -> set[str]:
        """Apply a batch, and return the changed groups, including deleted ones."""
        changed: set[str] = set()
        if not self.reading.is_news(partition, batch):
            return changed
        if isinstance(batch, RecordBatch) and batch.is_control:
            return self._decide(partition, batch)
        for record in self.reading.records_of(batch):
            key = group_records.decode_key(record.key or b"")
            if isinstance(key, Undecodable):
                self.reading.count_unreadable(key)
                continue
            if not is_wanted(key.group):
                self.records_of_others += 1
                continue
            value = group_records.decode_value(key.type, record.value)
            if isinstance(value, Undecodable):
                self.reading.count_unreadable(value)
                continue
            group = self.groups.get(key.group)
            if group is None:
                group = self.groups[key.group] = LiveGroup(key.group, partition=partition)
            if isinstance(value, OffsetCommit) and isinstance(batch, RecordBatch) and batch.is_transactional:
                at = (key.topic, key.partition, batch.producer_id)
                if at not in group.pending:
                    waiting = self.undecided.setdefault((partition, batch.producer_id), [])
                    waiting.append(_Waiting(key.group, key.topic, key.partition))
                # If it is sent several times in one transaction, the last one is pending.
                group.pending[at] = CommittedOffset(value, record.offset, batch.producer_id, batch.producer_epoch)
            else:
                _fold_record(
                    group, key, value, record.offset, record.timestamp_ms, whole_since=self._whole_since(partition)
                )
            if group.is_gone:
                del self.groups[key.group]
            changed.add(key.group)
        return changed

    def forget(self, partition: int) -> list[str]:
        """Drop the state of this partition, to read it from its beginning; return the dropped groups."""
        gone = [name for name, live in self.groups.items() if live.partition == partition]
        for name in gone:
            del self.groups[name]
        for at in [at for at in self.undecided if at[0] == partition]:
            del self.undecided[at]
        self.reading.forget(partition)
        return gone

    def _whole_since(self, partition: int) -> int:
        return self.reading.positions[partition].whole_offset

    def _decide(self, partition: int, batch: RecordBatch) -> set[str]:
        """A marker commits or aborts the pending offsets of its producer in this journal partition."""
        self.reading.records += batch.record_count
        marker = read_marker(batch)
        if isinstance(marker, Undecodable):
            self.reading.count_unreadable(marker)
            return set()
        changed: set[str] = set()
        decided: dict[str, list[DecidedCommit]] = {}
        for waiting in self.undecided.pop((partition, batch.producer_id), ()):
            group = self.groups.get(waiting.group)
            pending = group and group.pending.pop((waiting.topic, waiting.partition, batch.producer_id), None)
            if group is None or pending is None:
                continue
            changed.add(group.group)
            if marker.type is MarkerType.ABORT:
                group.offsets_aborted += 1
            else:
                at = (waiting.topic, waiting.partition)
                existing = group.offsets.get(at)
                is_newer = existing is None or pending.journal_offset > existing.journal_offset
                # A later commit without a producer has replaced it already.
                if (is_newer or (existing is not None and existing.producer_id >= 0)) and _is_position(pending.commit):
                    decided.setdefault(group.group, []).append(_decided(at, pending))
                # As in the coordinator: of two commits the later one wins, in any order of their markers.
                if is_newer:
                    group.offsets[at] = pending
            if group.is_gone:
                del self.groups[group.group]
        for name, commits in decided.items():
            group = self.groups[name]
            group.watch.take(commits, members=group.member_count, whole_since=self._whole_since(partition))
        return changed


def _is_position(value: OffsetCommit) -> bool:
    """Return False for the marker of a query, whose offset is the number of a batch."""
    return not value.metadata or marker_of(value.offset, value.metadata) is None


def _decided(at: tuple[str, int], found: CommittedOffset) -> DecidedCommit:
    value = found.commit
    commit = ProducerCommit(
        value.offset, value.commit_ms, found.journal_offset, found.producer_id, found.producer_epoch
    )
    return DecidedCommit(at, commit, value.topic_id)


def _fold_record(
    group: LiveGroup,
    key: GroupRecordKey,
    value: GroupRecordValue | None,
    offset: int,
    timestamp_ms: int,
    *,
    whole_since: int,
) -> None:
    """Records of groups are complete states: the newest one is sufficient."""
    if key.type not in (RecordType.OFFSET_COMMIT, RecordType.LEGACY_OFFSET_COMMIT):
        group.watch.membership_at = offset
    match value:
        case None:
            _forget(group, key, offset, timestamp_ms)
        case OffsetCommit():
            group.offsets[key.topic, key.partition] = CommittedOffset(value, offset)
            group.watch.set_without_producer(
                key.topic,
                key.partition,
                value,
                journal_offset=offset,
                members=group.member_count,
                whole_since=whole_since,
            )
        case ClassicGroup():
            if group.classic is None or value.generation != group.classic.generation:
                at_ms = value.state_changed_ms if value.state_changed_ms >= 0 else timestamp_ms
                _remember(group, Rebalance(value.generation, len(value.members), at_ms, offset))
            _note_classic_members(group, value, offset, timestamp_ms)
            group.classic = value
        case GroupEpoch():
            _reach(group, value.epoch, offset, timestamp_ms)
        case TargetAssignmentEpoch():
            group.target_epoch = value.assignment_epoch
        case ConsumerMember():
            _join(group, key.member_id, value, offset, timestamp_ms)
        case TargetAssignment():
            _member(group, key).target = value
        case CurrentAssignment():
            _member(group, key).current = value
        case Pattern():
            group.patterns[key.pattern] = value
        case StreamsGroupEpoch():
            group.subtopologies = group.subtopologies or {}
            _reach(group, value.epoch, offset, timestamp_ms)
        case StreamsTopology():
            group.subtopologies = {one.subtopology: one.read_topics for one in value.subtopologies}
        case StreamsMember():
            _join(group, key.member_id, member_of(value), offset, timestamp_ms)
        case StreamsTargetAssignment():
            _member(group, key).target = target_of(value)
        case StreamsCurrentAssignment():
            _member(group, key).current = current_of(value)
        case ShareGroupEpoch():
            group.is_share = True
            _reach(group, value.epoch, offset, timestamp_ms)
        case ShareMember():
            _join(group, key.member_id, share.member_of(value), offset, timestamp_ms)
        case ShareCurrentAssignment():
            _member(group, key).current = share.current_of(value)
        case ShareStatePartitions():
            group.topic_names = value.topic_names
        case _:
            # Partition metadata (3.x): the topics' own metadata is newer.
            pass


def _forget(group: LiveGroup, key: GroupRecordKey, offset: int, timestamp_ms: int) -> None:
    match key.type:
        case RecordType.OFFSET_COMMIT | RecordType.LEGACY_OFFSET_COMMIT:
            group.offsets.pop((key.topic, key.partition), None)
            group.watch.forget(key.topic, key.partition)
        case RecordType.CLASSIC_GROUP:
            group.classic = None
        case RecordType.GROUP_EPOCH:
            group.epoch = None
        case RecordType.STREAMS_GROUP_EPOCH:
            group.epoch, group.subtopologies = None, None
        case RecordType.SHARE_GROUP_EPOCH:
            group.epoch, group.is_share = None, False
        case (
            RecordType.TARGET_ASSIGNMENT_EPOCH
            | RecordType.STREAMS_TARGET_ASSIGNMENT_EPOCH
            | RecordType.SHARE_TARGET_ASSIGNMENT_EPOCH
        ):
            group.target_epoch = -1
        case RecordType.MEMBER | RecordType.STREAMS_MEMBER | RecordType.SHARE_MEMBER:
            # Its other tombstones come first, and may have been compacted away.
            gone = group.members.pop(key.member_id, None)
            if gone is not None and gone.metadata is not None:
                said = [(key.member_id, gone.metadata)]
                _note(group, said, offset, timestamp_ms, has_left=True, members=len(group.members))
        case (
            RecordType.TARGET_ASSIGNMENT | RecordType.STREAMS_TARGET_ASSIGNMENT | RecordType.SHARE_TARGET_ASSIGNMENT
        ) if key.member_id in group.members:
            group.members[key.member_id].target = None
        case (
            RecordType.CURRENT_ASSIGNMENT | RecordType.STREAMS_CURRENT_ASSIGNMENT | RecordType.SHARE_CURRENT_ASSIGNMENT
        ) if key.member_id in group.members:
            group.members[key.member_id].current = None
        case RecordType.SHARE_STATE_PARTITIONS:
            group.topic_names = {}
        case RecordType.PATTERN:
            group.patterns.pop(key.pattern, None)
        case _:
            pass


def _member(group: LiveGroup, key: GroupRecordKey) -> LiveMember:
    return group.members.setdefault(key.member_id, LiveMember())


def _reach(group: LiveGroup, epoch: int, offset: int, timestamp_ms: int) -> None:
    if epoch != group.epoch:
        _remember(group, Rebalance(epoch, len(group.members), timestamp_ms, offset))
    group.epoch = epoch


def _remember(group: LiveGroup, rebalance: Rebalance) -> None:
    group.rebalances.append(rebalance)
    del group.rebalances[:-MAX_REBALANCES]


def _join(group: LiveGroup, member_id: str, said: ConsumerMember, offset: int, timestamp_ms: int) -> None:
    member = group.members.setdefault(member_id, LiveMember())
    if member.metadata is None:
        _note(group, [(member_id, said)], offset, timestamp_ms, has_left=False, members=len(group.members))
    member.metadata = said


def _note_classic_members(group: LiveGroup, value: ClassicGroup, offset: int, timestamp_ms: int) -> None:
    """Note the members that are gone, then the new ones: a record of a classic group has all members."""
    before = {one.member_id: one for one in (() if group.classic is None else group.classic.members)}
    after = {one.member_id: one for one in value.members}
    left = [(name, one) for name, one in before.items() if name not in after]
    joined = [(name, one) for name, one in after.items() if name not in before]
    _note(group, left, offset, timestamp_ms, has_left=True, members=len(after))
    _note(group, joined, offset, timestamp_ms, has_left=False, members=len(after))


def _note(
    group: LiveGroup,
    some: Sequence[tuple[str, ConsumerMember | ClassicMember]],
    offset: int,
    timestamp_ms: int,
    *,
    has_left: bool,
    members: int,
) -> None:
    changes = (
        MemberChange(
            name, one.instance_id or "", one.client_id, one.client_host, timestamp_ms, offset, has_left, members
        )
        for name, one in some
    )
    group.changes = (*group.changes, *changes)[-MAX_MEMBER_CHANGES:]
