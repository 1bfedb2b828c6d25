"""The list of topics: pages, order, advice; readers and writers of a topic."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.core.clusters.cluster import TopicFacts
from app.core.clusters.topic import DescribedPartition, ListedTopic, TopicDescription
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TopicPartitions
from app.core.observing.group_list import ListedMember, members_of
from app.kit.errors import InvalidError
from app.products.topics import usage
from app.products.topics.topic_list import TopicQuery, TopicSort, advice_of, select
from app.products.topics.usage import GroupTopics, usage_of
from tests.support.definitions import a_definition
from tests.support.observing import state_of
from tests.support.page_samples import pipeline

LISTED = [ListedTopic(f"topic-{number:05}", number % 7, 3, is_internal=False) for number in range(10_000)] + [
    ListedTopic("__consumer_offsets", 50, 3, is_internal=True)
]


@pytest.mark.parametrize("sort", TopicSort)
def test_pages_have_each_topic_once_in_their_order(sort: TopicSort) -> None:
    query = TopicQuery(search="TOPIC-0", sort=sort, with_internal=True)
    after, names = None, list[str]()
    while True:
        page = select(LISTED, query, after=after, limit=500)
        names += [one.name for one in page.items]
        after = page.next_cursor
        if after is None:
            break
    assert sorted(names) == [one.name for one in LISTED if "topic-0" in one.name]
    assert page.matching == len(names) == 10_000
    if sort is TopicSort.PARTITIONS:
        assert names[0] == "topic-00006"


def test_internal_topics_are_hidden_and_counted_unless_they_are_wanted() -> None:
    page = select(LISTED, TopicQuery(search="_"), after=None, limit=10)
    assert (page.items, page.matching, page.internal) == ((), 0, 1)
    page = select(LISTED, TopicQuery(search="_", with_internal=True), after=None, limit=10)
    assert ([one.name for one in page.items], page.internal) == (["__consumer_offsets"], 0)


def test_a_cursor_of_another_list_is_refused() -> None:
    with pytest.raises(InvalidError):
        select(LISTED, TopicQuery(), after="WyJhIl0", limit=10)


def described(in_sync: tuple[int, ...] = (1, 2, 3), leader: int | None = 1, **facts: Any) -> TopicDescription:
    given: dict[str, Any] = {
        "replication_factor": 3,
        "min_insync_replicas": 2,
        "deletes": True,
        "compacts": False,
        "unclean_leader_election": False,
    }
    return TopicDescription(
        name="orders",
        is_internal=False,
        facts=msgspec.structs.replace(TopicFacts(partitions=1, replication_factor=3), **{**given, **facts}),
        partitions=(
            DescribedPartition(number=0, leader=leader, replicas=(1, 2, 3), in_sync=in_sync, size_bytes=7),
            DescribedPartition(number=1, leader=2, replicas=(1, 2, 3), in_sync=(1, 2, 3), size_bytes=None),
        ),
        settings={},
    )


def test_a_safe_topic_has_no_advice() -> None:
    assert advice_of(described(), writers=["flights"]) == ()
    # Unknown settings are no danger that could be named.
    assert advice_of(described(min_insync_replicas=None, unclean_leader_election=None), writers=["flights"]) == ()


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        (described(unclean_leader_election=True), "unclean.leader.election.enable=true"),
        (described(min_insync_replicas=1), "may be on a single broker and lost with it"),
        (described(replication_factor=1, min_insync_replicas=1), "has one replica"),
        (described(replication_factor=1), "no write can succeed"),
        (described(in_sync=(1,)), "fewer in-sync replicas than min.insync.replicas=2 (first: 0)"),
        (described(leader=None, in_sync=()), "without a leader (first: 0)"),
        (described(compacts=True), "audits and later readers find fewer records"),
    ],
)
def test_each_danger_is_named_with_its_reason(topic: TopicDescription, says: str) -> None:
    advice = advice_of(topic, writers=["flights"])
    assert any(says in sentence for sentence in advice), advice
    assert all(sentence.endswith(".") for sentence in advice)


def test_compaction_is_a_danger_of_topics_that_a_pipeline_writes_only() -> None:
    assert advice_of(described(compacts=True), writers=()) == ()


def test_a_size_is_known_if_every_leader_reports_its_own() -> None:
    assert described().size_bytes is None
    known = msgspec.structs.replace(described(), partitions=described().partitions[:1])
    assert known.size_bytes == 7


def test_readers_and_writers_are_those_of_groups_ids_and_pipelines() -> None:
    commit = CommittedOffset(OffsetCommit(7, commit_ms=1_000), 0)
    groups = [
        LiveGroup("reads", offsets={("orders", 0): commit, ("orders", 1): commit, ("other", 0): commit}),
        LiveGroup("pends", pending={("orders", 0, 5): commit, ("orders", 0, 6): commit}),
        LiveGroup("elsewhere", offsets={("other", 0): commit}),
    ]
    state = state_of(start_ms=5, changed_ms=5)
    writing = msgspec.structs.replace(state, partitions=(TopicPartitions("orders", (0, 3)),))
    elsewhere = msgspec.structs.replace(state, partitions=(TopicPartitions("other", (0,)),))
    ids = [LiveTransaction("writes", writing, 0, 0), LiveTransaction("else", elsewhere, 0, 0)]
    definitions = {
        "from": a_definition(source_topics=("orders",), sink_topic="other"),
        "into": a_definition(source_topics=("other",), sink_topic="orders"),
    }
    pipelines = [
        msgspec.structs.replace(pipeline(None), name=name, definition=one) for name, one in definitions.items()
    ]
    its = GroupTopics().of("c", groups)
    found = usage_of(["orders", "unused"], groups=its, transactions=ids, pipelines=pipelines)
    orders = found["orders"]
    assert [(one.group, one.members, one.committed, one.pending) for one in orders.groups] == [
        ("pends", 0, 0, 1),
        ("reads", 0, 2, 0),
    ]
    assert [(one.transactional_id, one.partitions) for one in orders.ids] == [("writes", 2)]
    assert (orders.readers, orders.writers) == (("from",), ("into",))
    unused = found["unused"]
    assert (unused.groups, unused.ids, unused.readers, unused.writers) == ((), (), (), ())


def test_topics_of_a_group_are_read_again_when_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def members(group: LiveGroup) -> tuple[ListedMember, ...]:
        read.append(group.group)
        return members_of(group)

    monkeypatch.setattr(usage, "members_of", members)
    commit = CommittedOffset(OffsetCommit(7, commit_ms=1_000), 0)
    same, before = LiveGroup("same", offsets={("a", 0): commit}), LiveGroup("moves", offsets={("a", 0): commit})
    after = LiveGroup("moves", offsets={("b", 0): commit}, pending={("c", 0, 5): commit})
    known = GroupTopics()
    assert [one.topics for one in known.of("c", [same, before])] == [{"a"}, {"a"}]
    assert [one.topics for one in known.of("c", [same, after])] == [{"a"}, {"b", "c"}]
    assert [one.topics for one in known.of("other", [same])] == [{"a"}]
    assert read == ["same", "moves", "moves", "same"]
    assert [one.group for one in known.of("c", [after])] == [after], "an expired group is forgotten"
