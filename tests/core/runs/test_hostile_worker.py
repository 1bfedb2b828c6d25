"""A hostile worker against a whole server: nothing outside its own pipeline changes, and nothing fails."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from app.core.blocked.brokers import FencedProducer, TransactionBrokers
from app.core.blocked.facts import KnownTransaction
from app.core.blocked.loops.dead_tasks import DeadTasks
from app.core.clusters.partition import Partition
from app.core.fencing.record import FencingFilter
from app.core.fencing.store import FencingStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import OwnershipFilter
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.runs.launcher import SparkLauncher
from app.core.runs.observation import MasterWord, Observation, ProcessWord, ReportedProcess
from app.core.runs.service import retention
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.wire import drill, heartbeat
from app.core.wiring import Wiring
from app.kit.access import Role
from app.products.audits import wire as audit
from app.products.audits.service import asking, carrying_out
from app.products.audits.service.asking import Wish
from app.products.audits.specification import JsonField, TimeWindow
from app.products.dataframes import wire as dataframe
from app.products.drills.drill import Drill, DrillKind
from app.products.drills.service import drills
from app.products.offset_log.loop import OffsetWatch
from tests.support.control_plane import ANNA, KAFKA_CLUSTER_ID, ControlPlane, PlaneClock, app_id, task_heartbeat
from tests.support.hostile_messages import Liar
from tests.support.wiring import WORKERS_URL, browser_of, client_of

MESSAGES = 250
LARGEST_PAGE_BYTES = 1_500_000
STRANGER = "payments-of-a-stranger-1"
PATHS: dict[str, type[msgspec.Struct]] = {
    "/workers/v1/claim": heartbeat.Claim,
    "/workers/v1/heartbeat": heartbeat.TaskHeartbeat,
    "/workers/v1/driver": heartbeat.DriverHeartbeat,
    "/workers/v1/outcome": heartbeat.ReportedOutcome,
    drill.DRILL_PATH: drill.DrillReport,
    dataframe.BATCHES_PATH: dataframe.QueryReport,
    audit.CLAIM_PATH: audit.AuditClaim,
    audit.PROGRESS_PATH: audit.AuditProgressReport,
    audit.OUTCOME_PATH: audit.AuditOutcome,
}


@dataclass
class Coordinators:
    """They say of every id that it has the transaction open of which they are asked, and note what is ended. Every
    group has every member.
    """

    ended: set[str] = field(default_factory=set[str])
    groups: set[str] = field(default_factory=set[str])

    async def is_member(self, *_: object, **__: Any) -> bool:
        return True

    async def remove_member(self, _: object, group: str, __: str, **___: Any) -> bool:
        self.groups.add(group)
        return True

    async def describe_transaction(self, _: object, name: str, **__: Any) -> KnownTransaction:
        return KnownTransaction(name, 1, "Ongoing", 7, 3, 10_000, 0, frozenset({Partition("out", 0)}))

    async def can_end_transactions(self, *_: object, **__: Any) -> bool:
        return True

    async def end_transaction(self, _: object, name: str, **__: Any) -> FencedProducer:
        self.ended.add(name)
        return FencedProducer(7, 4)


@dataclass
class Gone:
    """Spark, which says that every driver is gone, and the host, on which the liar's processes have ended."""

    run_id: str

    async def observe(self, *_: object) -> Observation:
        return Observation(process=ProcessWord.GONE, master=MasterWord.FINISHED)

    async def ended_tasks(self, reported: list[ReportedProcess]) -> list[ReportedProcess]:
        return [one for one in reported if one.run_id == self.run_id]


