"""The state computed from `__consumer_offsets`: recorded journals, pending offsets and markers, compaction."""

from __future__ import annotations

import msgspec
import pytest

from app.core.journals import group_records
from app.core.journals.group_fold import LiveGroups
from app.core.journals.group_records import GroupRecordKey, GroupRecordValue, RecordType
from app.core.journals.group_values.consumer import (
    MemberState,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicIdPartitions,
)
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.group_values.share import (
    ShareCurrentAssignment,
    ShareGroupEpoch,
    ShareMember,
    SharePartitions,
    ShareStatePartitions,
    ShareTopicPartitions,
)
from app.core.journals.group_values.streams import (
    EpochedTasks,
    InternalTopic,
    StreamsCurrentAssignment,
    StreamsGroupEpoch,
    StreamsMember,
    StreamsMemberState,
    StreamsTargetAssignment,
    StreamsTopology,
    Subtopology,
    Tasks,
)
from app.core.journals.live_groups import CommittedOffset, GroupKind, GroupState, LiveGroup
from app.core.journals.record_batch import MarkerType, RecordBatch, UnreadableBatch, split_batches
from app.core.observing.group_list import members_of
from tests.core.journals.batches import batch_of, marker
from tests.support.recordings import GROUPS, VERSION_NAMES, recorded_bytes

both_versions = pytest.mark.parametrize("version", VERSION_NAMES)
NEW, OLD = VERSION_NAMES
AT = ("in", 0)


def recorded(version: str) -> list[RecordBatch | UnreadableBatch]:
    return list(split_batches(recorded_bytes(version, GROUPS)))


def folded(batches: list[RecordBatch | UnreadableBatch]) -> LiveGroups:
    live = LiveGroups()
    for batch in batches:
        live.apply(0, batch)
    return live


def key(group: str = "g", *, topic: str = "in") -> bytes:
    return group_records.encode_key(GroupRecordKey(group, topic, 0, type=RecordType.OFFSET_COMMIT))


def commit(offset: int) -> bytes:
    return group_records.encode_value(RecordType.OFFSET_COMMIT, OffsetCommit(offset), 3)


def pending(offset: int, *, base_offset: int, producer_id: int = 7) -> RecordBatch:
    return batch_of(
        [(key(), commit(offset))],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
    )


def stored(group: LiveGroup) -> dict[tuple[str, int], int]:
    return {at: found.commit.offset for at, found in group.offsets.items()}


@both_versions
def test_offsets_of_an_open_transaction_are_pending(version: str) -> None:
    waiting = folded(recorded(version)).groups["waiting"]
    assert not waiting.offsets
    (at,) = waiting.pending
    assert at[:2] == ("orders", 0)
    assert waiting.pending[at].commit.offset == 7


@both_versions
def test_offsets_of_a_committed_transaction_are_stored_with_their_producer(version: str) -> None:
    batches = recorded(version)
    live = LiveGroups()
    newest: dict[tuple[str, int], CommittedOffset] = {}
    aborted = 0
    for batch in batches:
        live.apply(0, batch)
        # Until the group is deleted.
        if (loop := live.groups.get("loop")) is not None and len(loop.offsets) == 2:
            newest, aborted = dict(loop.offsets), loop.offsets_aborted
    assert {at: found.commit.offset for at, found in newest.items()} == {("orders", 0): 3, ("orders", 1): 3}
    assert aborted == 2
    assert {one.producer_epoch for one in newest.values()} == {0}
    assert all(one.producer_id >= 0 for one in newest.values())
    assert stored(folded(batches).groups["copier"]) == {("orders", 0): 10}


@both_versions
def test_deleted_group_is_removed(version: str) -> None:
    assert "loop" not in folded(recorded(version)).groups


