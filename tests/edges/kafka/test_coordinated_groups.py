"""Groups by admin calls match those of the journal, except for data that only the journal has."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.journals import group_records
from app.core.journals.live_groups import GroupKind, GroupState, LiveGroup
from app.core.observing.group_list import ListedMember, members_of
from app.edges.embedded.kafka import KafkaCluster
from tests.conftest import MakeTopic
from tests.edges.kafka.test_observed_journals import tail_of
from tests.support.kafka_clients import Members, Protocol, Writer
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from tests.support.watched import watching


def ask(kafka: KafkaCluster, *names: str) -> dict[str, LiveGroup]:
    with tail_of(kafka, group_records.TOPIC) as tail:
        polled = tail.ask_group_coordinators(is_wanted=lambda name: name in names)
    assert not polled.missing
    return polled.found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_coordinators_say_of_members_and_offsets_what_the_journal_says(
    kafka: KafkaCluster,
    connection: Connection,
    members: Members,
    make_topic: MakeTopic,
    tmp_path: Path,
    protocol: Protocol,
) -> None:
    topic, group = make_topic(partitions=3), unique_name("g")
    writer = Writer(connection)
    writer.begin(topic, records=1)
    writer.send_offset(group, Partition(topic, 0), 1)
    writer.commit()
    members.join(group, topic, protocol=protocol, client_id="one")
    # One partition with a stored offset, one without: the transaction has written both.
    writer.begin(topic, records=1)
    for partition in (0, 1):
        writer.send_offset(group, Partition(topic, partition), 7)
    wait_for(lambda: ask(kafka, group)[group].state is GroupState.STABLE, 20, "a stable group")
    polled = ask(kafka, group)[group]
    with watching(kafka, tmp_path) as watched:
        journal = watched.until(
            lambda seen: group in seen.groups and len(seen.groups[group].pending) == 2, "both pending offsets"
        ).groups[group]
    writer.abort()

    assert not polled.is_from_journal
    assert journal.is_from_journal
    assert polled.partition == journal.partition
    assert polled.kind is journal.kind is (GroupKind.CLASSIC if protocol == "classic" else GroupKind.CONSUMER)
    assert _offsets(polled) == _offsets(journal) == {(topic, 0): 1}
    # Where, but neither whose nor how far.
    assert set(polled.pending) == {(topic, 0, -1), (topic, 1, -1)}
    assert {at[:2] for at in journal.pending} == {(topic, 0), (topic, 1)}
    assert [_told(one) for one in members_of(polled)] == [_told(one) for one in members_of(journal)]
    assert polled.generation == (-1 if protocol == "classic" else journal.generation)


def test_group_with_offsets_only_and_an_unwanted_group(
    kafka: KafkaCluster, connection: Connection, make_topic: MakeTopic
) -> None:
    topic, stored, other = make_topic(), unique_name("stored"), unique_name("other")
    writer = Writer(connection)
    writer.begin(topic, records=1)
    for group in (stored, other):
        writer.send_offset(group, Partition(topic, 0), 4)
    writer.commit()
    found = ask(kafka, stored)
    assert set(found) == {stored}
    assert (found[stored].kind, found[stored].state) == (GroupKind.OFFSETS_ONLY, GroupState.EMPTY)


def _offsets(group: LiveGroup) -> dict[tuple[str, int], int]:
    return {at: found.commit.offset for at, found in group.offsets.items()}


def _told(member: ListedMember) -> tuple[object, ...]:
    """The common part: a journal of KIP-848 names topics by ids where no offset is committed."""
    partitions = {number for owned in member.owned for number in owned.partitions}
    return (member.member_id, member.client_id, member.host, member.epoch, partitions)
