"""Confirmed offsets of tasks: stored, sent to the next instance, and compared with those of the group."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import DEFAULT_TIMEOUT_S, Brokers
from app.core.clusters.cluster import Cluster, TopicFacts
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline
from app.core.runs.offset_reset import ResetBounds
from app.core.runs.recorded_offset import (
    Compared,
    LostOffsetsError,
    RecordedOffset,
    compare,
    stale_sentence,
    truncated_sentence,
)
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.wire.heartbeat import TaskHeartbeat
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import BrokerUnreachableError, ConflictError

_TIMEOUT_OF_LIVE_S = 5.0


def reported(heartbeat: TaskHeartbeat) -> list[RecordedOffset]:
    """Return each partition once: those that the task owns, beside those that it has confirmed."""
    found = {(one.topic, one.partition): one for one in heartbeat.confirmed if one.offset >= 0}
    for one in heartbeat.partitions:
        at = one.topic, one.partition
        if one.committed is not None and one.committed >= 0 and at not in found:
            found[at] = RecordedOffset(topic=one.topic, partition=one.partition, offset=one.committed)
    return list(found.values())


async def compare_offsets(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    cluster: Cluster,
    definition: PipelineDefinition,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Compared:
    """Compare the recorded offsets of the group with its committed ones; brokers are asked only if any is recorded.

    A topic that does not exist has no partitions, and yields no problem here.
    """
    recorded = [
        one
        for one in await uow.of(RecordedOffsetStore).of_group(
            kafka_cluster_id=cluster.kafka_cluster_id, group=definition.group_id
        )
        if one.topic in definition.source_topics
    ]
    if not recorded:
        return Compared()
    connection = cluster.connection()
    facts = await brokers.facts(connection, topics=definition.source_topics, timeout_s=timeout_s)
    partitions = partitions_of(definition, facts.topics)
    committed = await brokers.committed_offsets(connection, definition.group_id, timeout_s=timeout_s)
    truncated = await brokers.truncated_offsets(connection, definition.group_id, partitions, timeout_s=timeout_s)
    names = {(one.topic, one.partition) for one in recorded}
    without = [at for at in partitions if at not in committed and at in names]
    # With a committed offset no end is needed: a partition without a leader forbids no start.
    ends = await brokers.offsets_of_each(connection, without, timeout_s=timeout_s) if without else {}
    found = compare(
        recorded,
        committed=committed,
        partitions=set(partitions),
        bounds={
            at: end.error if isinstance(end, Refused) else ResetBounds(earliest=end.earliest, end=end.last_stable)
            for at, end in ends.items()
        },
        topic_ids={name: topic.topic_id for name, topic in facts.topics.items()},
        start_position=definition.start_position,
    )
    return replace(found, truncated=tuple(truncated))


def partitions_of(definition: PipelineDefinition, topics: dict[str, TopicFacts]) -> list[Partition]:
    return [
        Partition(topic, number)
        for topic in definition.source_topics
        if topic in topics
        for number in range(topics[topic].partitions)
    ]


async def refuse_lost_offsets(
    uow: UnitOfWork, brokers: Brokers, pipeline: Pipeline, *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> Compared:
    """Raise ConflictError, with the numbers and the next steps, if a start would read records twice or skip them.

    Called before every start of tasks: a start, a restart, a bounce. So a running pipeline is not drained for a start
    that its own workers would refuse.
    """
    cluster = await uow.of(ClusterStore).get(pipeline.cluster)
    compared = await compare_offsets(uow, brokers, cluster=cluster, definition=pipeline.definition, timeout_s=timeout_s)
    _refuse_lost(pipeline, compared)
    return compared


async def refuse_lost_offsets_of_live(uow: UnitOfWork, brokers: Brokers, pipeline: Pipeline) -> None:
    """The same before a restart of a live run; without an answer of the brokers, its workers compare by themselves."""
    with suppress(BrokerUnreachableError):
        await refuse_lost_offsets(uow, brokers, pipeline, timeout_s=_TIMEOUT_OF_LIVE_S)


def _refuse_lost(pipeline: Pipeline, compared: Compared) -> None:
    name, group, is_query = pipeline.name, pipeline.definition.group_id, pipeline.definition.dataframe is not None
    if compared.truncated:
        raise ConflictError(truncated_sentence(name, compared.truncated, is_query=is_query), field="group_id")
    if compared.lost:
        raise LostOffsetsError(name, group, compared.lost, is_query=is_query)
    if compared.stale:
        raise ConflictError(stale_sentence(name, group, compared.stale, is_query=is_query), field="group_id")