@both_versions
def test_classic_group_has_generation_members_and_rebalances(version: str) -> None:
    live = LiveGroups()
    seen: list[tuple[int, int]] = []
    for batch in recorded(version):
        live.apply(0, batch)
        group = live.groups.get("classic")
        if group is not None and group.classic is not None:
            seen.append((group.generation, len(group.classic.members)))
    assert (2, 2) in seen
    group = live.groups["classic"]
    assert group.kind is GroupKind.CLASSIC
    assert stored(group) == {("orders", 0): 3, ("orders", 1): 4}
    numbers = [rebalance.number for rebalance in group.rebalances]
    assert numbers == sorted(set(numbers))
    assert group.generation == numbers[-1] >= 3
    # The static member stays for its session although it has closed.
    assert group.state is GroupState.STABLE


def test_kip_848_group_goes_through_its_states() -> None:
    live = LiveGroups()
    states: list[GroupState] = []
    handing_over = 0
    for batch in recorded(NEW):
        live.apply(0, batch)
        group = live.groups.get("modern")
        if group is not None:
            assert group.kind is GroupKind.CONSUMER
            if not states or states[-1] is not group.state:
                states.append(group.state)
            handing_over += any(
                member.current is not None and member.current.state is MemberState.UNREVOKED_PARTITIONS
                for member in group.members.values()
            )
    assert GroupState.RECONCILING in states
    assert states[-1] is GroupState.EMPTY
    assert GroupState.STABLE in states
    assert handing_over > 0
    modern = live.groups["modern"]
    assert stored(modern) == {("orders", 0): 5}
    assert modern.epoch == modern.rebalances[-1].number


def test_old_preview_of_kip_848_is_read_too() -> None:
    modern = folded(recorded(OLD)).groups["modern"]
    assert (modern.kind, modern.state, modern.members) == (GroupKind.CONSUMER, GroupState.EMPTY, {})


def of_streams(record_type: RecordType, value: GroupRecordValue | None, *, at: int, member: str = "") -> RecordBatch:
    record_key = group_records.encode_key(GroupRecordKey("app", member_id=member, type=record_type))
    written = None if value is None else group_records.encode_value(record_type, value)
    return batch_of([(record_key, written)], base_offset=at)


def test_streams_group_has_states_and_tasks_as_partitions() -> None:
    """As a broker of 4.3 writes it: the topology with its first member, then the epochs, then its assignment."""
    live = LiveGroups()
    subtopology = Subtopology("0", ("orders", "refunds"), (), (), (), (InternalTopic("app-by-key", 2, 1, ()),), ())
    tasks = (Tasks("0", (0, 1)),)
    records = [
        (RecordType.STREAMS_MEMBER, StreamsMember(None, None, "app-1", "/10.0.0.1", 300_000, 0, "p-1", None, ()), "m"),
        (RecordType.STREAMS_TOPOLOGY, StreamsTopology(0, (subtopology,)), ""),
        (RecordType.STREAMS_GROUP_EPOCH, StreamsGroupEpoch(2, 99), ""),
        (RecordType.STREAMS_TARGET_ASSIGNMENT, StreamsTargetAssignment(tasks, (), ()), "m"),
        (RecordType.STREAMS_TARGET_ASSIGNMENT_EPOCH, TargetAssignmentEpoch(2), ""),
        (
            RecordType.STREAMS_CURRENT_ASSIGNMENT,
            StreamsCurrentAssignment(2, 1, StreamsMemberState.STABLE, (EpochedTasks("0", (0, 1)),), (), (), (), (), ()),
            "m",
        ),
    ]
    seen: list[GroupState] = []
    for at, (record_type, value, member) in enumerate(records):
        live.apply(0, of_streams(record_type, value, at=at, member=member))
        if not seen or seen[-1] is not live.groups["app"].state:
            seen.append(live.groups["app"].state)
    assert seen[-3:] == [GroupState.ASSIGNING, GroupState.RECONCILING, GroupState.STABLE]
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(live), type=LiveGroups)
    group = again.groups["app"]
    assert (group.kind, group.generation, [one.number for one in group.rebalances]) == (GroupKind.STREAMS, 2, [2])
    (member,) = members_of(group)
    assert (member.client_id, member.host, member.epoch, member.state) == ("app-1", "10.0.0.1", 2, "stable")
    assert member.owned == member.target
    assert {(one.topic, one.partitions) for one in member.owned} == {
        ("orders", (0, 1)),
        ("refunds", (0, 1)),
        ("app-by-key", (0, 1)),
    }
    for at, (record_type, _, member_id) in enumerate(reversed(records), start=len(records)):
        again.apply(0, of_streams(record_type, None, at=at, member=member_id))
    assert not again.groups
    assert not again.reading.unreadable


