"""Without a permission, the missing one is named, and a hidden producer is not taken for dead."""

# confluent_kafka.admin exports these without saying so, and types its futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Generator

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from app.core.blocked.diagnosis import AdviceVerdict
from app.core.blocked.service import ending
from app.core.blocked.service.explaining import explain_topic
from app.core.hanging.report import SearchReport
from app.core.hanging.search_once import search_once
from app.core.journals import transaction_state
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transactions.looking import now_ms
from app.kit.errors import ConflictError, UnavailableError
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.permissions import GUARDED_BROKER_SETTINGS, deny
from tests.support.topics import unique_name
from tests.support.waiting import wait_for_async

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def guarded() -> Generator[Scene]:
    with KafkaCluster.start(overrides=GUARDED_BROKER_SETTINGS) as cluster:
        yield Scene(cluster.bootstrap_servers)


def forbid(scene: Scene, kind: ResourceType, name: str, operation: AclOperation) -> None:
    deny(scene.bootstrap_servers, name, operation, kind, is_rest_allowed=True)


async def searched(scene: Scene) -> SearchReport:
    """One search of the whole cluster."""
    return await search_once(scene.brokers, scene.connection, now_ms=now_ms(), limit=100)


async def test_topic_that_may_not_be_read_names_the_right(guarded: Scene) -> None:
    topic = guarded.topic()
    guarded.leave_open(topic)
    forbid(guarded, ResourceType.TOPIC, topic, AclOperation.READ)

    async def is_refused() -> bool:
        found = await explain_topic(guarded.brokers, guarded.connection, topic, guarded.asked)
        (one,) = found.partitions
        return one.verdict is AdviceVerdict.CANNOT_TELL and one.advice == f"Ask for READ on the topic of {topic}-0."

    await wait_for_async(is_refused, 10, "the refusal to be told")
    (unclear,) = [one for one in (await searched(guarded)).unclear if one.topic == topic]
    assert unclear.reason.endswith(f"it needs READ on the topic of {topic}-0")


async def test_fencing_without_the_right_names_it(guarded: Scene) -> None:
    name, producer = guarded.leave_open(guarded.topic())
    forbid(guarded, ResourceType.TRANSACTIONAL_ID, name, AclOperation.WRITE)

    async def is_refused() -> bool:
        try:
            await ending.fence(guarded.brokers, guarded.connection, name, guarded.asked, force=True)
        except UnavailableError as error:
            return f"TRANSACTIONAL_ID_AUTHORIZATION_FAILED; it needs WRITE on the transactional id {name}" in str(error)
        return False

    await wait_for_async(is_refused, 10, "the refusal to be told")
    del producer


async def test_removal_of_a_member_without_the_right_names_it(guarded: Scene) -> None:
    group = unique_name("group")
    forbid(guarded, ResourceType.GROUP, group, AclOperation.READ)

    async def is_refused() -> bool:
        try:
            await guarded.brokers.remove_member(guarded.connection, group, "member")
        except UnavailableError as error:
            return f"GROUP_AUTHORIZATION_FAILED; it needs READ on the group {group}" in str(error)
        return False

    await wait_for_async(is_refused, 10, "the refusal to be told")


async def test_check_of_a_member_without_the_right_names_it(guarded: Scene) -> None:
    group = unique_name("group")
    forbid(guarded, ResourceType.GROUP, group, AclOperation.DESCRIBE)

    async def is_refused() -> bool:
        try:
            await guarded.brokers.is_member(guarded.connection, group, "member")
        except UnavailableError as error:
            return f"it needs DESCRIBE on the group {group}" in str(error)
        return False

    await wait_for_async(is_refused, 10, "the refusal to be told")


async def test_an_id_that_may_not_be_seen_is_not_taken_for_one_that_is_gone(guarded: Scene) -> None:
    """Brokers omit it from their answer without an error; only the journal has it, while it may be read."""
    topic = guarded.topic()
    name, producer = guarded.leave_open(topic, transactional_id=unique_name("hidden"))
    forbid(guarded, ResourceType.TRANSACTIONAL_ID, name, AclOperation.DESCRIBE)

    async def is_told() -> bool:
        found = await explain_topic(guarded.brokers, guarded.connection, topic, guarded.asked)
        (one,) = found.partitions
        return one.verdict is AdviceVerdict.CANNOT_TELL and f"DESCRIBE on {name}" in one.advice

    await wait_for_async(is_told, 10, "the hidden id to be told")
    report = await searched(guarded)
    assert not [one for one in report.hanging if one.key.topic == topic]
    assert next(one.reason for one in report.unclear if one.topic == topic).endswith(f"it needs DESCRIBE on {name}")
    forbid(guarded, ResourceType.TOPIC, transaction_state.TOPIC, AclOperation.READ)

    async def is_doubted() -> bool:
        found = await explain_topic(guarded.brokers, guarded.connection, topic, guarded.asked)
        (one,) = found.partitions
        return one.verdict is AdviceVerdict.END and "An id without that permission looks the same" in one.advice

    await wait_for_async(is_doubted, 10, "the doubt to be told")
    (doubted,) = [one for one in (await searched(guarded)).hanging if one.key.topic == topic]
    assert not doubted.is_corroborated
    plan = await ending.plan_ending(guarded.brokers, guarded.connection, topic, 0, guarded.asked)
    with pytest.raises(ConflictError, match="could not be read to rule that out"):
        await ending.end(guarded.brokers, guarded.connection, topic, 0, guarded.asked, planned=plan, force=False)
    del producer
