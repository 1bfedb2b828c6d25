"""The metrics for Prometheus: the state and rates of pipelines, and the state of the server's parts."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, ProcessCollector, generate_latest

from app.core.blocked.readers import BlockedReport
from app.core.double_processing.listing import counts_of
from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.service import feed as fencing_feed
from app.core.hanging.pending import pending_holds
from app.core.hanging.report import SearchReport
from app.core.lag.movement import LagState
from app.core.lag.report import LagReport
from app.core.observing.snapshot import ReadingPhase, Snapshot, SnapshotSource
from app.core.overview import service as overview
from app.core.overview.service import PipelineLine
from app.core.runs.crash_loop import failures_so_far
from app.core.runs.run import RunState
from app.core.runs.series import RunTotals
from app.core.runs.store.tasks import TaskStore
from app.core.wiring import Wiring
from app.kit.errors import FencelineError

MOST_GROUPS = 1_000
"""The most groups of a cluster with metrics of lag: each has nine time series."""


async def exposition(wiring: Wiring) -> bytes:
    """Return all metrics in Prometheus' text format. Without the database, those about pipelines are omitted, not 0."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    Info("fenceline_build", "Version of Fenceline", registry=registry).info({"version": wiring.version})
    ready = Gauge("fenceline_part_ready", "Whether a part of the server is ready", ["part"], registry=registry)
    for part in await wiring.health():
        ready.labels(part.name).set(part.is_ready)
    now_ms = int(wiring.clock.now().timestamp() * 1000)
    snapshots = wiring.observations.all()
    _journals(registry, snapshots, now_ms=now_ms)
    _double_processing(registry, snapshots)
    _lag(registry, wiring.lags.reports(), now_ms=now_ms)
    _hanging(registry, wiring.observations.searches(), snapshots, now_ms=now_ms)
    _blocked(registry, wiring.observations.blocked(), now_ms=now_ms)
    _dead_tasks(registry, wiring.dead_ends(), wiring.dead_members())
    _dropped(registry, wiring.dropped_fields.counts)
    try:
        async with wiring.unit_of_work() as uow:
            lines = await overview.pipeline_lines(uow, needs=wiring.needs, now=wiring.clock.now())
            runs = [line.run.id for line in lines if line.run is not None]
            totals = await uow.of(TaskStore).totals(runs)
            fencings = await fencing_feed.told_by_cluster(uow)
            pipelines = [line.pipeline for line in lines]
            of_products = [
                await product.metrics(uow, pipelines, wiring.clock.now())
                for product in wiring.products
                if product.metrics is not None
            ]
    except FencelineError:
        return generate_latest(registry)
    _pipelines(registry, lines)
    _fencings(registry, fencings)
    _totals(registry, {line.pipeline.name: totals[line.run.id] for line in lines if line.run and line.run.id in totals})
    for write in of_products:
        write(registry)
    return generate_latest(registry)


