"""The auditor with real brokers and Spark: an audit survives the server that started it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import Filter, StepOperator, Steps
from app.core.runs.instance import InstanceState
from app.core.runs.observation import ProcessWord
from app.core.runs.store.runs import RunStore
from app.edges.db.database import Database
from app.edges.embedded.java import find_java
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.edges.spark.spark_submit import SparkSubmit
from app.kit.clock import SystemClock
from app.products.audits.audit import Audit, AuditState
from app.products.audits.decision import SeenDriver
from app.products.audits.launcher import SubmitAuditLauncher
from app.products.audits.loop import Auditor
from app.products.audits.plan import begin_of_plan, time_window
from app.products.audits.result import AuditVerdict, FindingTally, GapReason
from app.products.audits.service import asking, planning
from app.products.audits.service.asking import Wish
from app.products.audits.specification import Everything, JsonField, OffsetRange, OffsetWindow
from app.products.audits.store import AuditStore
from tests.conftest import MakeTopic
from tests.support.audits import Writer
from tests.support.control_plane import ANNA, ControlPlane
from tests.support.waiting import wait_for_async

HOST = "this-host"
HOUR_S = 3_600


@pytest.fixture
def writer(kafka: KafkaCluster) -> Generator[Writer]:
    made = Writer(kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
async def brokers() -> AsyncGenerator[KafkaBrokers]:
    made = KafkaBrokers(environment=os.environ, secrets_dir=None)
    yield made
    await made.close()


@dataclass
class Servers:
    """Consecutive servers on one state folder and one database."""

    plane: ControlPlane
    brokers: KafkaBrokers
    state_dir: Path
    cache_dir: Path

    def launcher(self) -> SubmitAuditLauncher:
        spark_submit = SparkSubmit(
            cache_dir=self.cache_dir,
            version="test",
            python=sys.executable,
            java_home=find_java(may_fetch=False).home,
            host=HOST,
        )
        return SubmitAuditLauncher(spark_submit, state_dir=self.state_dir)

    def auditor(self) -> Auditor:
        return Auditor(
            unit_of_work=self.plane.uow,
            brokers=self.brokers,
            launcher=self.launcher(),
            clock=SystemClock(),
            host=HOST,
            cores=2,
            version="test",
            server_urls=lambda: (),
        )


async def audit_until_over(auditor: Auditor, plane: ControlPlane, audit_id: str) -> Audit:
    seen: list[Audit] = []

    async def over() -> Audit | None:
        await auditor.turn()
        async with plane.uow() as uow:
            seen[:] = [await uow.of(AuditStore).get(audit_id)]
        return seen[0] if seen[0].has_ended else None

    def so_far() -> str:
        audit = seen[0]
        log = Path(audit.log_path or "")
        tail = log.read_text("utf-8", "replace")[-2_000:] if log.is_file() else "nothing"
        return f"the audit to be over, which is {audit.state} ({audit.reason}); its driver's log ends: {tail}"

    ended = await wait_for_async(over, 120, so_far)
    assert ended is not None
    return ended


@pytest.mark.slow
async def test_audit_survives_the_server_that_started_it(
    kafka: KafkaCluster,
    database: Database,
    brokers: KafkaBrokers,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path: Path,
    worker_cache: Path,
) -> None:
    source, sink = make_topic(partitions=1), make_topic(partitions=1)
    ids = [f"id-{number}" for number in range(50)]
    writer.write(source, ids)
    writer.write(sink, ids[:48])
    plane = ControlPlane(database)
    await plane.registered(brokers, kafka.bootstrap_servers, name="test")
    await plane.pipeline("flights", source_topics=(source,), sink_topic=sink, group_id=source)
    connection = {"bootstrap.servers": kafka.bootstrap_servers}
    await brokers.alter_offsets(connection, source, {Partition(source, 0): 50})
    servers = Servers(plane=plane, brokers=brokers, state_dir=tmp_path / "state", cache_dir=worker_cache)
    wish = Wish(
        window=OffsetWindow(ranges=(OffsetRange(topic=source, partition=0, start=0, end=50),)),
        id_place=JsonField(path="id"),
    )
    async with plane.uow() as uow:
        asked = await asking.ask_audit(uow, pipeline="flights", wish=wish, by=ANNA, why=None, now=SystemClock().now())
        await uow.commit()
    await servers.auditor().turn()
    async with plane.uow() as uow:
        started = await uow.of(AuditStore).get(asked.id)
    assert started.state is AuditState.RUNNING, started.reason
    done = await audit_until_over(servers.auditor(), plane, asked.id)
    assert done.state is AuditState.DONE, done.reason
    assert done.result is not None
    assert done.verdict is AuditVerdict.BROKEN
    assert (done.result.counts.expected, done.result.counts.lost) == (50, FindingTally(ids=2, records=2))
    assert {place.offset for example in done.result.examples for place in example.inputs} == {48, 49}


@pytest.mark.slow
async def test_driver_is_found_by_its_folder_and_killed(
    kafka: KafkaCluster,
    database: Database,
    brokers: KafkaBrokers,
    make_topic: MakeTopic,
    tmp_path: Path,
    worker_cache: Path,
) -> None:
    source = make_topic(partitions=1)
    plane = ControlPlane(database)
    await plane.registered(brokers, kafka.bootstrap_servers, name="test")
    await plane.pipeline("flights", source_topics=(source,), sink_topic=make_topic(), group_id=source)
    servers = Servers(plane=plane, brokers=brokers, state_dir=tmp_path / "state", cache_dir=worker_cache)
    wish = Wish(window=Everything(), id_place=JsonField(path="id"))
    async with plane.uow() as uow:
        asked = await asking.ask_audit(uow, pipeline="flights", wish=wish, by=ANNA, why=None, now=SystemClock().now())
        await uow.commit()
    await servers.auditor().turn()
    launcher = servers.launcher()
    seen: SeenDriver = await launcher.observe(asked)
    assert seen.process is ProcessWord.ALIVE, "by its folder alone: the row has no process"
    await launcher.signal(asked, is_kill=True)
    failed = await audit_until_over(servers.auditor(), plane, asked.id)
    assert failed.state is AuditState.FAILED
    assert "its process has ended without an outcome" in (failed.reason or "")


@pytest.mark.slow
async def test_hourly_audit_across_a_change_of_the_filter_is_not_shown(
    kafka: KafkaCluster,
    database: Database,
    brokers: KafkaBrokers,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path: Path,
    worker_cache: Path,
) -> None:
    """The older revision filters out records that the newer one keeps; judged by the newer one, they would be lost."""
    source, sink = make_topic(), make_topic()
    now = SystemClock().now()
    end = begin_of_plan(now, HOUR_S)
    begin = end - timedelta(seconds=HOUR_S)
    plane = ControlPlane(database, now=begin)
    await plane.registered(brokers, kafka.bootstrap_servers, name="test")
    await plane.pipeline("flights", source_topics=(source,), sink_topic=sink, group_id=source, transform=keeps(10))
    run = await plane.run("flights")
    await plane.submit(run.id)
    await plane.claim(run.id)
    async with plane.uow() as uow:
        await planning.change_plan(
            uow,
            pipeline="flights",
            id_place=JsonField(path="id"),
            source_id_place=None,
            padding_s=0,
            every_s=HOUR_S,
            tolerance_s=600,
            by=ANNA,
            why=None,
            now=begin,
        )
        await uow.commit()
    plane.now = begin + timedelta(minutes=30)
    await plane.revise("flights", transform=keeps(5))
    async with plane.uow() as uow:
        await uow.of(RunStore).set_target(run.id, revision=2, bounce_requested_at=None)
        await uow.commit()
    await plane.move(run.id, 0, InstanceState.STOPPED)
    lease = await plane.lease(run.id)
    await plane.submit(run.id, lease=lease)
    await plane.claim(run.id, lease=lease)
    for revision, at, least in ((1, begin, 10), (2, plane.now, 5)):
        at_ms = int(at.timestamp() * 1000) + 1
        for size in range(20):
            id_, fields = f"{revision}-{size}", {"size": size}
            writer.write(source, [id_], at_ms=at_ms, fields=fields, end="none")
            if size >= least:
                writer.write(sink, [id_], at_ms=at_ms, fields=fields, end="none")
    await brokers.alter_offsets({"bootstrap.servers": kafka.bootstrap_servers}, source, {Partition(source, 0): 40})
    servers = Servers(plane=plane, brokers=brokers, state_dir=tmp_path / "state", cache_dir=worker_cache)
    auditor = servers.auditor()
    await auditor.turn()
    async with plane.uow() as uow:
        (asked,) = (await uow.of(AuditStore).list(pipeline="flights", after=None, limit=9)).items
    done = await audit_until_over(auditor, plane, asked.id)
    assert done.state is AuditState.DONE, done.reason
    assert (done.is_scheduled, done.revision, done.window) == (True, 2, time_window(begin, end))
    assert done.result is not None
    assert done.verdict is AuditVerdict.NOT_SHOWN
    assert [gap.reason for gap in done.result.gaps] == [GapReason.REVISION_CHANGED]
    assert (done.result.counts.missing, done.result.counts.lost) == (FindingTally(ids=5, records=5), FindingTally())


def keeps(least: int) -> Steps:
    return Steps(steps=(Filter(field="size", operator=StepOperator.GE, value=least),))
