"""End by hand on a real broker: the refused cases, the fenced producers, and consumers that continue."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from confluent_kafka import KafkaError, KafkaException

from app.core.blocked.diagnosis import AdviceVerdict, Asked
from app.core.blocked.facts import KnownTransaction
from app.core.blocked.service import ending
from app.core.blocked.service.explaining import explain_topic
from app.core.clusters.partition import Partition
from app.kit.errors import ConflictError
from tests.edges.kafka.transactions.conftest import Scene
from tests.edges.kafka.transactions.test_explaining import ask_tool
from tests.support.hanging import make_hanging
from tests.support.topics import unique_name

pytestmark = pytest.mark.slow


@pytest.mark.core
async def test_hanging_transaction_is_ended_and_readers_go_on(scene: Scene) -> None:
    topic = scene.topic()
    make_hanging(scene.bootstrap_servers, Partition(topic, 0), unique_name("late"))
    scene.write(topic)
    assert scene.committed_values(Partition(topic, 0)) == []
    plan = await ending.plan_ending(scene.brokers, scene.connection, topic, 0, scene.asked)
    assert plan.objections == ()
    assert "4 blocked records" in plan.losses[0]
    done = await ending.end(scene.brokers, scene.connection, topic, 0, scene.asked, planned=plan, force=False)
    assert done.after.verdict is AdviceVerdict.FREE
    assert scene.decided_values(Partition(topic, 0)) == [b"plain"]
    assert ask_tool(scene, "find-hanging", "--topic", topic, "--max-transaction-timeout", "0") == []


async def test_records_after_a_commit_are_ended_by_force_only(scene: Scene) -> None:
    """It looks like one whose marker was left out (test_markers_left_out.py)."""
    topic = scene.topic()
    make_hanging(scene.bootstrap_servers, Partition(topic, 0), unique_name("late"), commit=True)
    scene.write(topic)
    plan = await ending.plan_ending(scene.brokers, scene.connection, topic, 0, scene.asked)
    with pytest.raises(ConflictError, match="it may be committed"):
        await ending.end(scene.brokers, scene.connection, topic, 0, scene.asked, planned=plan, force=False)
    await ending.end(scene.brokers, scene.connection, topic, 0, scene.asked, planned=plan, force=True)
    assert scene.decided_values(Partition(topic, 0)) == [b"committed", b"plain"]


async def test_transaction_that_its_coordinator_knows_is_not_ended_behind_its_back(scene: Scene) -> None:
    topic = scene.topic()
    name, producer = scene.leave_open(topic)
    plan = await ending.plan_ending(scene.brokers, scene.connection, topic, 0, scene.asked)
    with pytest.raises(ConflictError, match=f"knows it as {name}, Ongoing: fence that id instead"):
        await ending.end(scene.brokers, scene.connection, topic, 0, scene.asked, planned=plan, force=False)
    found = await explain_topic(scene.brokers, scene.connection, topic, scene.asked)
    assert found.verdict is AdviceVerdict.WAIT
    producer.commit_transaction(20)
    assert scene.decided_values(Partition(topic, 0)) == [b"undecided"]


async def test_forced_end_of_a_living_transaction_loses_what_its_producer_then_commits(scene: Scene) -> None:
    """Why it is refused: the commit succeeds, and its records in this partition are gone."""
    topic = scene.topic()
    _, producer = scene.leave_open(topic)
    plan = await ending.plan_ending(scene.brokers, scene.connection, topic, 0, scene.asked)
    await ending.end(scene.brokers, scene.connection, topic, 0, scene.asked, planned=plan, force=True)
    producer.commit_transaction(20)
    assert scene.decided_values(Partition(topic, 0)) == []


async def test_the_planned_transaction_must_still_be_the_open_one(scene: Scene) -> None:
    topic = scene.topic()
    make_hanging(scene.bootstrap_servers, Partition(topic, 0), unique_name("late"))
    plan = await ending.plan_ending(scene.brokers, scene.connection, topic, 0, scene.asked)
    await ending.end(scene.brokers, scene.connection, topic, 0, scene.asked, planned=plan, force=False)
    with pytest.raises(ConflictError, match="no transaction that begins at offset 2 is open"):
        await ending.end(scene.brokers, scene.connection, topic, 0, scene.asked, planned=plan, force=True)


async def test_fencing_aborts_what_is_open_and_refuses_its_producer(scene: Scene) -> None:
    topic = scene.topic()
    name, producer = scene.leave_open(topic, timeout_ms=900_000)
    scene.write(topic)
    begun = await scene.brokers.describe_transaction(scene.connection, name)
    assert isinstance(begun, KnownTransaction)
    began_ms = begun.start_ms

    async def just_after(_: Collection[str]) -> Asked:
        return Asked(bootstrap_servers=scene.bootstrap_servers, now_ms=began_ms + 2_000)

    with pytest.raises(ConflictError, match="so its producer may be alive"):
        await ending.fence(scene.brokers, scene.connection, name, just_after, force=False)
    done = await ending.fence(scene.brokers, scene.connection, name, scene.asked, force=True)
    assert done.state == "Empty"
    known = await scene.brokers.describe_transaction(scene.connection, name)
    assert isinstance(known, KnownTransaction)
    assert (known.producer_id, known.producer_epoch) == (done.producer_id, done.producer_epoch)
    found = await explain_topic(scene.brokers, scene.connection, topic, scene.asked)
    assert found.verdict is AdviceVerdict.FREE
    assert scene.decided_values(Partition(topic, 0)) == [b"plain"]
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(20)
    error = refused.value.args[0]
    assert isinstance(error, KafkaError)
    assert error.code() == KafkaError._FENCED


async def test_fencing_an_id_that_is_not_there_makes_none(scene: Scene) -> None:
    name = unique_name("nobody")
    with pytest.raises(ConflictError, match="does not exist on this cluster"):
        await ending.fence(scene.brokers, scene.connection, name, scene.asked, force=True)
    assert await scene.brokers.describe_transaction(scene.connection, name) is None
