"""An auditor on a real database, with a pipeline `flights`; Spark and brokers are recorders here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from app.core.clusters.brokers import Connection, PartitionOffsets
from app.core.clusters.cluster import ClusterFacts, TopicFacts
from app.core.clusters.partition import Partition
from app.core.journals.log_look import LogLook
from app.core.runs.launcher import Submitted
from app.core.runs.observation import ProcessWord
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import BrokerUnreachableError, UnavailableError
from app.products.audits.audit import Audit, AuditState
from app.products.audits.decision import SeenDriver
from app.products.audits.loop import Auditor
from app.products.audits.plan import AuditPlan, time_window
from app.products.audits.result import AuditResult
from app.products.audits.service import asking, carrying_out, planning
from app.products.audits.service.asking import Wish
from app.products.audits.specification import Window
from app.products.audits.store import AuditStore
from app.products.audits.wire import AuditClaim, AuditEnd, AuditOrder, AuditOutcome, AuditProgressReport, AuditStage
from tests.core.journals.logs import WrittenLog
from tests.support.audit_samples import BY_ID, HOUR
from tests.support.control_plane import ANNA, ControlPlane, PlaneClock

ALIVE = SeenDriver(process=ProcessWord.ALIVE)
GONE = SeenDriver(process=ProcessWord.GONE, log_tail="ERROR out of luck\n")


@dataclass
class RecordingLauncher:
    """Says what the test says of every driver, and remembers what it was asked to do."""

    plane: ControlPlane
    seen: SeenDriver = ALIVE
    submitted: list[AuditOrder] = field(default_factory=list[AuditOrder])
    states_when_submitted: list[AuditState] = field(default_factory=list[AuditState])
    signals: list[str] = field(default_factory=list[str])
    refusal: str | None = None

    async def submit(self, order: AuditOrder) -> Submitted:
        async with self.plane.uow() as uow:
            audit = await uow.of(AuditStore).get(order.specification.audit_id)
        self.states_when_submitted.append(audit.state)
        if self.refusal is not None:
            raise UnavailableError(self.refusal)
        self.submitted.append(order)
        return Submitted(host="w1", jvm_pid=100, started_at=self.plane.now, log_path="/log")

    async def observe(self, audit: Audit) -> SeenDriver:
        return self.seen

    async def signal(self, audit: Audit, *, is_kill: bool) -> None:
        self.signals.append("kill" if is_kill else "stop")


@dataclass
class OneTopic:
    """Brokers with the topic `in` of one partition, of whose twenty records the window holds the first ten."""

    committed: int | None = 10
    is_away: bool = False
    log: WrittenLog = field(default_factory=WrittenLog)

    async def facts(self, connection: Connection, *, topics: Collection[str]) -> ClusterFacts:
        self._refuse()
        return ClusterFacts(cluster_id="kafka-1", topics={"in": TopicFacts(partitions=1, replication_factor=1)})

    async def offsets(
        self, connection: Connection, partitions: Collection[Partition]
    ) -> Mapping[Partition, PartitionOffsets]:
        return {at: PartitionOffsets(earliest=0, last_stable=20, high_watermark=20) for at in partitions}

    async def offsets_at(
        self, connection: Connection, partitions: Collection[Partition], *, timestamp_ms: int
    ) -> Mapping[Partition, int]:
        return dict.fromkeys(partitions, 10)

    async def committed_offsets(self, connection: Connection, group: str) -> Mapping[Partition, int]:
        self._refuse()
        return {} if self.committed is None else {Partition("in", 0): self.committed}

    async def read_partition_log(self, connection: Connection, at: Partition, *, start: int, limit: int) -> LogLook:
        return self.log.look()

    def _refuse(self) -> None:
        if self.is_away:
            raise BrokerUnreachableError("kafka:9092", "refused", 5.0)


class Audited:
    """The pipeline, its auditor, and what people and drivers do; each method is one unit of work, committed."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.spark = RecordingLauncher(plane)
        self.brokers = OneTopic()
        any_brokers: Any = self.brokers
        self.auditor = Auditor(
            unit_of_work=plane.uow,
            brokers=any_brokers,
            launcher=self.spark,
            clock=PlaneClock(plane),
            host="w1",
            cores=2,
            version="1",
            server_urls=lambda: ("http://server",),
            look_again_after=timedelta(0),
        )

    def uow(self) -> UnitOfWork:
        return self.plane.uow()

    async def turn(self) -> None:
        await self.auditor.turn()

    async def ask(self, window: Window | None = None, **fields: Any) -> Audit:
        """Start an audit by hand; of the last hour by default."""
        window = window or time_window(self.plane.now - HOUR, self.plane.now)
        wish = Wish(window=window, id_place=BY_ID, **fields)
        async with self.uow() as uow:
            audit = await asking.ask_audit(uow, pipeline="flights", wish=wish, by=ANNA, why=None, now=self.plane.now)
            await uow.commit()
        return audit

    async def ask_and_start(self) -> Audit:
        """An audit whose driver was started, and has reported nothing yet."""
        asked = await self.ask()
        await self.turn()
        return await self.look(asked.id)

    async def ask_and_claim(self) -> Audit:
        """An audit whose driver is at work."""
        started = await self.ask_and_start()
        assert await self.claim(started.id)
        return await self.look(started.id)

    async def submit_and_die(self, audit_id: str) -> None:
        """The rows that a server writes before it starts a driver; then it does nothing more."""
        async with self.uow() as uow:
            await carrying_out.begin_submission(
                uow, audit_id, host="w1", cores=1, fenceline_version="1", server_urls=(), now=self.plane.now
            )
            await uow.commit()

    async def look(self, audit_id: str) -> Audit:
        async with self.uow() as uow:
            return await uow.of(AuditStore).get(audit_id)

    async def all(self) -> list[Audit]:
        """The newest first."""
        async with self.uow() as uow:
            return list((await uow.of(AuditStore).list(pipeline="flights", after=None, limit=50)).items)

    async def make_plan(self, *, every_s: int | None = 3600, **fields: Any) -> AuditPlan:
        values: dict[str, Any] = {"padding_s": 0, "tolerance_s": 600, "source_id_place": None, **fields}
        async with self.uow() as uow:
            plan = await planning.change_plan(
                uow,
                pipeline="flights",
                id_place=BY_ID,
                every_s=every_s,
                by=ANNA,
                why=None,
                now=self.plane.now,
                **values,
            )
            await uow.commit()
        return plan

    async def plan(self) -> AuditPlan:
        async with self.uow() as uow:
            return await planning.get_plan(uow, "flights")

    async def stop(self, audit_id: str) -> Audit:
        async with self.uow() as uow:
            audit = await asking.stop_audit(uow, audit_id, by=ANNA, why="enough", now=self.plane.now)
            await uow.commit()
        return audit

    async def claim(self, audit_id: str, application_id: str = "app-1") -> bool:
        told = AuditClaim(
            fenceline_version="1",
            python_version="3.11",
            audit_id=audit_id,
            application_id=application_id,
            host="w1",
            jvm_pid=100,
            python_pid=101,
            process_started_at_ms=1,
        )
        async with self.uow() as uow:
            answer = await carrying_out.claim_audit(uow, told, now=self.plane.now)
            await uow.commit()
        return answer.granted

    async def tell(self, audit_id: str, kind: AuditEnd, found: AuditResult | None = None) -> None:
        outcome = AuditOutcome(audit_id=audit_id, application_id="app-1", kind=kind, message="reported", result=found)
        async with self.uow() as uow:
            await carrying_out.receive_outcome(uow, outcome, now=self.plane.now)
            await uow.commit()

    async def progress(self, audit_id: str, *, tasks_done: int = 0) -> bool:
        message = AuditProgressReport(
            audit_id=audit_id,
            application_id="app-1",
            sent_at_ms=1,
            stage=AuditStage.READING,
            tasks_done=tasks_done,
            tasks=8,
            offsets=1000,
        )
        async with self.uow() as uow:
            answer = await carrying_out.receive_progress(uow, message, now=self.plane.now)
            await uow.commit()
        return answer.is_wanted
