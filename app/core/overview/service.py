"""The content of pages, read at one moment: a page and its live region are made from the same answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from app.core.alerts.alert import Alert
from app.core.alerts.conditions import WATCHED
from app.core.alerts.store.webhooks import RaisedAlertStore
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.fencing.evidence import ClientWord
from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.record import FencingFilter
from app.core.fencing.service import feed as fencing_feed
from app.core.fencing.service.feed import FencingLine
from app.core.hanging.report import HangingLine
from app.core.hanging.service import lines_of_all
from app.core.mappings.mapping import PartitionMapping
from app.core.mappings.store.mappings import MappingStore
from app.core.overview.product_views import NeedsOf, Panel, PanelOf
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.bad_records import BadRecordSummary
from app.core.runs.instance import Instance
from app.core.runs.needs import Need, needs_of
from app.core.runs.not_progressing import not_progressing
from app.core.runs.run import Run, RunState
from app.core.runs.series import RunPoint, RunRebalance, RunTotals
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.runs import RunStore
from app.core.runs.store.series import SeriesStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskEventRecord, TaskStatus, ZombieSighting
from app.kit.chart_range import ChartRange, ChartWindow, window_of
from app.kit.db.unit_of_work import UnitOfWork

LIST_LIMIT = 500
FENCING_SPAN = timedelta(hours=24)
FENCINGS_SHOWN = 5
EVENTS_SHOWN = 20
NEWEST_SHOWN = 5
MARKED = 30
"""The most fencing events, and the most rebalances, on the chart of a pipeline or a run: the newest."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over tasks with a heartbeat in the last seconds; `p99` is the worst task's. None: not reported."""

    records_in_per_s: float | None = None
    records_out_per_s: float | None = None
    commits_per_s: float | None = None
    aborts_per_s: float | None = None
    commit_latency_p99_ms: float | None = None
    lag_records: int | None = None


NOTHING_RUNS = Rates(records_in_per_s=0.0, records_out_per_s=0.0, commits_per_s=0.0, aborts_per_s=0.0)


