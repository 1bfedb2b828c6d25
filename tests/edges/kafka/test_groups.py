"""A group by its coordinator, and its offsets: read, and reset only without members and open transactions."""

import pytest

from app.core.clusters.brokers import Connection, GroupDescription
from app.core.clusters.partition import Partition
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import ConflictError
from tests.conftest import MakeTopic
from tests.support.kafka_clients import Members, Protocol, Writer
from tests.support.topics import unique_name
from tests.support.waiting import wait_for_async

both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@both_protocols
async def test_group_is_described_by_its_own_protocol_until_its_members_left(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, members: Members, protocol: Protocol
) -> None:
    topic, group = make_topic(), unique_name("g")
    members.join(group, topic, protocol=protocol, client_id="one")

    async def is_stable() -> GroupDescription | None:
        found = await brokers.describe_group(connection, group)
        return found if found.state == "Stable" else None

    found = await wait_for_async(is_stable, 10, f"a stable group {group}")
    assert found is not None
    assert found.protocol == protocol
    facts = await brokers.facts(connection, topics=[topic], groups=[group])
    assert facts.assignors == ({group: found.assignor} if protocol == "classic" else {})
    assert bool(found.assignor) is (protocol == "classic")
    assert [(member.client_id, member.host) for member in found.members] == [("one", "127.0.0.1")]
    members.leave()
    empty = await brokers.describe_group(connection, group)
    assert (empty.state, empty.protocol, empty.members) == ("Empty", protocol, ())


async def test_group_that_does_not_exist_is_dead(brokers: KafkaBrokers, connection: Connection) -> None:
    group = unique_name("g")
    found = await brokers.describe_group(connection, group)
    assert found == GroupDescription(group=group, state="Dead", protocol="", members=())
    assert await brokers.committed_offsets(connection, group) == {}


async def test_committed_offsets_are_without_what_an_open_transaction_has_pending(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, writer: Writer
) -> None:
    topic, group = make_topic(), unique_name("g")
    at = Partition(topic, 0)
    await brokers.alter_offsets(connection, group, {at: 1})
    writer.begin(topic, records=1)
    writer.send_offset(group, at, 9)
    assert await brokers.committed_offsets(connection, group) == {at: 1}
    writer.commit()

    async def is_nine() -> bool:
        return await brokers.committed_offsets(connection, group) == {at: 9}

    # The commit is answered when it is decided; the group's coordinator gets the marker a moment later.
    await wait_for_async(is_nine, 10, "the offset of the committed transaction")


@both_protocols
async def test_offsets_are_not_moved_while_the_group_has_members(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, members: Members, protocol: Protocol
) -> None:
    topic, group = make_topic(), unique_name("g")
    at = Partition(topic, 0)
    members.join(group, topic, protocol=protocol, client_id="still-here")
    with pytest.raises(ConflictError, match=r"still-here on 127\.0\.0\.1"):
        await brokers.alter_offsets(connection, group, {at: 0})
    members.leave()
    await brokers.alter_offsets(connection, group, {at: 0})
    assert await brokers.committed_offsets(connection, group) == {at: 0}


async def test_offsets_are_not_moved_under_an_open_transaction(
    brokers: KafkaBrokers, connection: Connection, make_topic: MakeTopic, writer: Writer
) -> None:
    topic, group = make_topic(), unique_name("g")
    at = Partition(topic, 0)
    writer.begin(topic, records=1)
    writer.send_offset(group, at, 9)
    with pytest.raises(ConflictError, match=f"open transaction.*{topic}-0"):
        await brokers.alter_offsets(connection, group, {at: 0})
    writer.abort()

    async def is_moved() -> bool:
        try:
            await brokers.alter_offsets(connection, group, {at: 0})
        except ConflictError:
            return False
        return True

    await wait_for_async(is_moved, 10, "offsets that can be moved after the abort")
    assert await brokers.committed_offsets(connection, group) == {at: 0}