def _journals(registry: CollectorRegistry, snapshots: Sequence[Snapshot], *, now_ms: int) -> None:
    """Add the observer's data of each cluster, with its age and completeness."""
    each = ["cluster", "topic"]
    phase = Gauge(
        "fenceline_journal_phase", "1 for the present phase of its reading", [*each, "phase"], registry=registry
    )
    lag = Gauge("fenceline_journal_lag_records", "Records of a journal that are not read yet", each, registry=registry)
    age = Gauge("fenceline_journal_age_seconds", "Age of a journal's state", each, registry=registry)
    records = Counter("fenceline_journal_records", "Records read of a journal", each, registry=registry)
    unreadable = Counter(
        "fenceline_journal_unreadable", "Records that could not be read", [*each, "reason"], registry=registry
    )
    ended = Counter(
        "fenceline_transactions_ended",
        "Transactions of all clients that ended since this server began to observe",
        ["cluster", "outcome"],
        registry=registry,
    )
    still_open = Gauge("fenceline_open_transactions", "Transactions that are open now", ["cluster"], registry=registry)
    oldest = Gauge(
        "fenceline_oldest_transaction_seconds", "Age of the oldest open transaction", ["cluster"], registry=registry
    )
    behind = Gauge(
        "fenceline_broker_clock_behind_seconds",
        "How far a broker's clock is behind the server's, as measured; below zero: ahead",
        ["cluster", "broker"],
        registry=registry,
    )
    for snapshot in snapshots:
        for broker, offset in snapshot.clocks.offsets.items():
            behind.labels(snapshot.cluster, str(broker)).set(offset.middle_ms / 1000)
        for status in (snapshot.transaction_journal, snapshot.group_journal):
            at = (snapshot.cluster, status.topic)
            for one in ReadingPhase:
                phase.labels(*at, one.value).set(status.phase is one)
            lag.labels(*at).set(status.lag_records)
            records.labels(*at).inc(status.records_read)
            if status.as_of_ms >= 0:
                age.labels(*at).set(max(0, now_ms - status.as_of_ms) / 1000)
            for reason, count in status.unreadable.items():
                unreadable.labels(*at, reason).inc(count)
        told = snapshot.transaction_journal
        if told.source is SnapshotSource.JOURNAL:
            # Coordinators that are asked instead report states, and no counts of changes.
            ended.labels(snapshot.cluster, "committed").inc(snapshot.commits)
            ended.labels(snapshot.cluster, "aborted").inc(snapshot.aborts)
        if told.source is SnapshotSource.NOTHING:
            # Open transactions are unknown: a zero would mean none.
            continue
        ours = (snapshot.clocks.ours(one) for one in snapshot.open_transactions.values())
        started = [one.state.start_ms for one in ours]
        still_open.labels(snapshot.cluster).set(len(started))
        # Without news a transaction's known age does not grow; the journal's own age does.
        seen_ms = told.as_of_ms if told.phase is ReadingPhase.LOST else now_ms
        oldest.labels(snapshot.cluster).set(max(0, seen_ms - min(started)) / 1000 if started else 0)


def _double_processing(registry: CollectorRegistry, snapshots: Sequence[Snapshot]) -> None:
    """Add findings of double processing; none of a cluster whose journal is not read."""
    found = Counter(
        "fenceline_double_processing",
        "Offsets that two producers of a group processed, by grade, since the journal is read",
        ["cluster", "grade"],
        registry=registry,
    )
    for snapshot in snapshots:
        if snapshot.group_journal.source is SnapshotSource.JOURNAL:
            for grade, times in counts_of(snapshot.groups.values()).items():
                found.labels(snapshot.cluster, grade.value).inc(times)


def _blocked(registry: CollectorRegistry, reports: Sequence[BlockedReport], *, now_ms: int) -> None:
    """Add blocked readers, and the age of the report. A cluster without a report has no value."""
    partitions, records, longest, age = (
        Gauge(f"fenceline_{name}", words, ["cluster"], registry=registry)
        for name, words in (
            ("blocked_partitions", "Partitions blocked by a transaction that is open for 10 s or longer"),
            ("blocked_records", "Records behind their last stable offsets"),
            ("blocked_longest_seconds", "Age of the oldest of these transactions"),
            ("blocked_report_age_seconds", "Time since the brokers were asked last"),
        )
    )
    for report in reports:
        if report.at_ms < 0:
            continue
        causes = report.causes
        partitions.labels(report.cluster).set(sum(len(one.partitions) for one in causes))
        records.labels(report.cluster).set(sum(one.records for one in causes))
        longest.labels(report.cluster).set(max((now_ms - one.since_ms for one in causes), default=0) / 1000)
        age.labels(report.cluster).set(max(0, now_ms - report.at_ms) / 1000)


