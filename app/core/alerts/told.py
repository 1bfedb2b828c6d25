"""The alerts of fencing events, instances and runs, and the events that cause one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from app.core.alerts.alert import Alert, AlertKind, AlertState, subject_of
from app.core.clusters.cluster import Cluster
from app.core.double_processing.overlap import Overlap, by_group_and_grade, sentence_of
from app.core.fencing.fencing_event import FencingCause, FencingVerdict
from app.core.fencing.record import FencingRecord
from app.core.hanging.hanging_transaction import HangingKey, HangingTransaction
from app.core.runs.crash_loop import crash_loop_sentence, is_failing
from app.core.runs.instance import Instance
from app.core.runs.not_progressing import all_sentences, not_progressing
from app.core.runs.recorded_offset import MovedOffset, moved_sentence
from app.core.runs.run import Run
from app.core.runs.task import TaskStatus
from app.kit.storable import moment_of_ms

FRESH_FOR = timedelta(hours=1)
"""Older events cause no alert: the first reading of a journal must not report its whole history."""

COSTS_WORK = frozenset(
    {
        FencingCause.TAKEOVER,
        FencingCause.APPLICATION_RETURNED,
        FencingCause.NEWER_DRIVER,
        FencingCause.NEWER_ATTEMPT,
        FencingCause.TIMEOUT,
        FencingCause.COORDINATOR_ABORT,
        FencingCause.ZOMBIE_REFUSED,
        FencingCause.UNEXPLAINED,
        FencingCause.STALE_GENERATION,
        FencingCause.STALE_MEMBER_EPOCH,
        FencingCause.OPERATOR_ABORT,
    }
)
"""Causes by which a producer or member lost work without an intention. A fence or end is known to its operator."""


def is_alerting(verdict: FencingVerdict, *, now: datetime) -> bool:
    return verdict.cause in COSTS_WORK and moment_of_ms(verdict.at_ms) >= now - FRESH_FOR


def fencing_alert(
    record: FencingRecord, *, state: AlertState, before: FencingCause | None, cluster: str | None
) -> Alert:
    """before: the cause in the last alert."""
    event, place = record.event, record.place
    verdict, key = event.verdict, event.key
    return Alert(
        kind=AlertKind.FENCING,
        state=state,
        subject=fencing_subject(record),
        at=moment_of_ms(verdict.at_ms),
        sentence=verdict.sentence,
        page=f"/fencing/{record.id}",
        cluster=cluster,
        kafka_cluster_id=key.kafka_cluster_id,
        transactional_id=key.transactional_id or None,
        producer_id=key.producer_id,
        producer_epoch=key.producer_epoch,
        fencing_event=record.id,
        cause=verdict.cause,
        confidence=verdict.confidence,
        alternatives=verdict.alternatives,
        said_before=before,
        pipeline=place.pipeline,
        run=place.run_id,
        instance=place.ordinal,
        task=place.task,
        host=place.host,
        partitions=place.partitions,
    )


def fencing_subject(record: FencingRecord) -> str:
    return subject_of("fencing", record.id)


def lost_alert(run: Run, instance: Instance, *, now: datetime) -> Alert:
    why = f": {instance.reason}" if instance.reason else ""
    return Alert(
        kind=AlertKind.INSTANCE_LOST,
        state=AlertState.HAPPENED,
        subject=subject_of("instance", run.id, instance.ordinal, instance.lease),
        at=now,
        sentence=f"Instance {instance.ordinal} of {run.pipeline} is lost{why}.",
        page=f"/runs/{run.id}",
        kafka_cluster_id=run.kafka_cluster_id,
        pipeline=run.pipeline,
        run=run.id,
        instance=instance.ordinal,
        host=instance.host,
    )


def failed_alert(run: Run, *, reason: str, now: datetime) -> Alert:
    return Alert(
        kind=AlertKind.RUN_FAILED,
        state=AlertState.HAPPENED,
        subject=subject_of("run", run.id),
        at=now,
        sentence=f"The run of {run.pipeline} failed and nothing of it runs any more: {reason}.",
        page=f"/pipelines/{quote(run.pipeline, safe='')}",
        kafka_cluster_id=run.kafka_cluster_id,
        pipeline=run.pipeline,
        run=run.id,
    )


def crash_loop_alert(run: Run, *, now: datetime) -> Alert | None:
    """Return the alert of a run whose instances or tasks fail repeatedly; None without one."""
    failing = [one for one in run.instances if is_failing(one, bounce_requested_at=run.bounce_requested_at)]
    if not failing:
        return None
    said = "; ".join(crash_loop_sentence(one, bounce_requested_at=run.bounce_requested_at) for one in failing)
    return Alert(
        kind=AlertKind.CRASH_LOOPING,
        state=AlertState.RAISED,
        subject=subject_of("crash_loop", run.id),
        at=now,
        sentence=f"{run.pipeline} is crash-looping: {said}. It is restarted at least every 5 minutes.",
        page=f"/runs/{run.id}",
        cluster=run.cluster,
        kafka_cluster_id=run.kafka_cluster_id,
        pipeline=run.pipeline,
        run=run.id,
        instance=failing[0].ordinal,
    )


def not_progressing_alert(run: Run, tasks: Iterable[TaskStatus], *, now: datetime) -> Alert | None:
    """Return the alert of tasks that have committed nothing for several transaction timeouts; None without one."""
    still = not_progressing(run, tasks)
    if not still:
        return None
    return Alert(
        kind=AlertKind.NOT_PROGRESSING,
        state=AlertState.RAISED,
        subject=subject_of("not_progressing", run.id),
        at=now,
        sentence=f"{run.pipeline} is not progressing: {all_sentences(still)}.",
        page=f"/runs/{run.id}",
        cluster=run.cluster,
        kafka_cluster_id=run.kafka_cluster_id,
        pipeline=run.pipeline,
        run=run.id,
        instance=still[0].ordinal,
        task=still[0].task,
        host=still[0].last.host,
    )


def double_processing_alerts(cluster: Cluster, overlaps: Sequence[Overlap]) -> list[Alert]:
    """Return an alert for each group and grade, about its newest finding. overlaps: newest first, with their times."""
    return [_double_processing_alert(cluster, some) for some in by_group_and_grade(overlaps)]


def _double_processing_alert(cluster: Cluster, some: Sequence[Overlap]) -> Alert:
    newest, earliest = some[0], min(one.at for one in some if one.at is not None)
    return Alert(
        kind=AlertKind.DOUBLE_PROCESSING,
        state=AlertState.RAISED,
        subject=subject_of("double_processing", cluster.kafka_cluster_id, newest.grade, newest.group),
        at=earliest,
        sentence=sentence_of(some),
        page=f"/groups/group?{urlencode({'cluster': cluster.name, 'name': newest.group})}",
        cluster=cluster.name,
        kafka_cluster_id=cluster.kafka_cluster_id,
        group=newest.group,
        transactional_id=newest.second.transactional_id,
        producer_id=newest.second.producer_id,
        producer_epoch=newest.second.producer_epoch,
        cause=newest.pattern,
        confidence=newest.grade,
        alternatives=newest.alternatives,
        partitions=tuple(dict.fromkeys(f"{one.topic}-{one.partition}" for one in some)),
    )


def moved_alert(run: Run, *, group: str, moved: Sequence[MovedOffset], now: datetime) -> Alert:
    """Return the alert of a run that begins at other offsets than tasks have reported."""
    return Alert(
        kind=AlertKind.OFFSETS_MOVED,
        state=AlertState.HAPPENED,
        subject=subject_of("offsets_moved", run.id),
        at=now,
        sentence=f"{moved_sentence(group, moved)}.",
        page=f"/pipelines/{quote(run.pipeline, safe='')}",
        cluster=run.cluster,
        kafka_cluster_id=run.kafka_cluster_id,
        pipeline=run.pipeline,
        run=run.id,
        partitions=tuple(f"{one.topic}-{one.partition}" for one in moved),
    )


def hanging_alert(found: HangingTransaction, *, cluster: str | None) -> Alert:
    key = found.key
    return Alert(
        kind=AlertKind.TRANSACTION_HANGING,
        state=AlertState.RAISED,
        subject=hanging_subject(key),
        at=moment_of_ms(found.found_ms),
        sentence=found.sentence,
        page="/stuck" + (f"?{urlencode({'cluster': cluster, 'target': found.name})}" if cluster else ""),
        cluster=cluster,
        kafka_cluster_id=key.kafka_cluster_id,
        transactional_id=found.transactional_id,
        producer_id=key.producer_id,
        producer_epoch=key.producer_epoch,
        partitions=(found.name,),
    )


def hanging_subject(key: HangingKey) -> str:
    return subject_of(
        "hanging",
        key.kafka_cluster_id,
        key.topic,
        key.partition,
        key.producer_id,
        key.producer_epoch,
        key.start_offset,
    )


def trial_alert(webhook: str, *, by: str, now: datetime) -> Alert:
    return Alert(
        kind=AlertKind.TEST,
        state=AlertState.HAPPENED,
        subject=subject_of("test", webhook),
        at=now,
        sentence=f"{by} requested a test of the webhook {webhook}. There is no problem.",
        page=f"/webhooks/{quote(webhook, safe='')}",
    )