@dataclass
class World:
    """`flights`, whose tokens the liar has, with a drill and an audit of it; `victim`, which is another's."""

    wiring: Wiring
    plane: ControlPlane
    run_id: str
    victim_run: str
    tokens: tuple[str, str]
    drill: Drill
    audit_id: str

    def names(self) -> list[str]:
        ids = [
            f"fl.t.{name}.{ordinal}.{task}" for name in ("flights", "victim") for ordinal in (0, 1) for task in (0, 1)
        ]
        by_formula = [f"fl.p.{name}-group.in.{number}" for name in ("flights", "victim") for number in (0, 7)]
        places = ["in", "out", "in-0", "out-7", "flights-group", "victim-group"]
        return [*ids, *by_formula, *places, STRANGER, app_id(0, 1), "w1", self.run_id, self.victim_run, self.drill.id]

    async def of_others(self) -> list[object]:
        """Return all rows of the victim and of other pipelines."""
        async with self.plane.uow() as uow:
            mapped = await uow.of(MappingStore).of_cluster(kafka_cluster_id=KAFKA_CLUSTER_ID)
            history = await uow.of(MappingStore).history(
                OwnershipFilter(group="victim-group"), kafka_cluster_id=KAFKA_CLUSTER_ID, after=None, limit=50
            )
            owners = await uow.of(TransactionalIdStore).of_cluster(kafka_cluster_id=KAFKA_CLUSTER_ID)
            told = await uow.of(MappingStore).incarnations(kafka_cluster_id=KAFKA_CLUSTER_ID)
            fencing = (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=500)).items
            return [
                await uow.of(RunStore).get(self.victim_run),
                await uow.of(TaskStore).list_statuses([self.victim_run]),
                (await uow.of(TaskStore).list_events(self.victim_run, after=None, limit=50)).items,
                [
                    one
                    for one in mapped
                    if one.pipeline != "flights" or one.group != "flights-group" or one.topic != "in"
                ],
                history.items,
                {
                    one.transactional_id
                    for one in owners
                    if one.pipeline != "flights" or not _is_flights(one.transactional_id)
                },
                sorted(one for one in map(msgspec.structs.astuple, told) if not _is_flights(one[0])),
                [one for one in fencing if not _is_flights(one.event.key.transactional_id)],
            ]


def _is_flights(name: str) -> bool:
    return name.startswith(("fl.t.flights.", "fl.p.flights-group.in."))


async def world_of(wiring: Wiring, guarantee: ProcessingGuarantee) -> World:
    plane = ControlPlane(cast(Any, SimpleNamespace(unit_of_work=wiring.unit_of_work)))
    plane.now = wiring.clock.now()
    await plane.pipeline("flights", allows_drills=True, tasks_per_instance=2, processing_guarantee=guarantee)
    run = await plane.run("flights")
    secret = await plane.submit(run.id)
    await plane.claim(run.id)
    victim = await plane.running("victim", tasks_per_instance=2)
    beat = task_heartbeat(victim.id, partitions=[Partition("in", 0)])
    own = {"transactional_id": "fl.t.victim.0.0", "producer_id": 7, "producer_epoch": 3}
    await plane.beat(msgspec.structs.replace(beat, **own))
    for task in (0, 1):
        told = msgspec.structs.replace(task_heartbeat(run.id, task=task), producer_id=7, producer_epoch=3)
        await plane.beat(told)
    async with plane.uow() as uow:
        ordered = await drills.begin_drill(
            uow, pipeline="flights", kind=DrillKind.KILL_INSTANCE, ordinal=0, for_s=5, by=ANNA, why=None, now=plane.now
        )
        end_ms = int(plane.now.timestamp() * 1000)
        window = TimeWindow(start_ms=end_ms - 3_600_000, end_ms=end_ms)
        asked = await asking.ask_audit(
            uow,
            pipeline="flights",
            wish=Wish(window=window, id_place=JsonField(path="id")),
            by=ANNA,
            why=None,
            now=plane.now,
        )
        order = await carrying_out.begin_submission(
            uow, asked.id, host="w1", cores=1, fenceline_version="1", server_urls=(), now=plane.now
        )
        await uow.commit()
    return World(wiring, plane, run.id, victim.id, (secret, order.token), ordered, asked.id)


async def lie(world: World, client: httpx.AsyncClient, draw: random.Random) -> set[int]:
    """Send messages, most of them in the liar's own name; the statuses that they were answered with."""
    liar = Liar(draw, world.names())
    statuses: set[int] = set()
    for number in range(MESSAGES):
        path = draw.choice(list(PATHS)) if draw.random() < 0.5 else "/workers/v1/heartbeat"
        is_audit = path.startswith("/workers/v1/audit/")
        fixed: dict[str, Any] = {"protocol_version": 1}
        if draw.random() < 0.9:
            # In its own name, or nothing but a refusal would be tried.
            fixed |= {"audit_id": world.audit_id} if is_audit else {"run_id": world.run_id, "ordinal": 0, "lease": 1}
        if draw.random() < 0.8:
            fixed |= {"task": draw.randrange(2), "attempt": draw.randrange(3), "sequence": number + 10}
            fixed |= {"application_id": app_id(0, 1), "drill_id": world.drill.id}
        if path == "/workers/v1/outcome" and number < MESSAGES - 20:
            continue
        token = world.tokens[is_audit if draw.random() < 0.95 else not is_audit]
        body = liar.message(PATHS[path], **fixed)
        response = await client.post(path, content=body, headers={"Authorization": f"Bearer {token}"})
        assert response.status_code < 500, f"{path} {body!r}: {response.text}"
        statuses.add(response.status_code)
    return statuses