def _hanging(
    registry: CollectorRegistry, reports: Sequence[SearchReport], snapshots: Sequence[Snapshot], *, now_ms: int
) -> None:
    """Add the results of the search for hanging transactions, their age, and its load on brokers."""
    hanging, unclear, held_back, age, took = (
        Gauge(f"fenceline_{name}", words, ["cluster"], registry=registry)
        for name, words in (
            ("hanging_transactions", "Hanging transactions"),
            ("hanging_unclear_partitions", "Partitions blocked for too long, with an unknown cause"),
            ("held_back_partitions", "Partitions whose read_committed consumers are blocked now"),
            ("hanging_search_age_seconds", "Time since the last complete sweep"),
            ("hanging_sweep_seconds", "Duration of the last complete sweep"),
        )
    )
    asked = Counter(
        "fenceline_hanging_asked_partitions", "Partitions asked for open transactions", ["cluster"], registry=registry
    )
    pending = Gauge(
        "fenceline_oldest_pending_offset_seconds", "Age of the oldest pending offset", ["cluster"], registry=registry
    )
    for snapshot in snapshots:
        if snapshot.group_journal.source is SnapshotSource.NOTHING:
            continue
        holds = pending_holds(snapshot, (), now_ms=now_ms)
        pending.labels(snapshot.cluster).set(max(0, now_ms - holds[0].since_ms) / 1000 if holds else 0)
    for report in reports:
        # "Never" is longer than any alert's limit; without a number the alert would not see it.
        never_or_age_s = max(0, now_ms - report.swept_ms) / 1000 if report.swept_ms >= 0 else float("inf")
        age.labels(report.cluster).set(never_or_age_s)
        if report.swept_ms < 0 and not report.hanging:
            continue
        hanging.labels(report.cluster).set(len(report.hanging))
        unclear.labels(report.cluster).set(report.unclear_count)
        held_back.labels(report.cluster).set(report.held_back)
        asked.labels(report.cluster).inc(report.asked)
        took.labels(report.cluster).set(report.sweep_took_ms / 1000)


def _lag(registry: CollectorRegistry, reports: Sequence[LagReport], *, now_ms: int) -> None:
    """Add the lag of each cluster's groups, of those with the greatest lag if there are more than MOST_GROUPS."""
    each = ["cluster", "group"]
    records = Gauge(
        "fenceline_group_lag_records", "Records between committed offsets and ends", each, registry=registry
    )
    seconds = Gauge("fenceline_group_lag_seconds", "Age of the oldest unread record", each, registry=registry)
    state = Gauge("fenceline_group_lag_state", "1 for the group's state", [*each, "state"], registry=registry)
    left_out, unanswered, age = (
        Gauge(f"fenceline_lag_{name}", words, ["cluster"], registry=registry)
        for name, words in (
            ("groups_left_out", "Groups with less lag than the others, without metrics of their own"),
            ("unanswered_partitions", "Partitions of groups whose leader does not answer"),
            ("report_age_seconds", "Time since the ends of partitions were asked last"),
        )
    )
    for report in reports:
        if report.at_ms < 0:
            continue
        shown = heapq.nlargest(
            MOST_GROUPS, report.groups.values(), key=lambda one: (one.lag_ms or 0, one.lag_records or 0)
        )
        for one in shown:
            if one.lag_records is not None:
                records.labels(report.cluster, one.group).set(one.lag_records)
            if one.lag_ms is not None:
                seconds.labels(report.cluster, one.group).set(one.lag_ms / 1000)
            for each_state in LagState:
                state.labels(report.cluster, one.group, each_state.name.lower()).set(one.state is each_state)
        left_out.labels(report.cluster).set(len(report.groups) - len(shown))
        unanswered.labels(report.cluster).set(report.unanswered)
        age.labels(report.cluster).set(max(0, now_ms - report.at_ms) / 1000)


