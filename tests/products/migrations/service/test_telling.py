"""An alarm of a migration goes to the webhooks, as other alerts do: once, with host and process."""

from __future__ import annotations

import pytest

from app.core.alerts.alert import AlertKind
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Webhook
from app.core.clusters.cluster import GroupMember
from app.core.runs.client_id import TaskName, client_id_of
from app.products.migrations.look import AuditNow
from app.products.migrations.migration import Stage
from app.products.migrations.store.migrations import MigrationStore
from tests.products.migrations.service.test_driving import P1, in_stage, is_over, is_stopped
from tests.support.control_plane import CLUSTER, task_heartbeat
from tests.support.migrating import PIPELINE, Migrating


@pytest.fixture
async def pager(migrating: Migrating) -> str:
    """Return the name of a webhook that gets them."""
    async with migrating.plane.uow() as uow:
        await uow.of(WebhookStore).add(
            Webhook(
                name="pager",
                url="https://hooks.example.com/x",
                secrets=("env:FENCELINE_SECRET_X",),
                kinds=(AlertKind.MIGRATION_ALARM,),
                created_at=migrating.plane.now,
                created_by="anna",
            )
        )
        await uow.commit()
    return "pager"


async def told(migrating: Migrating, webhook: str) -> list[str]:
    async with migrating.plane.uow() as uow:
        found = (await uow.of(DeliveryStore).list(webhook, after=None, limit=9)).items
    assert {one.type for one in found} <= {"migration_alarm.happened"}
    return [one.sentence for one in found]


async def test_a_member_of_an_older_stage_is_reported_with_its_host_and_process(
    migrating: Migrating, pager: str
) -> None:
    run = await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    assert await told(migrating, pager) == []
    await migrating.plane.beat(task_heartbeat(run.id, ordinal=1, lease=1, sequence=900))
    await migrating.until(migration, is_stopped)
    await migrating.turn()
    (sentence,) = await told(migrating, pager)
    assert sentence.startswith(f"The migration of {PIPELINE} to exactly_once_v2: task 1.0 of ended lease 1")
    assert "process 4711 on w1" in sentence
    assert "No further step begins" in sentence


async def test_a_member_without_heartbeats_is_reported_with_its_last_process(migrating: Migrating, pager: str) -> None:
    await migrating.running()
    migration = await migrating.start()
    await migrating.until(migration, in_stage(Stage.SECOND_BOUNCE))
    client_id = client_id_of(PIPELINE, TaskName(ordinal=1, task=0, lease=1, attempt=0))
    migrating.guests.append(GroupMember(member_id="awake", client_id=client_id, host="10.0.0.9"))
    await migrating.until(migration, is_stopped)
    (sentence,) = await told(migrating, pager)
    assert f"{client_id} on 10.0.0.9. End its process 4711 there" in sentence
    async with migrating.plane.uow() as uow:
        (alarm,) = await uow.of(MigrationStore).alarms(migration.id)
    assert (alarm.host, alarm.pid) == ("10.0.0.9", 4711)


@pytest.mark.parametrize("is_done", [False, True])
async def test_a_retired_id_in_use_is_reported_before_the_end_and_after_it(
    migrating: Migrating, pager: str, is_done: bool
) -> None:
    await migrating.running()
    if not is_done:
        migrating.audit_now = AuditNow(audit_id="a1", is_through=False)
    migration = await migrating.start()
    await migrating.until(migration, is_over if is_done else in_stage(Stage.VERIFY))
    migrating.epochs[P1] += 1
    for _ in range(2):
        await migrating.turn()
    (sentence,) = await told(migrating, pager)
    assert f"retired id {P1} is in use: fenced at epoch" in sentence
    assert ("Nothing is left to stop" in sentence) is is_done
    assert migration.cluster == CLUSTER
