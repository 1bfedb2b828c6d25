"""End the transaction of a dead producer, and of no other one, on a real broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka.admin import KafkaAdminClient  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
from kafka.protocol.producer.transaction import (  # pyright: ignore[reportMissingTypeStubs]
    EndTxnRequest,
    InitProducerIdRequest,
)

from app.core.blocked.brokers import FencedProducer, NotEnded
from app.core.blocked.facts import KnownTransaction
from app.core.clusters.partition import Partition
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_client import error_of, errors
from app.edges.kafka.transactions.client import TransactionClient
from tests.edges.kafka.transactions.conftest import Scene
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.topics import unique_name

pytestmark = pytest.mark.slow

_DEADLINE_S = 20.0
_RACES = 24
_Init: Any = InitProducerIdRequest
_End: Any = EndTxnRequest


async def known(scene: Scene, name: str) -> KnownTransaction:
    found = await scene.brokers.describe_transaction(scene.connection, name)
    assert isinstance(found, KnownTransaction), found
    return found


async def end(scene: Scene, dead: KnownTransaction) -> FencedProducer | NotEnded:
    return await scene.brokers.end_transaction(
        scene.connection,
        dead.transactional_id,
        producer_id=dead.producer_id,
        producer_epoch=dead.producer_epoch,
    )


def asked(scene: Scene, request: Any) -> Any:
    """The coordinator's answer to this very request; the scene has one broker."""
    with TransactionClient(scene.connection, ConnectionAttempt(scene.bootstrap_servers, _DEADLINE_S)) as client:
        return client.send(request, 1)


def init_of(dead: KnownTransaction) -> Any:
    return _Init(
        transactional_id=dead.transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=dead.producer_id,
        producer_epoch=dead.producer_epoch,
        max_version=4,
    )


def end_of(dead: KnownTransaction, *, version: int) -> Any:
    return _End(
        transactional_id=dead.transactional_id,
        producer_id=dead.producer_id,
        producer_epoch=dead.producer_epoch,
        committed=False,
        min_version=version,
        max_version=version,
    )


def refused(commit: Callable[[], None]) -> KafkaError:
    with pytest.raises(KafkaException) as caught:
        commit()
    error = caught.value.args[0]
    assert isinstance(error, KafkaError)
    return error


async def test_transaction_of_the_dead_is_ended_and_its_readers_go_on(scene: Scene) -> None:
    topic = scene.topic()
    name, zombie = scene.leave_open(topic, timeout_ms=900_000)
    scene.write(topic)
    dead = await known(scene, name)
    done = await end(scene, dead)
    assert done == FencedProducer(dead.producer_id, dead.producer_epoch + 1)
    # A server without a confirmation asks again, perhaps another one: the answer is the same, and so is the id.
    assert await end(scene, dead) == done
    assert scene.decided_values(Partition(topic, 0)) == [b"plain"]
    # Should it live after all, it is fenced: it cannot begin another one at its old epoch.
    assert refused(lambda: zombie.commit_transaction(20)).code() == KafkaError._FENCED


@pytest.mark.slow
async def test_next_owner_begins_as_ever_after_it(scene: Scene) -> None:
    topic = scene.topic()
    name, _ = scene.leave_open(topic, timeout_ms=900_000)
    dead = await known(scene, name)
    await end(scene, dead)
    _, successor = scene.leave_open(topic, transactional_id=name)
    assert (await known(scene, name)).producer_epoch == dead.producer_epoch + 2
    successor.commit_transaction(20)
    assert scene.decided_values(Partition(topic, 0)) == [b"undecided"]


@pytest.mark.parametrize("is_open", [True, False])
async def test_id_that_has_moved_on_is_left_alone(scene: Scene, is_open: bool) -> None:
    topic = scene.topic()
    name, _ = scene.leave_open(topic)
    dead = await known(scene, name)
    _, successor = scene.leave_open(topic, transactional_id=name)
    if not is_open:
        successor.commit_transaction(20)
    before = await known(scene, name)
    assert await end(scene, dead) is NotEnded.MOVED_ON
    # It has grown older meanwhile.
    assert msgspec.structs.replace(await known(scene, name), age=before.age) == before
    if is_open:
        successor.commit_transaction(20)
    assert scene.decided_values(Partition(topic, 0)) == [b"undecided"]