class PipelineLine(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline in a list. `run` is the live run, else the last; `state` None: it was never started.

    needs: those of the products first, then those of the run.
    not_progressing_ms: the longest time in which one of its tasks has committed nothing; 0: all progress.
    """

    pipeline: Pipeline
    state: RunState | None
    run: Run | None
    rates: Rates
    needs: tuple[Need, ...] = ()
    not_progressing_ms: int = 0


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    pipeline: str
    event: TaskEventRecord


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """series: the sum of all pipelines in `window`. states: pipelines by state, with `never started`.

    fencings: the newest of the last day, of all clients; marked: more of them, for the chart. fencing_counts: all of
    that day, by cause, the most frequent first. happened: task events, without those that are the evidence of a fencing
    event. raised: alerts that last.
    """

    at: datetime
    lines: tuple[PipelineLine, ...]
    states: dict[str, int]
    rates: Rates
    needs: tuple[Need, ...]
    window: ChartWindow
    series: list[RunPoint]
    marked: tuple[FencingLine, ...]
    hanging: tuple[HangingLine, ...]
    raised: tuple[Alert, ...]
    fencings: tuple[FencingLine, ...]
    fencing_counts: dict[FencingCause, int]
    happened: tuple[Happening, ...]
    clusters: tuple[str, ...]


class PipelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """series: of all its runs in `window`. events, fencings: the newest; marked: more of them, for the chart.

    bad: bad records of its current run. panels: sections of products.
    """

    at: datetime
    line: PipelineLine
    cluster: Cluster
    tasks: tuple[TaskStatus, ...]
    mappings: tuple[PartitionMapping, ...]
    totals: RunTotals
    window: ChartWindow
    series: list[RunPoint]
    rebalances: list[RunRebalance]
    marked: tuple[FencingLine, ...]
    events: tuple[TaskEventRecord, ...]
    fencings: tuple[FencingLine, ...]
    bad: BadRecordSummary = BadRecordSummary()
    panels: tuple[Panel, ...] = ()


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """`instances` has every lease, `run.instances` the current ones; `definition` is that of the run's revision.

    window: until now, or until the end of the run.
    """

    at: datetime
    run: Run
    definition: PipelineDefinition
    rates: Rates
    instances: tuple[Instance, ...]
    tasks: tuple[TaskStatus, ...]
    totals: RunTotals
    window: ChartWindow
    series: list[RunPoint]
    rebalances: list[RunRebalance]
    marked: tuple[FencingLine, ...]
    events: tuple[TaskEventRecord, ...]
    zombies: tuple[ZombieSighting, ...]
    needs: tuple[Need, ...]
    bad: BadRecordSummary = BadRecordSummary()


async def overview(
    uow: UnitOfWork, *, needs: Sequence[NeedsOf], now: datetime, chosen: ChartRange = ChartRange.QUARTER
) -> Overview:
    """Return the overview: issues, rates and pipelines."""
    lines = await pipeline_lines(uow, needs=needs, now=now)
    window = window_of(chosen, now=now)
    of_a_day = FencingFilter(since=now - FENCING_SPAN)
    fencings = (await fencing_feed.list_lines(uow, of_a_day, cluster=None, limit=EVENTS_SHOWN)).items
    told = {
        (word.run_id, word.event_id)
        for line in fencings
        for word in line.record.event.evidence
        if isinstance(word, ClientWord)
    }
    return Overview(
        at=now,
        lines=tuple(lines),
        states=dict(Counter("never started" if line.state is None else str(line.state) for line in lines)),
        rates=sum_of([line.rates for line in lines]),
        needs=tuple(need for line in lines for need in line.needs),
        window=window,
        series=await uow.of(SeriesStore).points(since=window.since, until=window.until, step_s=window.step_s),
        marked=fencings,
        hanging=tuple(await lines_of_all(uow)),
        raised=tuple(await uow.of(RaisedAlertStore).list(WATCHED)),
        fencings=fencings[:FENCINGS_SHOWN],
        fencing_counts=await fencing_feed.count_by_cause(uow, of_a_day, cluster=None),
        happened=tuple(
            Happening(pipeline=name, event=event)
            for name, event in await uow.of(TaskStore).recent_events(pipeline=None, limit=EVENTS_SHOWN)
            if (event.run_id, event.event_id) not in told
        ),
        clusters=tuple(cluster.name for cluster in await uow.of(ClusterStore).list_all()),
    )


async def pipeline_lines(uow: UnitOfWork, *, needs: Sequence[NeedsOf], now: datetime) -> list[PipelineLine]:
    """Return every pipeline with its run and rates, by name. needs: the products' issues, in this order."""
    page = await uow.of(PipelineStore).list(after=None, limit=LIST_LIMIT)
    runs = {
        run.id: run
        for run in await uow.of(RunStore).get_many([p.current_run.id for p in page.items if p.current_run is not None])
    }
    statuses: dict[str, list[TaskStatus]] = {}
    for status in await uow.of(TaskStore).list_statuses([run.id for run in runs.values() if run.ended_at is None]):
        statuses.setdefault(status.run_id, []).append(status)
    unowned = await uow.of(MappingStore).unowned([run.pipeline for run in runs.values() if run.ended_at is None])
    found = await _asked(uow, page.items, needs, now=now)
    lines: list[PipelineLine] = []
    for pipeline in page.items:
        run = None if pipeline.current_run is None else runs[pipeline.current_run.id]
        tasks = statuses.get(run.id, []) if run else []
        line = await _line(uow, pipeline, run, tasks, unowned.get(pipeline.name, ()), now=now)
        lines.append(_with_needs(line, found[pipeline.name]))
    return lines


def pipeline_clusters(lines: Iterable[PipelineLine]) -> list[tuple[str, str]]:
    """Return each pipeline with its cluster."""
    return [(line.pipeline.name, line.pipeline.cluster) for line in lines]


async def pipeline_page(
    uow: UnitOfWork,
    name: str,
    *,
    needs: Sequence[NeedsOf],
    panels: Sequence[PanelOf] = (),
    now: datetime,
    chosen: ChartRange = ChartRange.QUARTER,
) -> PipelinePage:
    """Return one pipeline with its run, owners, rates and history."""
    pipeline = await uow.of(PipelineStore).get(name)
    cluster = await uow.of(ClusterStore).get(pipeline.cluster)
    run = None if pipeline.current_run is None else await uow.of(RunStore).get(pipeline.current_run.id)
    tasks = [] if run is None else await uow.of(TaskStore).list_statuses([run.id])
    totals = {} if run is None else await uow.of(TaskStore).totals([run.id])
    window = window_of(chosen, now=now)
    since, until = window.since, window.until
    marked = (await fencing_feed.list_lines(uow, FencingFilter(pipeline=name), cluster=None, limit=MARKED)).items
    mappings = await uow.of(MappingStore).of_group(
        kafka_cluster_id=cluster.kafka_cluster_id, group=pipeline.definition.group_id
    )
    unowned = [mapping for mapping in mappings if mapping.owner is None]
    return PipelinePage(
        at=now,
        line=_with_needs(
            await _line(uow, pipeline, run, tasks, unowned, now=now),
            (await _asked(uow, [pipeline], needs, now=now))[name],
        ),
        cluster=cluster,
        tasks=tuple(tasks),
        mappings=tuple(mappings),
        totals=totals.get(run.id, RunTotals()) if run else RunTotals(),
        window=window,
        series=await uow.of(SeriesStore).points(pipeline=name, since=since, until=until, step_s=window.step_s),
        rebalances=await uow.of(SeriesStore).rebalances(pipeline=name, since=since, until=until, limit=MARKED),
        marked=marked,
        events=tuple(event for _, event in await uow.of(TaskStore).recent_events(pipeline=name, limit=NEWEST_SHOWN)),
        fencings=marked[:FENCINGS_SHOWN],
        bad=BadRecordSummary() if run is None else await uow.of(TaskStore).bad_records(run.id, now=now),
        panels=tuple([found for panel in panels if (found := await panel(uow, pipeline, now)) is not None]),
    )


async def _asked(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], needs: Sequence[NeedsOf], *, now: datetime
) -> dict[str, list[Need]]:
    """Return the issues of each pipeline from the products' functions, in their order."""
    found: dict[str, list[Need]] = {pipeline.name: [] for pipeline in pipelines}
    for needs_of_product in needs:
        told = await needs_of_product(uow, pipelines, now)
        for name, of_it in found.items():
            of_it.extend(told.get(name, ()))
    return found