def of_share(record_type: RecordType, value: GroupRecordValue | None, *, at: int, member: str = "") -> RecordBatch:
    record_key = group_records.encode_key(GroupRecordKey("shared", member_id=member, type=record_type))
    written = None if value is None else group_records.encode_value(record_type, value)
    return batch_of([(record_key, written)], base_offset=at)


def test_share_group_has_members_that_may_own_the_same_partition() -> None:
    live = LiveGroups()
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    partitions = (ShareTopicPartitions(topic_id, "orders", (0,)),)
    current = ShareCurrentAssignment(2, 1, MemberState.STABLE, (SharePartitions(topic_id, (0,)),))
    records = [
        (RecordType.SHARE_MEMBER, ShareMember(None, "one", "/10.0.0.1", ("orders",)), "a"),
        (RecordType.SHARE_MEMBER, ShareMember("rack", "two", "/10.0.0.2", ("orders",)), "b"),
        (RecordType.SHARE_GROUP_EPOCH, ShareGroupEpoch(2, 99), ""),
        (RecordType.SHARE_TARGET_ASSIGNMENT, TargetAssignment((TopicIdPartitions(topic_id, (0,)),)), "a"),
        (RecordType.SHARE_TARGET_ASSIGNMENT_EPOCH, TargetAssignmentEpoch(2), ""),
        (RecordType.SHARE_CURRENT_ASSIGNMENT, current, "a"),
        (RecordType.SHARE_CURRENT_ASSIGNMENT, current, "b"),
        (RecordType.SHARE_STATE_PARTITIONS, ShareStatePartitions((), partitions, ()), ""),
    ]
    for at, (record_type, value, member) in enumerate(records):
        live.apply(0, of_share(record_type, value, at=at, member=member))
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(live), type=LiveGroups)
    group = again.groups["shared"]
    assert (group.kind, group.state, group.generation) == (GroupKind.SHARE, GroupState.STABLE, 2)
    assert [(one.client_id, one.owned[0].topic, one.owned[0].partitions) for one in members_of(group)] == [
        ("one", "orders", (0,)),
        ("two", "orders", (0,)),
    ]
    assert "__share_group_state, which is not decoded" in group.not_decoded
    assert [(one.member_id, one.has_left, one.members) for one in group.changes] == [("a", False, 1), ("b", False, 2)]
    for at, (record_type, _, member_id) in enumerate(reversed(records), start=len(records)):
        again.apply(0, of_share(record_type, None, at=at, member=member_id))
    assert not again.groups
    assert not again.reading.unreadable


@pytest.mark.parametrize("group", ["classic", "modern"])
def test_members_that_joined_and_left_are_kept(group: str) -> None:
    seen: dict[tuple[str, bool, int], None] = {}
    live = LiveGroups()
    for batch in recorded(NEW):
        live.apply(0, batch)
        found = live.groups.get(group)
        seen |= dict.fromkeys((one.member_id, one.has_left, one.members) for one in (found.changes if found else ()))
    # A static member does not leave when it ends.
    assert [(has_left, members) for _, has_left, members in seen][:3] == [(False, 1), (False, 2), (True, 1)]


def test_pattern_is_known_while_it_is_subscribed() -> None:
    live = LiveGroups()
    patterns: set[str] = set()
    for batch in recorded(NEW):
        live.apply(0, batch)
        if "pattern" in live.groups:
            patterns |= set(live.groups["pattern"].patterns)
    assert any("ord.rs" in pattern for pattern in patterns)