async def test_id_that_is_not_there_is_not_made(scene: Scene) -> None:
    nobody = KnownTransaction(unique_name("never"), 1, "Ongoing", 7, 0, 60_000, 0)
    assert await end(scene, nobody) is NotEnded.MOVED_ON
    assert await scene.brokers.describe_transaction(scene.connection, nobody.transactional_id) is None


@pytest.mark.parametrize("names_epoch", [True, False])
async def test_init_ends_the_transaction_of_the_new_owner(scene: Scene, names_epoch: bool) -> None:
    """Why it is not InitProducerId, not even with KIP-360: of an open transaction no coordinator compares the epoch."""
    topic = scene.topic()
    name, _ = scene.leave_open(topic)
    dead = await known(scene, name)
    _, successor = scene.leave_open(topic, transactional_id=name)
    request = (
        init_of(dead) if names_epoch else init_of(msgspec.structs.replace(dead, producer_id=-1, producer_epoch=-1))
    )
    assert isinstance(error_of(asked(scene, request).error_code, None), errors.ConcurrentTransactionsError)
    assert refused(lambda: successor.commit_transaction(20)).code() == KafkaError._FENCED
    assert scene.decided_values(Partition(topic, 0)) == []


async def test_end_before_kip_890_leaves_its_producer_alive(scene: Scene) -> None:
    """Why it is version 5: the one before aborts, and a producer that lives after all tears its transaction apart."""
    topic, other = scene.topic(), scene.topic()
    name, zombie = scene.leave_open(topic)
    dead = await known(scene, name)
    assert asked(scene, end_of(dead, version=4)).error_code == 0
    zombie.produce(other, b"later", partition=0)
    zombie.commit_transaction(20)
    assert scene.decided_values(Partition(topic, 0)) == []
    assert scene.decided_values(Partition(other, 0)) == [b"later"]


async def test_new_attempt_that_comes_at_the_same_moment_is_never_fenced(scene: Scene) -> None:
    """In either order: the new owner's init waits for the abort that the server began, or the server is too late."""
    topic = scene.topic()
    first_was_we: list[bool] = []
    head_start = 0
    for _ in range(_RACES):
        name, _ = scene.leave_open(topic, timeout_ms=900_000)
        dead = await known(scene, name)
        begun: list[Producer] = []

        def attempt(name: str = name, begun: list[Producer] = begun) -> None:
            begun.append(scene.leave_open(topic, transactional_id=name)[1])

        thread = threading.Thread(target=attempt)
        thread.start()
        for _ in range(head_start):
            await known(scene, name)
        # From then on until after the new owner's first output.
        answers = [await end(scene, dead)]
        while thread.is_alive():
            answers.append(await end(scene, dead))
        answers.append(await end(scene, dead))
        thread.join()
        assert answers[-1] is NotEnded.MOVED_ON
        first_was_we.append(isinstance(answers[0], FencedProducer))
        # Towards the moment of its init, from whichever side this round was.
        head_start = 2 * head_start + 1 if first_was_we[-1] else head_start // 2
        begun[0].commit_transaction(20)
    assert len(scene.decided_values(Partition(topic, 0))) == _RACES
    assert set(first_was_we) == {True, False}, first_was_we


@pytest.mark.slow
async def test_cluster_whose_transaction_version_was_not_raised_is_left_alone() -> None:
    """As after an upgrade from 3.x. The control: its coordinator accepts the request, and the id becomes unusable."""
    with KafkaCluster.start(overrides=TEST_BROKER_SETTINGS) as cluster:
        scene = Scene(cluster.bootstrap_servers)
        admin: Any = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        try:
            admin.update_features({"transaction.version": ("SAFE_DOWNGRADE", 0)})
        finally:
            admin.close()
        topic = scene.topic()
        name, producer = scene.leave_open(topic)
        dead = await known(scene, name)
        assert await end(scene, dead) is NotEnded.UNSUPPORTED
        producer.commit_transaction(20)
        assert scene.decided_values(Partition(topic, 0)) == [b"undecided"]
        producer.begin_transaction()
        producer.produce(topic, b"held", partition=0)
        assert producer.flush(_DEADLINE_S) == 0
        said = [error_of(asked(scene, end_of(dead, version=5)).error_code, None) for _ in range(2)]
        assert [type(one) for one in said] == [errors.UnsupportedVersionError, errors.ConcurrentTransactionsError]
