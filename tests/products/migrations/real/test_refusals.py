"""What the preflight refuses, seen by the real questions on a real broker: each alone, and none when it has gone.

Nothing is begun while one of them stands.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, ResourceType  # pyright: ignore[reportPrivateImportUsage]
from msgspec.structs import replace

from app.core.blocked.facts import KnownTransaction
from app.core.ids.transactional_id import for_task
from app.core.runs.mode import Mode
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.products.migrations.judged import ClauseStanding, Judged
from app.products.migrations.migration import Migration, MigrationState, Stage
from app.products.migrations.service import asking
from tests.support.migrating_tasks import CLUSTER, OTTO, PIPELINE, MigratingTasks
from tests.support.older_broker import said_to_be
from tests.support.permissions import GUARDED_BROKER_SETTINGS, allow_again, deny
from tests.support.pipelines import TestPipeline
from tests.support.quiet import QUIET
from tests.support.topics import delete_topics
from tests.support.transactions import producer, send

pytestmark = pytest.mark.slow
TASK_ID = for_task(prefix="fl", pipeline=PIPELINE, instance=0, task=0)


def on(kafka: KafkaCluster, database: Database, folder: Path) -> MigratingTasks:
    pipeline = TestPipeline.create(kafka.bootstrap_servers, partitions=2, transaction_timeout_ms=10_000)
    return MigratingTasks.of(database, pipeline, folder)


@pytest.fixture
async def migrating(kafka: KafkaCluster, database: Database, tmp_path: Path) -> AsyncGenerator[MigratingTasks]:
    one = on(kafka, database, tmp_path)
    yield one
    await one.close()
    delete_topics(kafka.bootstrap_servers, [one.pipeline.source, one.pipeline.sink])


async def running(migrating: MigratingTasks) -> None:
    """One instance without a generation, which has committed."""
    await migrating.begin(Mode.GROUP_ONLY, instances=1)
    await asyncio.to_thread(migrating.pipeline.feed, 20)
    await migrating.until(lambda: committed(migrating), "something is committed")


async def committed(migrating: MigratingTasks) -> bool:
    process = migrating.processes[0, 1]
    return process.snapshot is not None and process.snapshot.counters.records_in >= 20


async def clause(migrating: MigratingTasks, migration: Migration, name: str) -> Judged | None:
    """Return the condition as the newest check found it; None before the first. No stage has begun."""
    seen = await migrating.get(migration)
    assert seen.stage is Stage.PREFLIGHT, f"{seen.stage} has begun"
    return next((one for one in seen.gate if one.name == name), None)


async def until_refused(migrating: MigratingTasks, migration: Migration, name: str, told: str) -> None:
    """Wait until the condition is closed with this finding."""
    seen: list[Judged | None] = []

    async def is_refused() -> bool:
        seen.append(await clause(migrating, migration, name))
        one = seen[-1]
        return one is not None and one.standing is ClauseStanding.CLOSED and told in one.seen

    try:
        await migrating.until(is_refused, f"{name} is closed")
    except AssertionError as late:
        raise AssertionError(f"{name} does not say “{told}”; last seen: {seen[-1]}") from late


async def until_begun(migrating: MigratingTasks, migration: Migration) -> None:
    """Wait until the preflight is open: the one reason was the only one. A stopped migration is resumed."""
    if (await migrating.get(migration)).state is MigrationState.STOPPED:
        async with migrating.plane.uow() as uow:
            await asking.resume_migration(uow, migration.id, by=OTTO, why="mended", now=migrating.plane.now)
            await uow.commit()
    await migrating.until_migrated(migration, lambda seen: seen.stage is not Stage.PREFLIGHT, "the first bounce")


@contextmanager
def member(migrating: MigratingTasks, client_id: str) -> Generator[Consumer]:
    """Another client joins the pipeline's group, and stays."""
    settings = {
        "bootstrap.servers": migrating.pipeline.bootstrap_servers,
        "group.id": migrating.pipeline.definition.group_id,
        "client.id": client_id,
        "enable.auto.commit": False,
        "session.timeout.ms": 10_000,
        # With another one the coordinator would not let it in.
        "partition.assignment.strategy": "cooperative-sticky",
        **QUIET,
    }
    consumer = Consumer(settings)
    consumer.subscribe([migrating.pipeline.source])
    try:
        yield consumer
    finally:
        consumer.close()


def until_assigned(consumer: Consumer, is_over: threading.Event) -> None:
    while not consumer.assignment() and not is_over.is_set():
        consumer.poll(0.1)


async def test_a_broker_that_reports_less_than_2_5_is_refused_with_the_reason_of_kip_447(
    migrating: MigratingTasks,
) -> None:
    """The broker's versions are simulated: those of 2.4."""
    with said_to_be((2, 4), migrating.pipeline.bootstrap_servers) as address:
        definition = migrating.pipeline.definition
        await migrating.plane.registered(migrating.brokers, address, name=CLUSTER)
        fields = {name: getattr(definition, name) for name in definition.__struct_fields__}
        await migrating.plane.pipeline(PIPELINE, **{**fields, "cluster": CLUSTER, "instances": 1})
        await migrating.plane.run(PIPELINE)
        migration = await migrating.start(Mode.GENERATION)
        await migrating.driver().turn()
        brokers = await clause(migrating, migration, "brokers")
    assert brokers is not None
    assert brokers.standing is ClauseStanding.CLOSED, brokers
    assert "has version 2.4: brokers before 2.5 accept offsets of stale members" in brokers.seen
    assert "(KIP-447)" in brokers.seen