def _dead_tasks(
    registry: CollectorRegistry, ends: Mapping[tuple[str, str], int], members: Mapping[tuple[str, str], int]
) -> None:
    looked_at = Counter(
        "fenceline_dead_tasks",
        "Producers of dead tasks that this server examined, by the result for their transaction",
        ["cluster", "result"],
        registry=registry,
    )
    of_groups = Counter(
        "fenceline_dead_members",
        "Members of dead tasks that this server examined, by the result for their membership",
        ["cluster", "result"],
        registry=registry,
    )
    for counter, counts in ((looked_at, ends), (of_groups, members)):
        for (cluster, result), count in counts.items():
            counter.labels(cluster, result).inc(count)


def _dropped(registry: CollectorRegistry, counts: Mapping[tuple[str, str], int]) -> None:
    dropped = Counter(
        "fenceline_worker_fields_dropped",
        "Refused fields of workers' messages, which cannot belong to their pipeline",
        ["pipeline", "field"],
        registry=registry,
    )
    for (pipeline, field), count in counts.items():
        dropped.labels(pipeline, field).inc(count)


def _pipelines(registry: CollectorRegistry, lines: list[PipelineLine]) -> None:
    state = Gauge("fenceline_pipeline_state", "1 for the state of its run", ["pipeline", "state"], registry=registry)
    failures = Gauge(
        "fenceline_instance_failures", "Failures in a row of an instance", ["pipeline", "instance"], registry=registry
    )
    still = Gauge(
        "fenceline_pipeline_not_progressing_seconds",
        "Time without a commit of its slowest task, from several transaction timeouts on; else 0",
        ["pipeline"],
        registry=registry,
    )
    needs = Gauge("fenceline_pipeline_needs", "Issues that require attention", ["pipeline"], registry=registry)
    gauges = {
        field: Gauge(f"fenceline_pipeline_{field}", words, ["pipeline"], registry=registry)
        for field, words in (
            ("records_in_per_s", "Records read a second"),
            ("records_out_per_s", "Output records committed a second"),
            ("commits_per_s", "Transactions committed a second"),
            ("aborts_per_s", "Transactions aborted a second"),
            ("commit_latency_p99_ms", "99th percentile of the commit of the slowest task"),
            ("lag_records", "Records between the committed offsets and the end"),
        )
    }
    for line in lines:
        name = line.pipeline.name
        for each in RunState:
            state.labels(name, each.value).set(line.state is each)
        needs.labels(name).set(len(line.needs))
        still.labels(name).set(line.not_progressing_ms / 1000)
        if line.run is not None:
            for one in line.run.instances:
                counted = failures_so_far(one, bounce_requested_at=line.run.bounce_requested_at)
                failures.labels(name, str(one.ordinal)).set(counted)
        for field, gauge in gauges.items():
            value = getattr(line.rates, field)
            if value is not None:
                gauge.labels(name).set(value)


def _fencings(registry: CollectorRegistry, told: dict[str, dict[FencingCause, int]]) -> None:
    """Add counts from Postgres: equal on every server, and kept through a restart."""
    events = Counter(
        "fenceline_fencing_events",
        "Fencing events of a cluster; a corrected one counts under each of its causes",
        ["cluster", "cause", "is_fencing"],
        registry=registry,
    )
    for cluster, of_cluster in told.items():
        for cause, number in of_cluster.items():
            events.labels(cluster, cause.value, str(cause.is_fencing).lower()).inc(number)


def _totals(registry: CollectorRegistry, totals: dict[str, RunTotals]) -> None:
    """Counters of each pipeline's newest run; a new run begins at zero, as counters may."""
    for field in RunTotals.__struct_fields__:
        counter = Counter(
            f"fenceline_run_{field}", f"{field.replace('_', ' ')} of the newest run", ["pipeline"], registry=registry
        )
        for name, total in totals.items():
            # An impossible counter of old reports, from before they were checked, must not end the page.
            counter.labels(name).inc(max(0, getattr(total, field)))
