"""The same questions and acts on a broker before 4.0."""

from __future__ import annotations

import pytest

from app.core.blocked.brokers import NotEnded
from app.core.blocked.diagnosis import AdviceVerdict
from app.core.blocked.facts import KnownTransaction
from app.core.blocked.service import ending
from app.core.blocked.service.explaining import explain_topic
from app.core.clusters.partition import Partition
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.maven import OLD_KAFKA_JARS
from tests.edges.kafka.transactions.conftest import Scene
from tests.edges.kafka.transactions.test_explaining import TRANSACTIONS
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.hanging import UNVERIFIED, make_hanging
from tests.support.kafka_tools import rows, run_tool
from tests.support.topics import unique_name


@pytest.mark.slow
async def test_hanging_and_open_transactions_are_distinguished_and_ended_on_an_old_broker() -> None:
    with KafkaCluster.start(jars=OLD_KAFKA_JARS, overrides={**TEST_BROKER_SETTINGS, **UNVERIFIED}) as cluster:
        scene = Scene(cluster.bootstrap_servers)

        async def verdict(topic: str) -> AdviceVerdict:
            return (await explain_topic(scene.brokers, scene.connection, topic, scene.asked)).verdict

        held, hanging = scene.topic(), scene.topic()
        name, producer = scene.leave_open(held)
        make_hanging(scene.bootstrap_servers, Partition(hanging, 0), unique_name("late"))
        assert (await verdict(held), await verdict(hanging)) == (AdviceVerdict.WAIT, AdviceVerdict.END)
        plan = await ending.plan_ending(scene.brokers, scene.connection, hanging, 0, scene.asked)
        assert plan.target is not None
        found = run_tool(
            TRANSACTIONS,
            *("--bootstrap-server", scene.bootstrap_servers, "find-hanging"),
            *("--topic", hanging, "--max-transaction-timeout", "0"),
            jars=OLD_KAFKA_JARS,
        )
        assert [(row["ProducerId"], row["StartOffset"]) for row in rows(found)] == [
            (str(plan.target.producer_id), str(plan.target.start_offset))
        ]
        known = await scene.brokers.describe_transaction(scene.connection, name)
        assert isinstance(known, KnownTransaction)
        answer = await scene.brokers.end_transaction(
            scene.connection, name, producer_id=known.producer_id, producer_epoch=known.producer_epoch
        )
        assert answer is NotEnded.UNSUPPORTED
        assert await verdict(held) is AdviceVerdict.WAIT
        await ending.end(scene.brokers, scene.connection, hanging, 0, scene.asked, planned=plan, force=False)
        await ending.fence(scene.brokers, scene.connection, name, scene.asked, force=True)
        assert (await verdict(held), await verdict(hanging)) == (AdviceVerdict.FREE, AdviceVerdict.FREE)
        assert scene.decided_values(Partition(hanging, 0)) == []
        del producer