@pytest.mark.core
async def test_a_foreign_producer_under_one_of_our_ids_is_refused(migrating: MigratingTasks) -> None:
    settings = {"bootstrap.servers": migrating.pipeline.bootstrap_servers, **QUIET}
    # Longer than it takes to begin and to look.
    foreign = producer(settings, TASK_ID, **{"transaction.timeout.ms": "600000"})
    foreign.begin_transaction()
    send(foreign, migrating.pipeline.sink, "of somebody else")
    await running(migrating)
    migration = await migrating.start()
    # At any epoch: other tests have used the id on this broker.
    told = f"a transaction is open under {TASK_ID} (epoch "
    await until_refused(migrating, migration, "no_collision", told)
    foreign.abort_transaction()
    await until_begun(migrating, migration)


async def test_another_client_in_the_group_is_refused_by_its_name_and_host(migrating: MigratingTasks) -> None:
    await running(migrating)
    is_over = threading.Event()
    with member(migrating, "somebody-else") as stranger:
        joining = asyncio.create_task(asyncio.to_thread(until_assigned, stranger, is_over))
        try:
            await migrating.until(lambda: said(joining.done()), "it has joined")
            migration = await migrating.start()
            told = "somebody-else on 127.0.0.1 is a member, and no task of Fenceline"
            await until_refused(migrating, migration, "no_strangers", told)
        finally:
            is_over.set()
            await joining
    await until_begun(migrating, migration)


async def test_a_group_that_keeps_rebalancing_is_refused(migrating: MigratingTasks) -> None:
    """Another client joins and leaves repeatedly; between two rebalances the group is Stable."""
    is_over, rounds = threading.Event(), list[int]()

    def come_and_go() -> None:
        while not is_over.is_set():
            with member(migrating, "restless") as one:
                until_assigned(one, is_over)
            rounds.append(1)

    await running(migrating)
    going = asyncio.create_task(asyncio.to_thread(come_and_go))
    try:
        await migrating.until(lambda: said(len(rounds) >= 1), "it has come and gone")
        migration = await migrating.start()
        seen: list[Judged] = []

        async def has_gone_on() -> bool:
            one = await clause(migrating, migration, "group_stable")
            seen.extend([] if one is None else [one])
            return len(rounds) >= 4

        await migrating.until(has_gone_on, "it has come and gone three times more")
        assert seen
        assert not [one.seen for one in seen if one.is_open]
    finally:
        is_over.set()
        await going
    await until_begun(migrating, migration)


async def said(word: bool) -> bool:
    return word


@pytest.fixture(scope="module")
def guarded() -> Generator[KafkaCluster]:
    with KafkaCluster.start(overrides=GUARDED_BROKER_SETTINGS) as kafka:
        yield kafka


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (AclOperation.WRITE, f"EndTxn of {TASK_ID} was refused: TRANSACTIONAL_ID_AUTHORIZATION_FAILED; it needs WRITE"),
        (AclOperation.DESCRIBE, f"DescribeTransactions of {TASK_ID} was refused"),
    ],
)
async def test_an_acl_that_is_missing_is_refused_before_anything_needs_it(
    guarded: KafkaCluster, database: Database, tmp_path: Path, operation: AclOperation, told: str
) -> None:
    """Test an id that only a rollback fences, when a refusal would come too late."""
    migrating = on(guarded, database, tmp_path)
    kind = ResourceType.TRANSACTIONAL_ID
    try:
        deny(guarded.bootstrap_servers, TASK_ID, operation, kind, is_rest_allowed=True)
        await running(migrating)
        migration = await migrating.start()
        await until_refused(migrating, migration, "rights", told)
        allow_again(guarded.bootstrap_servers, TASK_ID, kind)
        await until_begun(migrating, migration)
    finally:
        await migrating.close()


async def test_asking_for_rights_changes_nothing(migrating: MigratingTasks) -> None:
    """The check changes neither an id with an open transaction, nor an idle one, nor an unknown one."""
    settings = {"bootstrap.servers": migrating.pipeline.bootstrap_servers, **QUIET}
    connection = {"bootstrap.servers": migrating.pipeline.bootstrap_servers}
    names = [f"fl.t.rights-{migrating.pipeline.source}.{word}" for word in ("open", "idle", "none")]
    holding, idle = producer(settings, names[0]), producer(settings, names[1])
    holding.begin_transaction()
    send(holding, migrating.pipeline.sink, "open")

    async def described() -> list[object]:
        found = [await migrating.transactions.describe_transaction(connection, name) for name in names]
        # Its age is measured each time.
        return [replace(one, age=None) if isinstance(one, KnownTransaction) else one for one in found]

    before = await described()
    assert await migrating.transactions.fences_refused(connection, names) == {}
    assert await described() == before
    assert before[2] is None
    holding.commit_transaction()
    idle.begin_transaction()
    send(idle, migrating.pipeline.sink, "later")
    idle.commit_transaction()
