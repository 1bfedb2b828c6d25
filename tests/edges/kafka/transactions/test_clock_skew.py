"""A broker whose clock is five minutes behind: a young transaction is young, and nothing ends it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from app.core.blocked.diagnosis import AdviceVerdict
from app.core.blocked.facts import KnownTransaction
from app.core.blocked.service.ending import plan_fencing
from app.core.blocked.service.explaining import explain_topic
from app.core.journals.transaction_state import TOPIC as TRANSACTIONS
from app.core.observing.snapshot import ReadingPhase
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.cli.cluster import DirectCluster
from app.edges.kafka.transactions.looking import now_ms
from app.products.direct import groups, listing
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.faketime import broker_with_clock
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from tests.support.watched import watching

pytestmark = pytest.mark.slow

_BEHIND_MS = 300_000
_NEAR_MS = 3_000


@pytest.fixture(scope="module")
def slow_broker() -> Generator[KafkaCluster]:
    with broker_with_clock(-_BEHIND_MS // 1000, TEST_BROKER_SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def behind(slow_broker: KafkaCluster) -> Scene:
    return Scene(slow_broker.bootstrap_servers)


async def test_transaction_that_began_just_now_is_not_to_be_fenced(behind: Scene) -> None:
    topic = behind.topic()
    name, producer = behind.leave_open(topic, timeout_ms=60_000)
    known = await behind.brokers.describe_transaction(behind.connection, name)
    assert isinstance(known, KnownTransaction)
    # The control: by our clock alone it is long overdue.
    assert now_ms() - known.start_ms - known.timeout_ms > 200_000
    assert known.age is not None
    assert known.age.most_ms <= 2 * _NEAR_MS
    (found,) = (await explain_topic(behind.brokers, behind.connection, topic, behind.asked)).partitions
    assert found.verdict is AdviceVerdict.WAIT
    assert not any("fence" in line for line in found.commands)
    assert found.until_ms is not None
    assert 0 < found.until_ms - now_ms() <= 60_000 + _NEAR_MS
    plan = await plan_fencing(behind.brokers, behind.connection, name, behind.asked)
    assert "s ago, so its producer may be alive" in (plan.refusal(force=False) or "")
    producer.abort_transaction(20)


def test_observer_measures_the_clock_by_the_journals(behind: Scene, slow_broker: KafkaCluster, tmp_path: Path) -> None:
    topic = behind.topic()
    # Of the past, and it makes the journal.
    _, before = behind.leave_open(topic)
    before.abort_transaction(20)
    with watching(slow_broker, tmp_path) as watched:
        watched.until(lambda seen: seen.transaction_journal.phase is ReadingPhase.LIVE, "the journal is followed")
        name, producer = behind.leave_open(topic)
        seen = watched.until(
            lambda seen: (
                bool(seen.clocks.offsets) and name in seen.transactions and seen.transactions[name].state.start_ms >= 0
            ),
            "the broker's clock, and the begin of the transaction",
        )
        offset = seen.clocks.offsets[1]
        # However busy the machine is: the bounds hold, and are far from what clocks in step would be.
        assert offset.least_ms - _NEAR_MS <= _BEHIND_MS <= offset.most_ms
        assert offset.least_ms > _BEHIND_MS // 2
        live = seen.transactions[name]
        age = seen.clocks.age_at(TRANSACTIONS, live.partition, live.state.start_ms, now_ms=now_ms())
        assert age is not None
        assert age.least_ms < _BEHIND_MS // 2
        producer.abort_transaction(20)


def test_lists_without_a_server_are_by_our_clock(
    behind: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FENCELINE_STATE_DIR", str(tmp_path))
    topic, group = behind.topic(), unique_name("readers")
    reader = Consumer({"bootstrap.servers": behind.bootstrap_servers, "group.id": group})
    # The client joins once the coordinator has loaded. It would not repeat a commit before.
    reader.subscribe([topic])
    wait_for(lambda: reader.poll(0.1) is None and reader.assignment(), 30, "the membership")
    reader.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    reader.close()
    began_ms = now_ms()
    name, producer = behind.leave_open(topic, timeout_ms=60_000)
    cluster = DirectCluster(behind.bootstrap_servers, None)
    ids = listing.TransactionLook(cluster, timeout_s=30)
    assert began_ms - _NEAR_MS <= ids.ids()[name].state.start_ms <= now_ms() + _NEAR_MS
    assert "broker 1's clock is 5 min" in ids.remark, ids.remark
    look = groups.GroupLook(cluster, timeout_s=30, is_wanted=lambda name: name == group)
    committed_ms = look.groups()[group].offsets[topic, 0].commit.commit_ms
    assert began_ms - 30_000 <= committed_ms <= now_ms() + _NEAR_MS
    producer.abort_transaction(20)
    # Nothing that its broker has stamped is open: its clock cannot be asked, and that is said.
    unmeasured = listing.TransactionLook(cluster, timeout_s=30)
    assert unmeasured.ids()[name].state.last_update_ms < began_ms - _BEHIND_MS // 2
    assert "times of broker 1 are by its own clock" in unmeasured.remark


async def test_age_by_the_clock_of_a_broker_in_step_is_that_by_ours(scene: Scene) -> None:
    name, producer = scene.leave_open(scene.topic())
    known = await scene.brokers.describe_transaction(scene.connection, name)
    assert isinstance(known, KnownTransaction)
    assert known.age is not None
    assert abs(known.age.most_ms - (now_ms() - known.start_ms)) <= _NEAR_MS
    producer.abort_transaction(20)
