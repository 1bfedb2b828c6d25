"""What `__consumer_offsets` says of every group now: generation or epoch, members, committed and pending offsets.

Offsets of a transactional batch are pending until the marker of the same producer id in the same partition of the
journal commits or aborts them. The fold survives records read twice, compaction, a beginning in the middle (a marker
decides what was read before it, nothing else) and versions of the future. Groups outside a filter are only counted.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from app.domain.journals import group_records
from app.domain.journals.group_records import GroupRecordKey, GroupRecordValue, RecordType
from app.domain.journals.group_values.classic import ClassicGroup
from app.domain.journals.group_values.consumer import (
    CurrentAssignment,
    GroupEpoch,
    Member,
    MemberState,
    Pattern,
    TargetAssignment,
    TargetAssignmentEpoch,
)
from app.domain.journals.group_values.offsets import OffsetCommit
from app.domain.journals.group_values.streams import (
    StreamsCurrentAssignment,
    StreamsGroupEpoch,
    StreamsMember,
    StreamsTargetAssignment,
    StreamsTopology,
)
from app.domain.journals.group_values.streams_members import current_of, member_of, target_of
from app.domain.journals.reading import Reading
from app.domain.journals.record_batch import MarkerType, RecordBatch, UnreadableBatch, read_marker
from app.domain.journals.wire_message import Undecodable

MAX_REBALANCES = 20


class GroupKind(StrEnum):
    """OFFSETS_ONLY: somebody commits under this name, and no member has been seen.

    CONSUMER: KIP-848. STREAMS: KIP-1071; Kafka Streams has classic groups unless it is told otherwise.
    """

    OFFSETS_ONLY = "offsets_only"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"


class GroupState(StrEnum):
    """In Kafka's words, as far as the journal tells: a classic group's record says that a rebalance has ended.

    ASSIGNING: the group's epoch is ahead of its assignment's. RECONCILING: members are behind the assignment.
    PREPARING_REBALANCE, COMPLETING_REBALANCE: of a classic group, told by its coordinator only. UNKNOWN: a word that
    a coordinator of the future says.
    """

    EMPTY = "Empty"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    UNKNOWN = "Unknown"


class Committed(msgspec.Struct, frozen=True, gc=False):
    """A stored offset; `producer_id` and `producer_epoch` are -1 where no transaction stored it."""

    commit: OffsetCommit
    journal_offset: int
    producer_id: int = -1
    producer_epoch: int = -1


class Rebalance(msgspec.Struct, frozen=True):
    """A generation or group epoch that was reached."""

    number: int
    members: int
    at_ms: int
    journal_offset: int


class LiveMember(msgspec.Struct):
    """A member of a KIP-848 or Streams group: what it said of itself, what it owns, what it shall own.

    Of a Streams group these are its active tasks, each as a partition of its subtopology, in the place of the topic id.
    """

    metadata: Member | None = None
    current: CurrentAssignment | None = None
    target: TargetAssignment | None = None


class LiveGroup(msgspec.Struct):
    """One group, told by `partition` of the journal, or by the coordinator that has this partition.

    offsets, pending: by topic and partition; pending ones also by producer id, since several transactions may wait.
        A coordinator says neither the producer (-1) nor the offset (-1) of a pending one.
    rebalances: the newest ones, oldest first. offsets_aborted: pending offsets that a marker threw away.
    answered_state: the coordinator's word, where it was asked; it tells no past and of a classic group no generation.
    topic_names: by topic id, as far as the coordinator told them.
    subtopologies: of a Streams group, the topics that each reads; None of all others.
    """

    group: str
    classic: ClassicGroup | None = None
    epoch: int | None = None
    target_epoch: int = -1
    members: dict[str, LiveMember] = {}
    patterns: dict[str, Pattern] = {}
    offsets: dict[tuple[str, int], Committed] = {}
    pending: dict[tuple[str, int, int], Committed] = {}
    rebalances: list[Rebalance] = []
    offsets_aborted: int = 0
    partition: int = -1
    answered_state: GroupState | None = None
    topic_names: dict[str, str] = {}
    subtopologies: dict[str, tuple[str, ...]] | None = None

    def copy(self) -> LiveGroup:
        """The group as it is now, which later records do not change."""
        return msgspec.structs.replace(
            self,
            members={name: msgspec.structs.replace(member) for name, member in self.members.items()},
            patterns=dict(self.patterns),
            offsets=dict(self.offsets),
            pending=dict(self.pending),
            rebalances=list(self.rebalances),
        )

    @property
    def is_from_journal(self) -> bool:
        """False for what the admin calls said."""
        return self.answered_state is None

    @property
    def member_count(self) -> int:
        if self.has_epoch:
            return len(self.members)
        return len(self.classic.members) if self.classic is not None else 0

    @property
    def kind(self) -> GroupKind:
        if self.subtopologies is not None:
            return GroupKind.STREAMS
        if self.epoch is not None:
            return GroupKind.CONSUMER
        # A group without members and protocol type is one that only stores offsets.
        return GroupKind.CLASSIC if self.classic is not None and self.classic.protocol_type else GroupKind.OFFSETS_ONLY

    @property
    def has_epoch(self) -> bool:
        """Whether it has a group epoch and members that follow it, instead of a generation."""
        return self.kind in _WITH_EPOCH

    @property
    def generation(self) -> int:
        """The classic generation or the group epoch; -1 where neither is known."""
        if self.epoch is not None:
            return self.epoch
        return -1 if self.classic is None else self.classic.generation

    @property
    def state(self) -> GroupState:
        if self.answered_state is not None:
            return self.answered_state
        if self.epoch is None:
            return GroupState.STABLE if self.classic is not None and self.classic.members else GroupState.EMPTY
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        currents = [member.current for member in self.members.values()]
        is_reached = all(
            current is not None and current.state is MemberState.STABLE and current.member_epoch == self.target_epoch
            for current in currents
        )
        return GroupState.STABLE if is_reached else GroupState.RECONCILING

    @property
    def is_gone(self) -> bool:
        """Nothing is left that a record told."""
        is_told = self.classic is not None or self.epoch is not None or self.subtopologies is not None
        return not (is_told or self.members or self.offsets or self.pending)


_WITH_EPOCH = frozenset({GroupKind.CONSUMER, GroupKind.STREAMS})


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    """Where a transaction's pending offsets are."""

    group: str
    topic: str
    partition: int


