"""The auditor on a real database: rows before acts, one audit of a pipeline at a time, and no end without a word.

Spark and brokers are recorders here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.db.database import Database
from app.domain.access import Verb
from app.domain.alerts.alert import AlertKind
from app.domain.audits.audit import MARKED_FOR, Audit, AuditState
from app.domain.audits.decision import DriverWord, SeenDriver
from app.domain.audits.plan import AuditPlan, time_window
from app.domain.audits.result import AuditResult, Verdict
from app.domain.clusters.cluster import ClusterFacts, TopicFacts
from app.domain.errors import BrokerUnreachableError, ConflictError, UnavailableError
from app.domain.journals.record_batch import MarkerType
from app.domain.partition_log.look import Look
from app.domain.runs.observation import ProcessWord
from app.domain.webhooks.webhook import Webhook
from app.loops.auditor import Auditor
from app.ports.brokers import Connection, PartitionOffsets, TopicPartition
from app.ports.spark import Submitted
from app.services import overview
from app.services.auditing import asking, carrying_out, planning
from app.services.auditing.asking import Wish
from app.wire.audit import AuditClaim, AuditEnd, AuditOrder, AuditOutcome, AuditProgress, AuditStage
from tests.domain.partition_log.logs import WrittenLog
from tests.support.audit_samples import BY_ID, HOUR, broken_result, result
from tests.support.control_plane import ANNA, ControlPlane, PlaneClock

ALIVE = SeenDriver(process=ProcessWord.ALIVE)
GONE = SeenDriver(process=ProcessWord.GONE, log_tail="ERROR out of luck\n")
S = AuditState


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
            audit = await uow.audits.get(order.specification.audit_id)
        self.states_when_submitted.append(audit.state)
        if self.refusal is not None:
            raise UnavailableError(self.refusal)
        self.submitted.append(order)
        return Submitted(host="w1", jvm_pid=100, started_at=self.plane.now, log_path="/log")

    async def observe(self, audit: Audit) -> SeenDriver:
        return self.seen

    async def signal(self, audit: Audit, *, is_kill: bool) -> None:
        self.signals.append("kill" if is_kill else "stop")

    async def trim_logs(self) -> int:
        raise AssertionError("the auditor does not")

    async def remove_folders(self, *, unchanged_since: datetime) -> int:
        raise AssertionError(unchanged_since)


@dataclass
class OneTopic:
    """Brokers with the topic `in` of one partition, of which the window holds the first ten records."""

    committed: int | None = 10
    is_away: bool = False
    log: WrittenLog = field(default_factory=WrittenLog)

    async def facts(self, connection: Connection, *, topics: Collection[str]) -> ClusterFacts:
        self._refuse()
        return ClusterFacts(cluster_id="kafka-1", topics={"in": TopicFacts(partitions=1, replication_factor=1)})

    async def offsets(
        self, connection: Connection, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, PartitionOffsets]:
        return {at: PartitionOffsets(earliest=0, last_stable=20, high_watermark=20) for at in partitions}

    async def offsets_at(
        self, connection: Connection, partitions: Collection[TopicPartition], *, timestamp_ms: int
    ) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    async def committed_offsets(self, connection: Connection, group: str) -> Mapping[TopicPartition, int]:
        self._refuse()
        return {} if self.committed is None else {TopicPartition("in", 0): self.committed}

    async def read_partition_log(self, connection: Connection, at: TopicPartition, *, start: int, limit: int) -> Look:
        return self.log.look()

    def _refuse(self) -> None:
        if self.is_away:
            raise BrokerUnreachableError("kafka:9092", "refused", 5.0)


@pytest.fixture
def plane(database: Database) -> ControlPlane:
    return ControlPlane(database)


@pytest.fixture
def spark(plane: ControlPlane) -> RecordingLauncher:
    return RecordingLauncher(plane)


@pytest.fixture
def brokers() -> OneTopic:
    return OneTopic()


@pytest.fixture
def auditor(plane: ControlPlane, spark: RecordingLauncher, brokers: OneTopic) -> Auditor:
    any_brokers: Any = brokers
    return Auditor(
        unit_of_work=plane.uow,
        brokers=any_brokers,
        launcher=spark,
        clock=PlaneClock(plane),
        host="w1",
        cores=2,
        version="1",
        server_urls=lambda: ("http://server",),
        look_again_after=timedelta(0),
    )


async def ask(plane: ControlPlane, **fields: Any) -> Audit:
    wish = Wish(window=time_window(plane.now - HOUR, plane.now), id_place=BY_ID, **fields)
    async with plane.uow() as uow:
        audit = await asking.ask_audit(uow, pipeline="flights", wish=wish, by=ANNA, why=None, now=plane.now)
        await uow.commit()
    return audit


async def look(plane: ControlPlane, audit_id: str) -> Audit:
    async with plane.uow() as uow:
        return await uow.audits.get(audit_id)


async def all_of(plane: ControlPlane) -> list[Audit]:
    async with plane.uow() as uow:
        return list((await uow.audits.list(pipeline="flights", after=None, limit=50)).items)


async def make_plan(plane: ControlPlane, *, every_s: int | None = 3600, **fields: Any) -> AuditPlan:
    values: dict[str, Any] = {"padding_s": 0, "tolerance_s": 600, "source_id_place": None, **fields}
    async with plane.uow() as uow:
        plan = await planning.change_plan(
            uow, pipeline="flights", id_place=BY_ID, every_s=every_s, by=ANNA, why=None, now=plane.now, **values
        )
        await uow.commit()
    return plan


async def stop(plane: ControlPlane, audit_id: str) -> Audit:
    async with plane.uow() as uow:
        audit = await asking.stop_audit(uow, audit_id, by=ANNA, why="enough", now=plane.now)
        await uow.commit()
    return audit


async def claim(plane: ControlPlane, audit_id: str, application_id: str = "app-1") -> bool:
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
    async with plane.uow() as uow:
        answer = await carrying_out.claim_audit(uow, told, now=plane.now)
        await uow.commit()
    return answer.granted


async def tell(plane: ControlPlane, audit_id: str, kind: AuditEnd, found: AuditResult | None = None) -> None:
    outcome = AuditOutcome(audit_id=audit_id, application_id="app-1", kind=kind, message="said so", result=found)
    async with plane.uow() as uow:
        await carrying_out.receive_outcome(uow, outcome, now=plane.now)
        await uow.commit()


async def progress(plane: ControlPlane, audit_id: str, *, tasks_done: int = 0) -> bool:
    message = AuditProgress(
        audit_id=audit_id,
        application_id="app-1",
        sent_at_ms=1,
        stage=AuditStage.READING,
        tasks_done=tasks_done,
        tasks=8,
        offsets=1000,
    )
    async with plane.uow() as uow:
        answer = await carrying_out.receive_progress(uow, message, now=plane.now)
        await uow.commit()
    return answer.is_wanted


async def test_an_audit_goes_from_wish_to_verdict(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    await auditor.turn()
    assert spark.states_when_submitted == [S.SUBMITTING], "the row comes before the act"
    order = spark.submitted[0]
    assert order.specification.group_id == "flights-group"
    assert order.server_urls == ("http://server",)
    assert await claim(plane, asked.id)
    assert await progress(plane, asked.id, tasks_done=3)
    shown = await look(plane, asked.id)
    assert shown.state is S.RUNNING
    assert shown.progress is not None
    assert (shown.progress.stage, shown.progress.tasks_done) == ("reading", 3)
    await tell(plane, asked.id, AuditEnd.DONE, result(asked.id))
    done = await look(plane, asked.id)
    assert (done.state, done.verdict) == (S.DONE, Verdict.CLEAN)
    async with plane.uow() as uow:
        assert (await uow.audits.counts())["flights"] == {"audits_clean": 1, "outputs_expected": 8}
        assert await carrying_out.audit_of_token(uow, order.token) == asked.id


async def test_it_waits_for_the_pipeline_and_says_what_for(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor, brokers: OneTopic
) -> None:
    await plane.pipeline()
    asked = await ask(plane, tolerance_s=600)
    brokers.log.plain(records=20)
    brokers.committed = 7
    await auditor.turn()
    waiting = await look(plane, asked.id)
    assert (waiting.state, waiting.reason) == (
        S.PENDING,
        "the pipeline has not committed all of the window: in-0 (3 offsets) to go",
    )
    plane.pass_time(60)
    brokers.committed = 10
    await auditor.turn()
    assert len(spark.submitted) == 1


async def test_markers_and_aborted_records_at_the_end_of_the_window_are_not_waited_for(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor, brokers: OneTopic
) -> None:
    """A group never commits past a last marker: with an input of transactions it would wait for ever."""
    await plane.pipeline()
    await ask(plane)
    brokers.log.data(1, records=6)
    brokers.log.mark(1, MarkerType.COMMIT)
    brokers.log.data(2, records=2)
    brokers.log.mark(2, MarkerType.ABORT)
    brokers.committed = 6
    await auditor.turn()
    assert len(spark.submitted) == 1


async def test_it_is_skipped_when_the_pipeline_stays_behind(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor, brokers: OneTopic
) -> None:
    await plane.pipeline()
    asked = await ask(plane, tolerance_s=600)
    brokers.committed = None
    await auditor.turn()
    plane.pass_time(600)
    await auditor.turn()
    skipped = await look(plane, asked.id)
    assert skipped.state is S.SKIPPED
    assert skipped.reason == "the pipeline has not committed all of the window: in-0 (no offset) to go"
    assert spark.submitted == []


async def test_brokers_that_are_away_let_it_wait(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor, brokers: OneTopic
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    brokers.is_away = True
    await auditor.turn()
    waiting = await look(plane, asked.id)
    assert waiting.state is S.PENDING
    assert "no Kafka broker answers at kafka:9092" in (waiting.reason or "")


async def test_of_one_pipeline_only_one_audit_lives(plane: ControlPlane) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    with pytest.raises(ConflictError, match=f"audit {asked.id} of flights, which anna asked for, is pending"):
        await ask(plane)


async def test_a_plan_audits_window_after_window(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor
) -> None:
    await plane.pipeline()
    plan = await make_plan(plane)
    await auditor.turn()
    assert await all_of(plane) == []
    begin = plan.decided_until
    plane.now = begin + HOUR
    await auditor.turn()
    (first,) = await all_of(plane)
    assert (first.is_scheduled, first.asked_by, first.window) == (True, "auditor", time_window(begin, begin + HOUR))
    await auditor.turn()
    await claim(plane, first.id)
    plane.pass_time(3 * 3600)
    await auditor.turn()
    assert len(await all_of(plane)) == 1, "never two at once"
    await tell(plane, first.id, AuditEnd.DONE, result(first.id))
    await auditor.turn()
    newest, missed, _ = await all_of(plane)
    if newest.state is S.SKIPPED:
        newest, missed = missed, newest
    assert newest.window == time_window(begin + 3 * HOUR, begin + 4 * HOUR)
    assert (missed.state, missed.window) == (S.SKIPPED, time_window(begin + HOUR, begin + 3 * HOUR))
    async with plane.uow() as uow:
        kept = await planning.get_plan(uow, "flights")
    assert kept.shown_until == begin + HOUR
    assert kept.decided_until == begin + 4 * HOUR


async def test_an_id_that_is_lost_is_told_by_webhook(plane: ControlPlane, auditor: Auditor) -> None:
    await plane.pipeline()
    async with plane.uow() as uow:
        await uow.webhooks.add(
            Webhook(name="pager", url="https://x/y", secrets=("env:X",), kinds=(), created_at=plane.now, created_by="a")
        )
        await uow.commit()
    asked = await ask(plane)
    await auditor.turn()
    await claim(plane, asked.id)
    await tell(plane, asked.id, AuditEnd.DONE, broken_result(asked.id))
    await tell(plane, asked.id, AuditEnd.DONE, broken_result(asked.id))
    async with plane.uow() as uow:
        deliveries = (await uow.deliveries.list("pager", after=None, limit=10)).items
    assert [one.type for one in deliveries] == [f"{AlertKind.AUDIT}.happened"], "once, however often it is heard"
    assert deliveries[0].sentence == (
        "The audit of flights: 2 outputs lost (of 1 id) and 1 output duplicated, of 9 expected."
    )


async def test_a_pipeline_of_which_an_audit_has_proven_something_wrong_needs_somebody(
    plane: ControlPlane, auditor: Auditor
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    await auditor.turn()
    await claim(plane, asked.id)
    await tell(plane, asked.id, AuditEnd.DONE, broken_result(asked.id))

    async def needs() -> list[str]:
        async with plane.uow() as uow:
            return [need.sentence for need in (await overview.overview(uow, now=plane.now)).needs]

    assert await needs() == ["an audit has proven outputs lost, duplicated or unexpected"]
    plane.pass_time(MARKED_FOR.total_seconds() + 1)
    assert await needs() == []


async def test_a_driver_that_dies_fails_with_its_last_words(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    await auditor.turn()
    spark.seen = GONE
    await auditor.turn()
    failed = await look(plane, asked.id)
    assert failed.state is S.FAILED
    assert failed.reason == "its process is gone without a word; the end of its log: ERROR out of luck"


async def test_a_result_that_no_server_heard_is_taken_from_the_folder(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    await auditor.turn()
    word = DriverWord(kind="done", message="", result=result(asked.id))
    spark.seen = SeenDriver(process=ProcessWord.GONE, left=word)
    await auditor.turn()
    assert (await look(plane, asked.id)).verdict is Verdict.CLEAN


async def test_a_server_that_died_before_it_started_anything_is_followed_by_one_that_does(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    async with plane.uow() as uow:
        await carrying_out.begin_submission(
            uow, asked.id, host="w1", cores=1, fenceline_version="1", server_urls=(), now=plane.now
        )
        await uow.commit()
    spark.seen = GONE
    await auditor.turn()
    assert (await look(plane, asked.id)).state is S.PENDING
    spark.seen = ALIVE
    await auditor.turn()
    assert (await look(plane, asked.id)).state is S.RUNNING
    assert len(spark.submitted) == 1


async def test_a_driver_that_a_server_left_unwritten_is_adopted_by_the_next(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    async with plane.uow() as uow:
        await carrying_out.begin_submission(
            uow, asked.id, host="w1", cores=1, fenceline_version="1", server_urls=(), now=plane.now
        )
        await uow.commit()
    spark.seen = SeenDriver(process=ProcessWord.ALIVE, jvm_pid=4711, started_at=plane.now)
    await auditor.turn()
    adopted = await look(plane, asked.id)
    assert (adopted.state, adopted.jvm_pid) == (S.RUNNING, 4711)
    assert spark.submitted == []


async def test_a_stop_ends_it_without_a_result(plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    await auditor.turn()
    await claim(plane, asked.id)
    assert (await stop(plane, asked.id)).state is S.STOPPING
    assert not await progress(plane, asked.id), "its driver hears that it is not wanted any more"
    await auditor.turn()
    assert spark.signals == ["stop"]
    await tell(plane, asked.id, AuditEnd.STOPPED)
    stopped = await look(plane, asked.id)
    assert (stopped.state, stopped.reason) == (S.STOPPED, "anna stopped it: enough")
    with pytest.raises(ConflictError, match="is over already"):
        await stop(plane, asked.id)
    async with plane.uow() as uow:
        verbs = [one.verb for one in (await uow.commands.list(target="pipeline:flights", after=None, limit=9)).items]
    assert verbs == [Verb.STOP_AUDIT, Verb.START_AUDIT]


async def test_one_that_works_for_too_long_is_stopped_and_has_failed(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    await auditor.turn()
    plane.pass_time(3 * 3600)
    await auditor.turn()
    await auditor.turn()
    assert spark.signals == ["stop"]
    plane.pass_time(60)
    await auditor.turn()
    assert spark.signals == ["stop", "kill"]
    spark.seen = GONE
    await auditor.turn()
    failed = await look(plane, asked.id)
    assert (failed.state, failed.reason) == (
        S.FAILED,
        "it was stopped after 180 minutes: an audit may take 120 minutes",
    )


async def test_a_submission_that_is_refused_fails_with_the_reason(
    plane: ControlPlane, spark: RecordingLauncher, auditor: Auditor
) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    spark.refusal = "Java 17 was not found"
    await auditor.turn()
    failed = await look(plane, asked.id)
    assert (failed.state, failed.reason) == (S.FAILED, "Java 17 was not found")


async def test_a_second_driver_of_one_audit_is_refused(plane: ControlPlane, auditor: Auditor) -> None:
    await plane.pipeline()
    asked = await ask(plane)
    await auditor.turn()
    assert await claim(plane, asked.id)
    assert await claim(plane, asked.id), "a claim that is repeated is granted again"
    assert not await claim(plane, asked.id, "app-2")
