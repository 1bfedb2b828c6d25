"""Offset resets of a pipeline: only while no run of it lives, and after a preview."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from app.core.access.service import command_log
from app.core.blocked.facts import Refused
from app.core.clusters.brokers import Brokers, Connection, PartitionOffsets
from app.core.clusters.partition import Partition
from app.core.clusters.service import refuse_other_cluster
from app.core.clusters.store import ClusterStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.offset_reset import OffsetChange, OffsetTarget, OffsetTargetKind, ResetBounds, plan
from app.core.runs.recorded_offset import RecordedOffset, is_same_topic, new_checkpoint
from app.core.runs.service.recorded_offsets import partitions_of
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.runs.store.runs import RunStore
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError, PreconditionError, Problem, UnavailableError


async def preview_offset_reset(
    uow: UnitOfWork, brokers: Brokers, *, pipeline: str, target: OffsetTarget
) -> list[OffsetChange]:
    """Return the changes of `reset_offsets`, a line for each partition; nothing is changed. Works while a run lives.

    Raises InvalidError with every problem of the target, NotFoundError if a source topic does not exist. A query takes
    RECORDED only: it begins at its checkpoint.
    """
    changes, _ = await _planned(uow, brokers, pipeline=pipeline, target=target)
    return changes


async def _planned(
    uow: UnitOfWork, brokers: Brokers, *, pipeline: str, target: OffsetTarget
) -> tuple[list[OffsetChange], dict[str, str | None]]:
    """Return the changes, and the id of each source topic that they were planned for."""
    record = await uow.of(PipelineStore).get(pipeline)
    definition = record.definition
    if definition.dataframe is not None and target.kind is not OffsetTargetKind.RECORDED:
        raise InvalidError(
            f"the query of {pipeline} begins at its checkpoint, not at the offsets of its group. To begin elsewhere, "
            f"use {new_checkpoint(pipeline)}",
            field="kind",
        )
    cluster = await uow.of(ClusterStore).get(record.cluster)
    connection = cluster.connection()
    facts = await brokers.facts(connection, topics=definition.source_topics)
    refuse_other_cluster(cluster, facts.cluster_id)
    missing = [topic for topic in definition.source_topics if topic not in facts.topics]
    if missing:
        raise InvalidError(f"topic {missing[0]} is not on cluster {cluster.name}", field="source_topics")
    partitions = partitions_of(definition, facts.topics)
    committed = await brokers.committed_offsets(connection, definition.group_id)
    recorded = {
        Partition(one.topic, one.partition): one.offset
        for one in await uow.of(RecordedOffsetStore).of_group(
            kafka_cluster_id=cluster.kafka_cluster_id, group=definition.group_id
        )
        if one.topic in facts.topics and is_same_topic(one, facts.topics[one.topic].topic_id)
    }
    if target.kind is OffsetTargetKind.RECORDED:
        lost = [at for at in partitions if at in recorded and at not in committed]
        offsets = await _answered(brokers, connection, lost)
    elif target.kind is OffsetTargetKind.OFFSETS:
        # The others may have no leader.
        named = {Partition(one.topic, one.partition) for one in target.offsets}
        offsets = await brokers.offsets(connection, [at for at in partitions if at in named])
    else:
        offsets = await brokers.offsets(connection, partitions)
    at_timestamp: dict[Partition, int] = {}
    if target.kind is OffsetTargetKind.TIMESTAMP and target.timestamp is not None:
        at_timestamp = await brokers.offsets_at(
            connection, partitions, timestamp_ms=round(target.timestamp.timestamp() * 1000)
        )
    planned = plan(
        target,
        committed=committed,
        bounds={at: ResetBounds(earliest=found.earliest, end=found.last_stable) for at, found in offsets.items()},
        at_timestamp=at_timestamp,
        recorded=recorded,
    )
    problems = [line for line in planned if isinstance(line, Problem)]
    if problems:
        raise InvalidError(f"the offsets of {pipeline} cannot go there: {problems[0].message}", problems=problems)
    changes = [line for line in planned if isinstance(line, OffsetChange)]
    return changes, {topic: found.topic_id for topic, found in facts.topics.items()}


async def _answered(
    brokers: Brokers, connection: Connection, partitions: Sequence[Partition]
) -> dict[Partition, PartitionOffsets]:
    """Return those whose leaders answer: the others stay lost, and each start reports them. Raises if none answers."""
    found = await brokers.offsets_of_each(connection, partitions) if partitions else {}
    answered = {at: ends for at, ends in found.items() if not isinstance(ends, Refused)}
    if found and not answered:
        at, refused = next(iter(found.items()))
        reason = refused.error if isinstance(refused, Refused) else ""
        raise UnavailableError(f"the leader of {at} does not return its offsets: {reason}")
    return answered


async def reset_offsets(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    pipeline: str,
    target: OffsetTarget,
    expected: Sequence[OffsetChange] | None,
    by: Principal,
    why: str | None,
    now: datetime,
) -> list[OffsetChange]:
    """Reset the committed offsets of a stopped pipeline, and return the changes.

    expected: the preview that the user confirmed; PreconditionError if a committed offset has moved since.
    why: the reason for the command log; InvalidError without one, for every target.
    Raises ConflictError while a run lives or the group has members, of Fenceline or not. Records between the old and
    the new offset are processed again, or never, as requested.
    """
    require(by, Verb.RESET_OFFSETS)
    if not (why or "").strip():
        raise InvalidError(
            f"a reset of the offsets of {pipeline} needs a reason: records are read again, or never", field="why"
        )
    record = await uow.of(PipelineStore).get(pipeline, for_update=True)
    run = await uow.of(RunStore).find_live(pipeline)
    if run is not None:
        raise ConflictError(f"run {run.id} of {pipeline} is {run.state}: drain it before you reset its offsets")
    changes, topic_ids = await _planned(uow, brokers, pipeline=pipeline, target=target)
    if expected is not None:
        was = {(change.topic, change.partition): change.committed for change in expected}
        for change in changes:
            at = change.topic, change.partition
            if at not in was or was[at] != change.committed:
                raise PreconditionError(
                    f"the group's offset on {change.topic}-{change.partition} is {change.committed} by now: "
                    "check a new preview first"
                )
    cluster = await uow.of(ClusterStore).get(record.cluster)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.RESET_OFFSETS,
        target=f"pipeline:{pipeline}",
        why=why,
        now=now,
        outcome=f"{len(changes)} partitions to {target.kind}",
        details={
            "offsets": [
                {"topic": c.topic, "partition": c.partition, "from": c.committed, "to": c.target} for c in changes
            ]
        },
    )
    await uow.of(RecordedOffsetStore).replace(
        [
            RecordedOffset(
                topic=c.topic, partition=c.partition, offset=c.target, topic_id=topic_ids[c.topic], is_final=True
            )
            for c in changes
        ],
        pipeline=pipeline,
        kafka_cluster_id=cluster.kafka_cluster_id,
        group=record.definition.group_id,
        now=now,
    )
    uow.notify("pipeline", pipeline)
    # Last, since a broker cannot be rolled back: every possible refusal comes before.
    await brokers.alter_offsets(
        cluster.connection(),
        record.definition.group_id,
        {Partition(change.topic, change.partition): change.target for change in changes},
    )
    return changes