class LiveGroups(msgspec.Struct):
    """All groups, and how far the journal has been read. Its MessagePack is what a restart goes on from.

    undecided: by partition of the journal and producer id, what the next marker decides.
    """

    reading: Reading = msgspec.field(default_factory=Reading)
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
        """Fold a batch; the groups that it changed, deleted ones included."""
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
                # Sent several times in one transaction, the last one is what is pending.
                group.pending[at] = Committed(value, record.offset, batch.producer_id, batch.producer_epoch)
            else:
                _fold_record(group, key, value, record.offset, record.timestamp_ms)
            if group.is_gone:
                del self.groups[key.group]
            changed.add(key.group)
        return changed

    def forget(self, partition: int) -> list[str]:
        """Drop what this partition told, to read it from its beginning; the groups that are gone by it."""
        gone = [name for name, live in self.groups.items() if live.partition == partition]
        for name in gone:
            del self.groups[name]
        for at in [at for at in self.undecided if at[0] == partition]:
            del self.undecided[at]
        self.reading.forget(partition)
        return gone

    def _decide(self, partition: int, batch: RecordBatch) -> set[str]:
        """A marker commits or aborts what its producer has pending in this partition of the journal."""
        self.reading.records += batch.record_count
        marker = read_marker(batch)
        if isinstance(marker, Undecodable):
            self.reading.count_unreadable(marker)
            return set()
        changed: set[str] = set()
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
                # As the coordinator does: of two commits the one that was sent later wins, whenever it was decided.
                if existing is None or pending.journal_offset > existing.journal_offset:
                    group.offsets[at] = pending
            if group.is_gone:
                del self.groups[group.group]
        return changed


def _fold_record(
    group: LiveGroup, key: GroupRecordKey, value: GroupRecordValue | None, offset: int, timestamp_ms: int
) -> None:
    """Records of groups are states: the newest stands for itself."""
    match value:
        case None:
            _forget(group, key)
        case OffsetCommit():
            group.offsets[key.topic, key.partition] = Committed(value, offset)
        case ClassicGroup():
            if group.classic is None or value.generation != group.classic.generation:
                at_ms = value.state_changed_ms if value.state_changed_ms >= 0 else timestamp_ms
                _remember(group, Rebalance(value.generation, len(value.members), at_ms, offset))
            group.classic = value
        case GroupEpoch():
            _reach(group, value.epoch, offset, timestamp_ms)
        case TargetAssignmentEpoch():
            group.target_epoch = value.assignment_epoch
        case Member():
            _member(group, key).metadata = value
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
            _member(group, key).metadata = member_of(value)
        case StreamsTargetAssignment():
            _member(group, key).target = target_of(value)
        case StreamsCurrentAssignment():
            _member(group, key).current = current_of(value)
        case _:
            # Partition metadata (3.x): the topics' own metadata tells it better.
            pass


def _forget(group: LiveGroup, key: GroupRecordKey) -> None:
    match key.type:
        case RecordType.OFFSET_COMMIT | RecordType.LEGACY_OFFSET_COMMIT:
            group.offsets.pop((key.topic, key.partition), None)
        case RecordType.CLASSIC_GROUP:
            group.classic = None
        case RecordType.GROUP_EPOCH:
            group.epoch = None
        case RecordType.STREAMS_GROUP_EPOCH:
            group.epoch, group.subtopologies = None, None
        case RecordType.TARGET_ASSIGNMENT_EPOCH | RecordType.STREAMS_TARGET_ASSIGNMENT_EPOCH:
            group.target_epoch = -1
        case RecordType.MEMBER | RecordType.STREAMS_MEMBER:
            # Its other tombstones come first, and may have been compacted away.
            group.members.pop(key.member_id, None)
        case RecordType.TARGET_ASSIGNMENT | RecordType.STREAMS_TARGET_ASSIGNMENT if key.member_id in group.members:
            group.members[key.member_id].target = None
        case RecordType.CURRENT_ASSIGNMENT | RecordType.STREAMS_CURRENT_ASSIGNMENT if key.member_id in group.members:
            group.members[key.member_id].current = None
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