def _with_needs(line: PipelineLine, needs: Sequence[Need]) -> PipelineLine:
    return msgspec.structs.replace(line, needs=(*needs, *line.needs))


async def run_page(uow: UnitOfWork, run_id: str, *, now: datetime, chosen: ChartRange = ChartRange.QUARTER) -> RunPage:
    """Return one run: its instances with every lease, its tasks, their events, and zombies."""
    run = await uow.of(RunStore).get(run_id)
    pipeline = await uow.of(PipelineStore).get(run.pipeline)
    revision = await uow.of(PipelineStore).get_revision(run.pipeline, run.revision)
    tasks = await uow.of(TaskStore).list_statuses([run_id])
    unowned = (await uow.of(MappingStore).unowned([run.pipeline])).get(run.pipeline, ())
    window = window_of(chosen, now=now, ended_at=run.ended_at)
    since, until = window.since, window.until
    of_pipeline = FencingFilter(pipeline=run.pipeline, since=since, until=until)
    return RunPage(
        at=now,
        run=run,
        definition=revision.definition,
        rates=rates_of(tasks, now=now) if run.ended_at is None else NOTHING_RUNS,
        instances=tuple(await uow.of(InstanceStore).list(run_id, with_history=True)),
        tasks=tuple(tasks),
        totals=(await uow.of(TaskStore).totals([run_id])).get(run_id, RunTotals()),
        window=window,
        series=await uow.of(SeriesStore).points(run_id=run_id, since=since, until=until, step_s=window.step_s),
        rebalances=await uow.of(SeriesStore).rebalances(run_id=run_id, since=since, until=until, limit=MARKED),
        marked=(await fencing_feed.list_lines(uow, of_pipeline, cluster=None, limit=MARKED)).items,
        events=(await uow.of(TaskStore).list_events(run_id, after=None, limit=50)).items,
        zombies=tuple(await uow.of(TaskStore).list_zombies(run_id)),
        bad=await uow.of(TaskStore).bad_records(run_id, now=now),
        needs=tuple(
            needs_of(
                run,
                tasks,
                running=revision.definition,
                current=pipeline.definition,
                unowned=unowned,
                now=now,
            )
        ),
    )


