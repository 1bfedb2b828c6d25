"""What Prometheus reads: the state and rates of pipelines, and how the server's parts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Info, ProcessCollector, generate_latest

from app.core.fencing.fencing_event import Cause
from app.core.fencing.service import feed as fencing_feed
from app.core.hanging.pending import pending_holds
from app.core.hanging.report import SearchReport
from app.core.observing.snapshot import Phase, Snapshot, Source
from app.core.overview import service as overview
from app.core.overview.service import PipelineLine
from app.core.runs.crash_loop import failures_so_far
from app.core.runs.run import RunState
from app.core.runs.series import RunTotals
from app.core.runs.store.tasks import TaskStore
from app.core.wiring import Wiring
from app.kit.errors import FencelineError


async def exposition(wiring: Wiring) -> bytes:
    """All metrics in Prometheus' text format. With the database away, those about pipelines are left out, not zero."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    Info("fenceline_build", "Which Fenceline this is", registry=registry).info({"version": wiring.version})
    ready = Gauge("fenceline_part_ready", "Whether a part of the server is ready", ["part"], registry=registry)
    for part in await wiring.health():
        ready.labels(part.name).set(part.is_ready)
    now_ms = int(wiring.clock.now().timestamp() * 1000)
    snapshots = wiring.observations.all()
    _journals(registry, snapshots, now_ms=now_ms)
    _hanging(registry, wiring.observations.searches(), snapshots, now_ms=now_ms)
    _dead_ends(registry, wiring.dead_ends())
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
    """What the observer of each cluster knows, and how old and complete it is."""
    each = ["cluster", "topic"]
    phase = Gauge("fenceline_journal_phase", "1 for how its reading is", [*each, "phase"], registry=registry)
    lag = Gauge("fenceline_journal_lag_records", "Records of a journal that are not read yet", each, registry=registry)
    age = Gauge("fenceline_journal_age_seconds", "Age of what is known of a journal", each, registry=registry)
    records = Counter("fenceline_journal_records", "Records read of a journal", each, registry=registry)
    unreadable = Counter(
        "fenceline_journal_unreadable", "Records that could not be read", [*each, "reason"], registry=registry
    )
    ended = Counter(
        "fenceline_transactions_ended",
        "Transactions of all clients that were seen to end since this server began to observe",
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
            for one in Phase:
                phase.labels(*at, one.value).set(status.phase is one)
            lag.labels(*at).set(status.lag_records)
            records.labels(*at).inc(status.records_read)
            if status.as_of_ms >= 0:
                age.labels(*at).set(max(0, now_ms - status.as_of_ms) / 1000)
            for reason, count in status.unreadable.items():
                unreadable.labels(*at, reason).inc(count)
        told = snapshot.transaction_journal
        if told.source is Source.JOURNAL:
            # Coordinators that are asked instead tell what is so, and not how often it came to be.
            ended.labels(snapshot.cluster, "committed").inc(snapshot.commits)
            ended.labels(snapshot.cluster, "aborted").inc(snapshot.aborts)
        if told.source is Source.NOTHING:
            # Nobody knows what is open: a zero would be read as "nothing".
            continue
        ours = (snapshot.clocks.ours(one) for one in snapshot.transactions.values() if one.is_open)
        started = [one.state.start_ms for one in ours]
        still_open.labels(snapshot.cluster).set(len(started))
        # What is not heard of any more grew no older that we know of; the journal's own age does.
        seen_ms = told.as_of_ms if told.phase is Phase.LOST else now_ms
        oldest.labels(snapshot.cluster).set(max(0, seen_ms - min(started)) / 1000 if started else 0)


def _hanging(
    registry: CollectorRegistry, reports: Sequence[SearchReport], snapshots: Sequence[Snapshot], *, now_ms: int
) -> None:
    """What the search for hanging transactions found, how old that is, and what it asks of brokers."""
    hanging, unclear, held_back, age, took = (
        Gauge(f"fenceline_{name}", words, ["cluster"], registry=registry)
        for name, words in (
            ("hanging_transactions", "Transactions that nobody will ever end"),
            ("hanging_unclear_partitions", "Partitions held back for too long of which nobody can tell"),
            ("held_back_partitions", "Partitions whose readers of committed data wait now"),
            ("hanging_search_age_seconds", "Since all partitions had been asked about"),
            ("hanging_sweep_seconds", "How long it took to ask about all partitions"),
        )
    )
    asked = Counter(
        "fenceline_hanging_asked_partitions", "Partitions asked for open transactions", ["cluster"], registry=registry
    )
    pending = Gauge(
        "fenceline_oldest_pending_offset_seconds", "Age of the oldest undecided offset", ["cluster"], registry=registry
    )
    for snapshot in snapshots:
        if snapshot.group_journal.source is Source.NOTHING:
            continue
        holds = pending_holds(snapshot, (), now_ms=now_ms)
        pending.labels(snapshot.cluster).set(max(0, now_ms - holds[0].since_ms) / 1000 if holds else 0)
    for report in reports:
        # "Never" is longer than any alert's bound; without a number the alert would not see it.
        never_or_age_s = max(0, now_ms - report.swept_ms) / 1000 if report.swept_ms >= 0 else float("inf")
        age.labels(report.cluster).set(never_or_age_s)
        if report.swept_ms < 0 and not report.hanging:
            continue
        hanging.labels(report.cluster).set(len(report.hanging))
        unclear.labels(report.cluster).set(report.unclear_count)
        held_back.labels(report.cluster).set(report.held_back)
        asked.labels(report.cluster).inc(report.asked)
        took.labels(report.cluster).set(report.sweep_took_ms / 1000)


def _dead_ends(registry: CollectorRegistry, counts: Mapping[tuple[str, str], int]) -> None:
    looked_at = Counter(
        "fenceline_dead_tasks",
        "Producers of tasks whose process is gone that this server looked at, by what became of their transaction",
        ["cluster", "result"],
        registry=registry,
    )
    for (cluster, result), count in counts.items():
        looked_at.labels(cluster, result).inc(count)


def _dropped(registry: CollectorRegistry, counts: Mapping[tuple[str, str], int]) -> None:
    dropped = Counter(
        "fenceline_worker_fields_dropped",
        "Fields of workers' messages that were not taken, since they cannot be their pipeline's",
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
        "For how long a task of it has tried to commit in vain, once that is several transaction timeouts; else 0",
        ["pipeline"],
        registry=registry,
    )
    needs = Gauge("fenceline_pipeline_needs", "Things that need somebody", ["pipeline"], registry=registry)
    gauges = {
        field: Gauge(f"fenceline_pipeline_{field}", words, ["pipeline"], registry=registry)
        for field, words in (
            ("records_in_per_s", "Records read a second"),
            ("records_out_per_s", "Records written a second"),
            ("commits_per_s", "Transactions committed a second"),
            ("aborts_per_s", "Transactions aborted a second"),
            ("commit_latency_p99_ms", "99th percentile of the commit of the slowest task"),
            ("lag_records", "Records between what is committed and the end"),
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


def _fencings(registry: CollectorRegistry, told: dict[str, dict[Cause, int]]) -> None:
    """Kept in Postgres: every server says the same, and a restart loses nothing."""
    events = Counter(
        "fenceline_fencing_events",
        "Events told of a cluster; one that is corrected counts under each cause that was said",
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
            # A counter that was told wrong before workers' words were held against anything must not end the page.
            counter.labels(name).inc(max(0, getattr(total, field)))