@both_versions
def test_records_read_twice_count_once(version: str) -> None:
    batches = recorded(version)
    twice = LiveGroups()
    for batch in [*batches[:12], *batches[3:], *batches]:
        twice.apply(0, batch)
    assert twice == folded(batches)


@both_versions
def test_restart_continues_from_the_saved_state(version: str) -> None:
    batches = recorded(version)
    for end in range(len(batches)):
        restarted = msgspec.msgpack.decode(msgspec.msgpack.encode(folded(batches[:end])), type=LiveGroups)
        for batch in batches[max(0, end - 4) :]:
            restarted.apply(0, batch)
        assert restarted == folded(batches)


def test_later_one_of_two_commits_wins_in_any_order_of_markers() -> None:
    live = folded(
        [
            pending(5, base_offset=0, producer_id=7),
            batch_of([(key(), commit(9))], base_offset=1),
            marker(MarkerType.COMMIT, base_offset=2, producer_id=7),
        ]
    )
    assert stored(live.groups["g"]) == {AT: 9}
    assert not live.groups["g"].pending


def test_marker_decides_only_its_own_producers_offsets() -> None:
    live = folded(
        [
            pending(5, base_offset=0, producer_id=7),
            pending(6, base_offset=1, producer_id=8),
            marker(MarkerType.ABORT, base_offset=2, producer_id=8),
        ]
    )
    assert set(live.groups["g"].pending) == {(*AT, 7)}
    assert live.groups["g"].offsets_aborted == 1
    live.apply(0, marker(MarkerType.COMMIT, base_offset=3, producer_id=7))
    assert stored(live.groups["g"]) == {AT: 5}


def test_marker_of_another_partition_of_the_journal_decides_nothing() -> None:
    live = folded([pending(5, base_offset=0)])
    live.apply(1, marker(MarkerType.COMMIT, base_offset=0, producer_id=7))
    assert not live.groups["g"].offsets
    assert live.groups["g"].pending


def test_last_of_several_offsets_in_one_transaction_counts() -> None:
    live = folded([pending(5, base_offset=0), pending(8, base_offset=1)])
    assert [len(waiting) for waiting in live.undecided.values()] == [1]
    live.apply(0, marker(MarkerType.COMMIT, base_offset=2, producer_id=7))
    assert stored(live.groups["g"]) == {AT: 8}
    assert not live.undecided


def test_marker_without_its_records_decides_nothing() -> None:
    """A tail that starts between the offsets and their marker."""
    live = folded([marker(MarkerType.COMMIT, base_offset=40, producer_id=7)])
    assert not live.groups
    assert live.reading.positions[0].first_offset == 40


def test_group_with_only_aborted_offsets_is_removed() -> None:
    live = folded([pending(5, base_offset=0), marker(MarkerType.ABORT, base_offset=1, producer_id=7)])
    assert not live.groups
    assert not live.undecided


def test_tombstone_removes_an_offset() -> None:
    live = folded([batch_of([(key(), commit(9))], base_offset=0), batch_of([(key(), None)], base_offset=1)])
    assert not live.groups


def test_groups_outside_the_filter_are_counted_and_not_kept() -> None:
    live = LiveGroups()
    records = [(key("ours"), commit(1)), (key("theirs"), commit(1)), (key("theirs"), commit(2))]
    live.apply(0, batch_of(records, base_offset=0), is_wanted=lambda group: group == "ours")
    assert (list(live.groups), live.records_of_others) == (["ours"], 2)


def test_unreadable_records_are_counted_and_skipped() -> None:
    live = LiveGroups()
    of_the_future = (b"\0\x18\0\1g", b"")
    future = (key(), b"\0\x09rest")
    live.apply(0, batch_of([of_the_future, future, (key(), commit(3))], base_offset=0))
    assert stored(live.groups["g"]) == {AT: 3}
    assert live.reading.unreadable == {"unknown key version 24": 1, "unknown value version 9": 1}