async def _line(
    uow: UnitOfWork,
    pipeline: Pipeline,
    run: Run | None,
    tasks: Sequence[TaskStatus],
    unowned: Sequence[PartitionMapping],
    *,
    now: datetime,
) -> PipelineLine:
    if run is None:
        return PipelineLine(pipeline=pipeline, state=None, run=None, rates=NOTHING_RUNS)
    running = pipeline.definition
    if run.revision != pipeline.current_revision:
        running = (await uow.of(PipelineStore).get_revision(pipeline.name, run.revision)).definition
    return PipelineLine(
        pipeline=pipeline,
        state=run.state,
        run=run,
        rates=rates_of(tasks, now=now) if run.ended_at is None else NOTHING_RUNS,
        needs=tuple(needs_of(run, tasks, running=running, current=pipeline.definition, unowned=unowned, now=now)),
        not_progressing_ms=max((one.last.not_progressing_ms or 0 for one in not_progressing(run, tasks)), default=0),
    )


FRESH_FOR = timedelta(seconds=3)


def rates_of(tasks: Sequence[TaskStatus], *, now: datetime) -> Rates:
    """Return the sum over the tasks with a recent heartbeat; an older report does not describe the present."""
    fresh = [status for status in tasks if now - status.received_at <= FRESH_FOR]
    lags = [
        max(0, progress.end - at)
        for status in fresh
        for progress in status.last.partitions
        if progress.end is not None
        and (at := progress.committed if progress.committed is not None else progress.position) is not None
    ]
    latencies = [s.last.commit_latency_p99_ms for s in fresh if s.last.commit_latency_p99_ms is not None]
    return Rates(
        records_in_per_s=_known_sum(status.rates.records_in_per_s for status in fresh),
        records_out_per_s=_known_sum(status.rates.records_out_per_s for status in fresh),
        commits_per_s=_known_sum(status.rates.commits_per_s for status in fresh),
        aborts_per_s=_known_sum(status.rates.aborts_per_s for status in fresh),
        commit_latency_p99_ms=max(latencies, default=None),
        lag_records=sum(lags) if lags else None,
    )


def _known_sum(rates: Iterable[float | None]) -> float | None:
    """Return None if no task reports a number, or if some do not and the others have nothing."""
    told = list(rates)
    known = [rate for rate in told if rate is not None]
    return sum(known) if any(known) or (known and len(known) == len(told)) else None


def sum_of(rates: Sequence[Rates]) -> Rates:
    """Return the sum over all pipelines; without any, nothing runs."""
    if not rates:
        return NOTHING_RUNS
    lags = [rate.lag_records for rate in rates if rate.lag_records is not None]
    return Rates(
        records_in_per_s=_known_sum(rate.records_in_per_s for rate in rates),
        records_out_per_s=_known_sum(rate.records_out_per_s for rate in rates),
        commits_per_s=_known_sum(rate.commits_per_s for rate in rates),
        aborts_per_s=_known_sum(rate.aborts_per_s for rate in rates),
        commit_latency_p99_ms=max(
            (rate.commit_latency_p99_ms for rate in rates if rate.commit_latency_p99_ms is not None), default=None
        ),
        lag_records=sum(lags) if lags else None,
    )
