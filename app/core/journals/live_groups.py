"""The current state of a group by `__consumer_offsets`: generation or epoch, members, committed and pending offsets.

group_fold.py computes it from the records.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.journals.double_processing import CommitWatch
from app.core.journals.group_values.classic import ClassicGroup
from app.core.journals.group_values.consumer import (
    ConsumerMember,
    CurrentAssignment,
    MemberState,
    Pattern,
    TargetAssignment,
)
from app.core.journals.group_values.offsets import OffsetCommit

MAX_REBALANCES = 20
MAX_MEMBER_CHANGES = 20
SHARE_STATE_NOT_DECODED = (
    "A share group commits no offsets: its progress is in __share_group_state, which is not decoded. "
    "See kafka-share-groups.sh --describe --offsets."
)


class GroupKind(StrEnum):
    """OFFSETS_ONLY: clients commit under this name, without any known member.

    CONSUMER: KIP-848. STREAMS: KIP-1071; Kafka Streams uses classic groups by default. SHARE: KIP-932. OTHER: of a type
    that this release does not know; its coordinator lists it.
    """

    OFFSETS_ONLY = "offsets_only"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"
    SHARE = "share"
    OTHER = "other"


class GroupState(StrEnum):
    """Kafka's states, as far as the journal has them: a classic group's record is written at the end of a rebalance.

    ASSIGNING: the group's epoch is ahead of its assignment's. RECONCILING: members are behind the assignment.
    PREPARING_REBALANCE, COMPLETING_REBALANCE: of a classic group, reported by its coordinator only. UNKNOWN: a state of
    a newer coordinator.
    """

    EMPTY = "Empty"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    UNKNOWN = "Unknown"


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """A stored offset; `producer_id` and `producer_epoch` are -1 without a transaction."""

    commit: OffsetCommit
    journal_offset: int
    producer_id: int = -1
    producer_epoch: int = -1

    def shifted(self, shift_ms: int) -> CommittedOffset:
        """Return the offset with a commit time later by `shift_ms`; unchanged if its time is not known."""
        if self.commit.commit_ms < 0:
            return self
        commit = msgspec.structs.replace(self.commit, commit_ms=self.commit.commit_ms + shift_ms)
        return msgspec.structs.replace(self, commit=commit)


class Rebalance(msgspec.Struct, frozen=True):
    """A generation or group epoch that was reached."""

    number: int
    members: int
    at_ms: int
    journal_offset: int


class MemberChange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A member that joined the group, or left it (`has_left`): by itself, or by the expiry of its session.

    members: the number of members afterwards.
    """

    member_id: str
    instance_id: str
    client_id: str
    host: str
    at_ms: int
    journal_offset: int
    has_left: bool
    members: int


class LiveMember(msgspec.Struct):
    """A member of a KIP-848, Streams or share group: its metadata, its assignment, and its target assignment.

    In a Streams group, partitions are its active tasks, with the subtopology in place of the topic id.
    """

    metadata: ConsumerMember | None = None
    current: CurrentAssignment | None = None
    target: TargetAssignment | None = None


class LiveGroup(msgspec.Struct):
    """One group, by `partition` of the journal, or by the coordinator that has this partition.

    offsets, pending: by topic and partition; pending ones also by producer id, since several transactions may be open.
    A coordinator reports neither the producer (-1) nor the offset (-1) of a pending one.
    rebalances: the newest ones, oldest first. offsets_aborted: pending offsets that a marker aborted.
    answered_state: the coordinator's answer, if it was asked; it has no history, and no generation of a classic group.
    topic_names: by topic id, as far as the coordinator reported them.
    subtopologies: of a Streams group, the topics that each reads; None of all others.
    other_type: the coordinator's name for its type, if this release does not know it.
    changes: the newest members that joined or left, oldest first; only a journal has them.
    watch: evidence that offsets were processed twice; a copy has the findings only.
    """

    group: str
    classic: ClassicGroup | None = None
    epoch: int | None = None
    target_epoch: int = -1
    members: dict[str, LiveMember] = {}
    patterns: dict[str, Pattern] = {}
    offsets: dict[tuple[str, int], CommittedOffset] = {}
    pending: dict[tuple[str, int, int], CommittedOffset] = {}
    rebalances: list[Rebalance] = []
    offsets_aborted: int = 0
    partition: int = -1
    answered_state: GroupState | None = None
    topic_names: dict[str, str] = {}
    subtopologies: dict[str, tuple[str, ...]] | None = None
    is_share: bool = False
    other_type: str = ""
    changes: tuple[MemberChange, ...] = ()
    watch: CommitWatch = msgspec.field(default_factory=CommitWatch)

    def copy(self) -> LiveGroup:
        """Return a copy that later records do not change."""
        return msgspec.structs.replace(
            self,
            members={name: msgspec.structs.replace(member) for name, member in self.members.items()},
            patterns=dict(self.patterns),
            offsets=dict(self.offsets),
            pending=dict(self.pending),
            rebalances=list(self.rebalances),
            watch=self.watch.shown(),
        )

    def shifted(self, shift_ms: int) -> LiveGroup:
        """A copy with every time later by `shift_ms`: of commits, rebalances, changes of members, and findings."""
        made = self.copy()
        made.offsets = {at: one.shifted(shift_ms) for at, one in made.offsets.items()}
        made.pending = {at: one.shifted(shift_ms) for at, one in made.pending.items()}
        made.rebalances = [msgspec.structs.replace(one, at_ms=one.at_ms + shift_ms) for one in made.rebalances]
        made.changes = tuple(msgspec.structs.replace(one, at_ms=one.at_ms + shift_ms) for one in made.changes)
        made.watch = made.watch.shifted(shift_ms)
        return made

    @property
    def is_from_journal(self) -> bool:
        """False for answers of admin requests."""
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
        if self.is_share:
            return GroupKind.SHARE
        if self.other_type:
            return GroupKind.OTHER
        if self.epoch is not None:
            return GroupKind.CONSUMER
        # A group without members and protocol type only stores offsets.
        return GroupKind.CLASSIC if self.classic is not None and self.classic.protocol_type else GroupKind.OFFSETS_ONLY

    @property
    def not_decoded(self) -> str:
        """Describe the part that is not decoded for a group of this kind; empty if there is none."""
        match self.kind:
            case GroupKind.SHARE:
                return SHARE_STATE_NOT_DECODED
            case GroupKind.OTHER:
                return f"Groups of type {self.other_type} are listed by their coordinator and not decoded."
            case _:
                return ""

    @property
    def has_epoch(self) -> bool:
        """True with a group epoch and members that follow it, instead of a generation."""
        return self.kind in _WITH_EPOCH

    @property
    def generation(self) -> int:
        """The classic generation or the group epoch; -1 if neither is known."""
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
        if self.is_share:
            # Its members need no reconciliation: a partition may be assigned to several of them.
            return GroupState.STABLE
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
        """No record of the group is left."""
        is_told = self.classic is not None or self.epoch is not None or self.subtopologies is not None or self.is_share
        return not (is_told or self.members or self.offsets or self.pending)


_WITH_EPOCH = frozenset({GroupKind.CONSUMER, GroupKind.STREAMS, GroupKind.SHARE})