@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.EXACTLY_ONCE])
async def test_worker_that_lies_changes_nothing_outside_its_pipeline(
    api_wiring: Wiring, app: FastAPI, workers_app: FastAPI, seed: int, guarantee: ProcessingGuarantee
) -> None:
    world = await world_of(api_wiring, guarantee)
    before = await world.of_others()
    async with client_of(workers_app, url=WORKERS_URL) as client:
        statuses = await lie(world, client, random.Random(seed))
    assert {200, 403} <= statuses, "messages were taken, and others refused"
    await api_wiring.partition_counts.settled()
    assert await world.of_others() == before

    coordinators = Coordinators()
    loop = DeadTasks(
        unit_of_work=api_wiring.unit_of_work,
        brokers=cast(TransactionBrokers, coordinators),
        launcher=cast(SparkLauncher, Gone(world.run_id)),
        clock=PlaneClock(world.plane),
        host="w1",
        where="w1",
    )
    liar = Liar(random.Random(seed), world.names())
    for task in (0, 1):
        gone = [{"task": task, "attempt": attempt, "by": "worker"} for attempt in range(3)]
        fixed = {"protocol_version": 1, "run_id": world.run_id, "ordinal": 0, "lease": 1, "gone": gone}
        # The listener refuses half of a surrogate pair before the loop gets the message.
        message = liar.message(heartbeat.DriverHeartbeat, **fixed).replace(rb'"\ud83d"', b'""')
        loop.hear(msgspec.json.decode(message, type=heartbeat.DriverHeartbeat))
    for _ in range(3):
        await loop.turn()
        world.plane.pass_time(60)
    assert coordinators.ended <= {"fl.t.flights.0.0", "fl.t.flights.0.1"}
    assert coordinators.groups <= {"flights-group"}
    watch = OffsetWatch(
        unit_of_work=api_wiring.unit_of_work, observations=api_wiring.observations, clock=api_wiring.clock
    )
    await watch.turn()
    async with api_wiring.unit_of_work() as uow:
        await retention.expire(uow, now=api_wiring.clock.now() + timedelta(days=400))

    async with browser_of(api_wiring, Role.ADMINISTRATOR) as browser:
        for path in (
            "/",
            "/metrics",
            "/fencing",
            "/commands",
            "/mappings?cluster=test",
            "/pipelines/flights",
            "/pipelines/victim",
            "/pipelines/flights/offsets",
            "/pipelines/flights/batches",
            f"/runs/{world.run_id}",
            f"/audits/{world.audit_id}",
            f"/drills/{world.drill.id}",
            f"/api/v1/runs/{world.run_id}/tasks",
            f"/api/v1/runs/{world.run_id}/events",
            f"/api/v1/audits/{world.audit_id}",
            f"/api/v1/drills/{world.drill.id}",
            "/api/v1/pipelines/flights/mappings",
            "/api/v1/pipelines/flights/batches",
            "/api/v1/pipelines/flights/query",
        ):
            response = await browser.get(path)
            assert response.status_code == 200, f"{path}: {response.status_code} {response.text[:300]}"
            assert len(response.content) < LARGEST_PAGE_BYTES, path
            if response.headers["content-type"].startswith("text/html"):
                assert not re.search("<script>xss|<img onerror", response.text), path
        families = list(text_string_to_metric_families((await browser.get("/metrics")).text))
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    assert "fenceline_run_records_in_total" in samples
    assert sum(api_wiring.dropped_fields.counts.values()) > 0


@pytest.mark.parametrize("path", PATHS)
async def test_deep_json_is_refused_and_not_a_bug(api_wiring: Wiring, workers_app: FastAPI, path: str) -> None:
    world = await world_of(api_wiring, ProcessingGuarantee.EXACTLY_ONCE_V2)
    token = world.tokens[path.startswith("/workers/v1/audit/")]
    async with client_of(workers_app, url=WORKERS_URL) as client:
        for body in (b'{"protocol_version":1,"a":' + b"[" * 300_000, b"[" * 300_000, b'{"a":' * 100_000):
            response = await client.post(path, content=body, headers={"Authorization": f"Bearer {token}"})
            assert response.status_code == 400, response.text
            assert len(response.text) < 1_000
