"""Read models as the services give them, made up: what a page shows is tested without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from app.core.access.command import Command
from app.core.clusters.cluster import Cluster
from app.core.fencing.fencing_event import (
    Confidence,
    FencingCause,
    FencingEvent,
    FencingKey,
    FencingKind,
    FencingVerdict,
)
from app.core.fencing.record import FencingPlace, FencingRecord
from app.core.fencing.service.feed import FencingLine
from app.core.hanging.report import HangingLine
from app.core.mappings.mapping import PartitionMapping, PartitionOwner
from app.core.overview.service import NOTHING_RUNS, Happening, Overview, PipelineLine, PipelinePage, Rates, RunPage
from app.core.pipelines.pipeline import Filter, PipelineDefinition, Project, StepOperator, Steps
from app.core.pipelines.pipeline_record import Pipeline, Revision
from app.core.runs.bad_records import BadCause, BadRecordSummary
from app.core.runs.instance import Instance, InstanceState
from app.core.runs.needs import Need, NeedSeverity
from app.core.runs.run import DesiredRunState, Run, RunState
from app.core.runs.series import RunPoint, RunRebalance, RunTotals
from app.core.runs.task import (
    Counters,
    EventKind,
    TaskEventRecord,
    TaskRates,
    TaskReport,
    TaskState,
    TaskStatus,
    ZombieSighting,
)
from app.kit.access import Role, Verb
from app.kit.chart_range import ChartRange, window_of
from tests.support.hanging_samples import hanging_transaction

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
RUN_ID = "0195f3a2b7c84d1e9a6b3c5d7e8f9012"

CLUSTER = Cluster(
    name="demo",
    kafka_cluster_id="4L6g3nShT-eMCtK--X86sw",
    bootstrap_servers="127.0.0.1:9092",
    created_at=NOW,
    created_by="ada",
)
DEFINITION = PipelineDefinition(
    cluster="demo",
    source_topics=("flights",),
    group_id="delayed-flights",
    sink_topic="delayed-flights",
    transform=Steps(
        steps=(
            Filter(field="arrival_delay_min", operator=StepOperator.GE, value=15),
            Project(fields=("flight_id", "carrier", "origin", "destination", "arrival_delay_min")),
        )
    ),
    instances=2,
)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def instance(ordinal: int, *, lease: int = 1, state: InstanceState = InstanceState.RUNNING) -> Instance:
    return Instance(
        run_id=RUN_ID,
        ordinal=ordinal,
        lease=lease,
        revision=2,
        state=state,
        since=ago(240),
        leased_at=ago(260),
        application_id=f"app-2026030111560{ordinal}-000{lease}",
        host="w3",
        jvm_pid=4100 + ordinal,
        python_pid=4200 + ordinal,
        log_path=f"/var/lib/fenceline/logs/{ordinal}.{lease}.log",
        executors=1,
        tasks_running=1,
        tasks_waiting=0,
        last_heartbeat_at=ago(0.4),
    )


def run(*, state: RunState = RunState.RUNNING, desired: DesiredRunState = DesiredRunState.RUN) -> Run:
    has_ended = state in (RunState.STOPPED, RunState.FAILED)
    return Run(
        id=RUN_ID,
        pipeline="delayed-flights",
        cluster="demo",
        kafka_cluster_id="4L6g3nShT-eMCtK--X86sw",
        revision=2,
        desired=desired,
        state=state,
        started_at=ago(300),
        started_by="ada",
        ended_at=ago(10) if has_ended else None,
        end_reason="instance 1 gave up: the Spark master refused it" if state is RunState.FAILED else None,
        instances=(instance(0), instance(1)),
    )


def pipeline(current: Run | None) -> Pipeline:
    return Pipeline(
        id="7",
        name="delayed-flights",
        cluster="demo",
        current_revision=2,
        definition=DEFINITION,
        created_at=ago(90_000),
        created_by="ada",
        changed_at=ago(4_000),
        current_run=None if current is None else current.summary(),
    )


def task(
    ordinal: int,
    *,
    state: TaskState = TaskState.RUNNING,
    last_error: str | None = None,
    not_progressing_ms: int | None = None,
) -> TaskStatus:
    report = TaskReport(
        run_id=RUN_ID,
        ordinal=ordinal,
        lease=1,
        task=0,
        attempt=1 + ordinal,
        sequence=40,
        sent_at_ms=int(NOW.timestamp() * 1000),
        host="w3",
        pid=5300 + ordinal,
        state=state,
        transactional_id=f"fl.t.delayed-flights.{ordinal}.0",
        member_id=f"fenceline-delayed-flights-0{ordinal}-9f8e7d6c",
        generation=18,
        counters=Counters(records_in=41_882, records_out=9_112, transactions_committed=2_390, transactions_aborted=1),
        commit_latency_p50_ms=4.2,
        commit_latency_p99_ms=12.5,
        open_transaction_age_ms=62,
        last_error=last_error,
        not_progressing_ms=not_progressing_ms,
    )
    rates = TaskRates(records_in_per_s=4_206.0, records_out_per_s=966.0, commits_per_s=9.8, aborts_per_s=0.0)
    return TaskStatus(last=report, received_at=ago(0.4), state_since=ago(200), rates=rates)


def mapping(partition: int) -> PartitionMapping:
    ordinal = partition % 2
    return PartitionMapping(
        pipeline="delayed-flights",
        kafka_cluster_id="4L6g3nShT-eMCtK--X86sw",
        group="delayed-flights",
        topic="flights",
        partition=partition,
        transactional_id=f"fl.t.delayed-flights.{ordinal}.0",
        owner=PartitionOwner(run_id=RUN_ID, ordinal=ordinal, lease=1, task=0, attempt=1 + ordinal, host="w3"),
        producer_id=4_012 + ordinal,
        epoch=6,
        generation=18,
        since=ago(180),
        position=41_900 + partition,
        committed=41_882 + partition,
        end=41_990 + partition,
    )


def event(kind: EventKind, message: str, *, seconds: float = 40) -> TaskEventRecord:
    return TaskEventRecord(
        run_id=RUN_ID,
        event_id=f"{kind}-{seconds}",
        ordinal=0,
        lease=1,
        task=0,
        attempt=2,
        kind=kind,
        at=ago(seconds),
        message=message,
        partitions=("flights-0",),
        generation=18,
        received_at=ago(seconds - 0.2),
    )


EVENTS = (
    event(EventKind.FENCED, "another producer took the id: epoch 4 → 6, instance 0 attempt 2 took over in 10.6 s"),
    event(EventKind.REVOKED, "flights-2 and flights-3 were given up; their checkpoint was committed", seconds=75),
)
RATES = Rates(
    records_in_per_s=8_412.0,
    records_out_per_s=1_933.0,
    commits_per_s=19.6,
    aborts_per_s=0.0,
    commit_latency_p99_ms=12.5,
    lag_records=432,
)
TOTALS = RunTotals(
    records_in=336_776, records_out=80_100, transactions_committed=4_780, transactions_aborted=1, fencings=1
)
NEED = Need(
    pipeline="delayed-flights",
    run_id=RUN_ID,
    severity=NeedSeverity.DEGRADED,
    sentence="instance 1: 1 of 2 tasks waits for a core",
    next_step="add Spark workers or cores, or lower the pipeline's tasks per instance",
)


WINDOW = window_of(ChartRange.QUARTER, now=NOW)
BAD = BadRecordSummary(
    causes=(
        BadCause(
            topic="flights",
            partition=0,
            error="delays.py, line 12: ValueError",
            records=1_234,
            first_offset=17,
            last_offset=99_120,
            first_at_ms=int(ago(3_000).timestamp() * 1000),
            last_at_ms=int(ago(20).timestamp() * 1000),
        ),
    ),
    skipped_last_hour=34,
)
REBALANCE = RunRebalance(at=ago(120), generation=12, tasks=4)


def series() -> list[RunPoint]:
    """Five minutes with a peak, a gap of ten seconds, and an abort."""
    return [
        RunPoint(
            at=ago(300 - second),
            in_low=(rate := 72_116.0 if second == 80 else 8_000.0 + 400 * ((second * 7) % 5)),
            in_high=rate,
            out_low=(rate_out := 1_900.0 + 60 * ((second * 3) % 7)),
            out_high=rate_out,
            aborts=1.0 if second == 200 else 0.0,
        )
        for second in range(300)
        if not 140 <= second < 150
    ]


def revision(number: int) -> Revision:
    return Revision(
        pipeline="delayed-flights",
        number=number,
        definition=DEFINITION,
        definition_sha256="0" * 64,
        transform_source_sha256=None,
        created_at=ago(90_000 - number),
        created_by="ada",
        note="also for cancelled flights" if number == 2 else None,
    )


def command() -> Command:
    return Command(
        id=3,
        at=ago(300),
        who="ada",
        role=Role.AUTHOR,
        verb=Verb.START_RUN,
        target="pipeline:delayed-flights",
        why="first try",
        details={},
        outcome="run 0195f3a2 was started",
    )


def line(current: Run | None, *, needs: tuple[Need, ...] = ()) -> PipelineLine:
    return PipelineLine(
        pipeline=pipeline(current),
        state=None if current is None else current.state,
        run=current,
        rates=NOTHING_RUNS if current is None else RATES,
        needs=needs,
    )


def fencing_line() -> FencingLine:
    key = FencingKey(
        kafka_cluster_id="k", transactional_id="fl.t.0.0", producer_id=7, producer_epoch=0, kind=FencingKind.EPOCH
    )
    verdict = FencingVerdict(
        cause=FencingCause.TAKEOVER,
        confidence=Confidence.CERTAIN,
        at_ms=int(ago(60).timestamp() * 1000),
        sentence="A new producer took fl.t.0.0 over.",
    )
    record = FencingRecord(
        id="0195f3a2-b7c8-4d1e-9a6b-3c5d7e8f9012",
        event=FencingEvent(key=key, verdict=verdict, evidence=()),
        place=FencingPlace(pipeline="delayed-flights"),
        corrections=(),
        told_at=ago(59),
        changed_at=ago(59),
    )
    return FencingLine(cluster="demo", record=record)


def overview_view(*, is_empty: bool = False, needs: tuple[Need, ...] = ()) -> Overview:
    lines = () if is_empty else (line(run(), needs=needs),)
    return Overview(
        at=NOW,
        lines=lines,
        states={} if is_empty else {"running": 1},
        rates=NOTHING_RUNS if is_empty else RATES,
        needs=needs,
        window=WINDOW,
        series=[] if is_empty else series(),
        marked=() if is_empty else (fencing_line(),),
        hanging=() if is_empty else (HangingLine(cluster="demo", transaction=hanging_transaction(seen_ms=1_000)),),
        raised=(),
        fencings=() if is_empty else (fencing_line(),),
        fencing_counts={} if is_empty else {FencingCause.TAKEOVER: 2, FencingCause.TIMEOUT: 1},
        happened=() if is_empty else tuple(Happening(pipeline="delayed-flights", event=item) for item in EVENTS),
        clusters=() if is_empty else ("demo",),
    )


def pipeline_view(current: Run | None, *, needs: tuple[Need, ...] = ()) -> PipelinePage:
    has_run = current is not None
    return PipelinePage(
        at=NOW,
        line=line(current, needs=needs),
        cluster=CLUSTER,
        tasks=(task(0), task(1)) if has_run else (),
        mappings=tuple(mapping(partition) for partition in range(4)) if has_run else (),
        totals=TOTALS if has_run else RunTotals(),
        window=WINDOW,
        series=series() if has_run else [],
        rebalances=[REBALANCE] if has_run else [],
        bad=BAD if has_run else BadRecordSummary(),
        marked=(fencing_line(),) if has_run else (),
        events=EVENTS if has_run else (),
        fencings=(fencing_line(),) if has_run else (),
    )


def run_view(current: Run) -> RunPage:
    return RunPage(
        at=NOW,
        run=current,
        definition=DEFINITION,
        rates=RATES,
        instances=(
            instance(0),
            instance(1, lease=2),
            msgspec.structs.replace(instance(1, state=InstanceState.FAILED), reason="its driver ended with code 137"),
        ),
        tasks=(task(0), task(1, state=TaskState.BACKING_OFF, last_error="Broker: <script>alert(1)</script> refused")),
        totals=TOTALS,
        window=WINDOW,
        series=series(),
        rebalances=[REBALANCE],
        bad=BAD,
        marked=(fencing_line(),),
        events=EVENTS,
        zombies=(
            ZombieSighting(
                run_id=RUN_ID,
                ordinal=1,
                lease=1,
                task=0,
                attempt=0,
                host="w3",
                pid=5_299,
                state=TaskState.FENCED,
                first_seen_at=ago(80),
                last_seen_at=ago(70),
                heartbeats=9,
            ),
        ),
        needs=(),
    )
