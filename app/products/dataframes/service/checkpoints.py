"""Leave the checkpoint of a stopped query for a new one: the plan, and the command.

The command stores a revision with the new location. Then one request to the group sets markers and offsets. The markers
are before the first batch, so the sink refuses the old checkpoint. The offsets of the sources are the begin of the new
query: a driver with an empty checkpoint begins there (workers/spark/query.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from app.core.access.service import command_log
from app.core.allow_lists.options import AllowedOptions
from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.facts import KnownTransaction, Refused
from app.core.clusters.brokers import Brokers, Connection
from app.core.clusters.partition import Partition
from app.core.clusters.service import refuse_other_cluster
from app.core.clusters.store import ClusterStore
from app.core.ids.transactional_id import for_task
from app.core.journals.query_marker import QueryMarker
from app.core.pipelines.dataframe_checks import checkpoint_problem
from app.core.pipelines.pipeline import DataframeQuery, PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.service.pipelines import new_revision
from app.core.pipelines.service.validation import refuse_invalid, validate_pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.service.busy import refuse_while_busy
from app.core.runs.service.recorded_offsets import partitions_of
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.runs.store.runs import RunStore
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError, PreconditionError
from app.products.dataframes import new_checkpoint as rules
from app.products.dataframes.new_checkpoint import Begin, LogBounds, NewCheckpointPlan, RecordedQuery, WriterState
from app.products.dataframes.store import QueryStore


class CheckpointAsked(NamedTuple):
    """begin: None: the committed offsets if that is safe, else the start position. checkpoint: None: suggested."""

    begin: Begin | None = None
    checkpoint: str | None = None


class _Planned(NamedTuple):
    plan: NewCheckpointPlan
    connection: Connection
    kafka_cluster_id: str
    topic_ids: Mapping[str, str | None]


async def plan_new_checkpoint(
    uow: UnitOfWork, brokers: Brokers, transactions: TransactionBrokers, *, pipeline: str, asked: CheckpointAsked
) -> NewCheckpointPlan:
    """Return the effect of `set_new_checkpoint`; nothing is changed. Works while a run lives.

    Raises InvalidError for a location or begin that is not possible, or a pipeline without a query.
    """
    record = await uow.of(PipelineStore).get(pipeline)
    return (await _planned(uow, brokers, transactions, record, asked)).plan


async def set_new_checkpoint(
    uow: UnitOfWork,
    brokers: Brokers,
    transactions: TransactionBrokers,
    *,
    pipeline: str,
    asked: CheckpointAsked,
    expected_batch: int | None,
    allowed: AllowedOptions,
    by: Principal,
    why: str | None,
    now: datetime,
) -> NewCheckpointPlan:
    """Leave the checkpoint, and return the plan that was carried out. The next start begins with the new one.

    expected_batch: the newest batch of the plan that the user confirmed; PreconditionError if it is another one.
    why: the reason for the command log and the markers; InvalidError without one.
    Raises ConflictError while a run lives, the group has members or a transaction is open.
    """
    require(by, Verb.NEW_CHECKPOINT)
    if not (why or "").strip():
        raise InvalidError(f"a new checkpoint of {pipeline} needs a reason: its state is lost", field="why")
    record = await uow.of(PipelineStore).get(pipeline, for_update=True)
    await refuse_while_busy(uow, pipeline)
    plan, connection, kafka_cluster_id, topic_ids = await _planned(uow, brokers, transactions, record, asked)
    if plan.refusals:
        raise ConflictError(f"{pipeline} cannot leave its checkpoint. {' '.join(plan.refusals)}")
    if expected_batch is not None and expected_batch != plan.newest_batch:
        raise PreconditionError(
            f"the newest batch of {pipeline} is {plan.newest_batch} by now, not {expected_batch}: check a new plan"
        )
    definition = _with_checkpoint(record.definition, plan.checkpoint)
    problems = await validate_pipeline(uow, brokers, name=pipeline, definition=definition, allowed=allowed, by=by)
    refuse_invalid(pipeline, problems, verb="changed")
    if plan.revision != record.current_revision:
        note = f"new checkpoint: {why}"
        await uow.of(PipelineStore).add_revision(
            new_revision(pipeline, plan.revision, definition, note=note[:1000], by=by, now=now)
        )
    await _record(uow, plan, by=by, why=why, now=now)
    await uow.of(RecordedOffsetStore).replace(
        [
            RecordedOffset(
                topic=one.topic,
                partition=one.partition,
                offset=one.begin,
                topic_id=topic_ids[one.topic],
                is_final=True,
            )
            for one in plan.partitions
        ],
        pipeline=pipeline,
        kafka_cluster_id=kafka_cluster_id,
        group=plan.group_id,
        now=now,
    )
    uow.notify("pipeline", pipeline)
    # Last, since a broker cannot be rolled back: every possible refusal comes before. If the commit then fails, the
    # sink refuses the old checkpoint, and the command can be repeated.
    begins = {Partition(one.topic, one.partition): one.begin for one in plan.partitions}
    markers = {Partition(plan.sink_topic, one.writer): 0 for one in plan.writers}
    marker = rules.marker_before_first(writers=definition.tasks_per_instance, why=why or "")
    await brokers.alter_offsets(
        connection, plan.group_id, {**begins, **markers}, metadata=dict.fromkeys(markers, marker)
    )
    return plan


async def _record(uow: UnitOfWork, plan: NewCheckpointPlan, *, by: Principal, why: str | None, now: datetime) -> None:
    await command_log.record(
        uow,
        by=by,
        verb=Verb.NEW_CHECKPOINT,
        target=f"pipeline:{plan.pipeline}",
        why=why,
        now=now,
        outcome=f"revision {plan.revision} with {plan.checkpoint}. {' '.join(plan.effects)}",
        details={
            "left": plan.left,
            "checkpoint": plan.checkpoint,
            "revision": plan.revision,
            "begin": plan.begin,
            "newest_batch": plan.newest_batch,
            "read_again": plan.read_again,
            "never_read": plan.never_read,
            "offsets": [
                {"topic": one.topic, "partition": one.partition, "from": one.committed, "to": one.begin}
                for one in plan.partitions
            ],
        },
    )


async def _planned(
    uow: UnitOfWork,
    brokers: Brokers,
    transactions: TransactionBrokers,
    record: Pipeline,
    asked: CheckpointAsked,
) -> _Planned:
    definition = record.definition
    query = definition.dataframe
    if query is None:
        raise InvalidError(f"{record.name} has no query, so it has no checkpoint: reset its offsets instead")
    left, location, revision = await _locations(uow, record, query, asked.checkpoint)
    recorded = await _recorded(uow, record)
    run = await uow.of(RunStore).find_live(record.name)
    cluster = await uow.of(ClusterStore).get(record.cluster)
    connection = cluster.connection()
    facts = await brokers.facts(connection, topics=(*definition.source_topics, definition.sink_topic))
    refuse_other_cluster(cluster, facts.cluster_id)
    missing = [topic for topic in (*definition.source_topics, definition.sink_topic) if topic not in facts.topics]
    if missing:
        raise InvalidError(f"topic {missing[0]} is not on cluster {cluster.name}: create it first")
    committed, markers = await brokers.offsets_and_markers(connection, definition.group_id)
    offsets = await brokers.offsets(connection, partitions_of(definition, facts.topics))
    bounds = {at: LogBounds(found.earliest, found.last_stable) for at, found in offsets.items()}
    refused = rules.committed_refused(recorded, group_id=definition.group_id, committed=committed, bounds=bounds)
    if asked.begin is Begin.COMMITTED and refused is not None:
        raise InvalidError(refused, field="begin")
    is_safe = refused is None and recorded.has_state is False
    begin = asked.begin or (Begin.COMMITTED if is_safe else Begin.START_POSITION)
    group = await brokers.describe_group(connection, definition.group_id)
    plan = NewCheckpointPlan(
        pipeline=record.name,
        group_id=definition.group_id,
        sink_topic=definition.sink_topic,
        left=left,
        checkpoint=location,
        revision=revision,
        begin=begin,
        committed_refused=refused,
        partitions=rules.begins(begin, start_position=definition.start_position, committed=committed, bounds=bounds),
        writers=await _writers(transactions, connection, record, markers),
        has_state=recorded.has_state,
        state=rules.lost_state(recorded.operators),
        state_bytes=recorded.state_bytes,
        watermark=recorded.watermark,
    )
    against = rules.refusals(
        plan,
        live_run=None if run is None else str(run.state),
        members=[member.client_id for member in group.members],
        definition=definition,
    )
    topic_ids = {name: topic.topic_id for name, topic in facts.topics.items()}
    return _Planned(rules.described(replace(plan, refusals=against)), connection, cluster.kafka_cluster_id, topic_ids)


async def _locations(
    uow: UnitOfWork, record: Pipeline, query: DataframeQuery, wanted: str | None
) -> tuple[str, str, int]:
    """Return the location that is left, the new one, and the revision that has it.

    The location of the current revision stays if no driver has used it: it was saved as the new one.
    """
    store = uow.of(QueryStore)
    locations = {
        one.number: one.definition.dataframe.checkpoint
        for one in await uow.of(PipelineStore).list_revisions(record.name)
        if one.definition.dataframe is not None
    }
    begun = sorted(number for number in await store.revisions_of_drivers(record.name) if number in locations)
    used = {locations[number] for number in begun}
    newest = await store.newest(record.name, limit=1)
    number = await store.revision_of(newest[0]) if newest else None
    left = locations.get(number or (begun[-1] if begun else 0), query.checkpoint)
    if wanted in used:
        raise InvalidError(f"a driver of {record.name} has used {wanted}: name a new folder", field="checkpoint")
    if wanted is not None and (message := checkpoint_problem(wanted)) is not None:
        raise InvalidError(message, field="checkpoint")
    following = record.current_revision + 1
    if wanted is None:
        is_fresh = query.checkpoint not in used and query.checkpoint != left
        wanted = query.checkpoint if is_fresh else rules.next_location(query.checkpoint, revision=following)
    return left, wanted, record.current_revision if wanted == query.checkpoint else following


async def _recorded(uow: UnitOfWork, record: Pipeline) -> RecordedQuery:
    store = uow.of(QueryStore)
    newest = await store.newest(record.name, limit=1)
    if not newest:
        return RecordedQuery()
    number = await store.revision_of(newest[0])
    was = None if number is None else (await uow.of(PipelineStore).get_revision(record.name, number)).definition
    is_same = was is not None and rules.is_same_query(was, record.definition)
    return rules.recorded_query(newest[0], is_same_query=is_same)


async def _writers(
    transactions: TransactionBrokers, connection: Connection, record: Pipeline, found: Mapping[Partition, QueryMarker]
) -> tuple[WriterState, ...]:
    definition = record.definition
    markers = rules.markers_of(found, sink_topic=definition.sink_topic)
    ids = [
        for_task(prefix=definition.transactional_id_prefix, pipeline=record.name, instance=0, task=writer)
        for writer in range(rules.writer_count(definition, markers))
    ]
    described = await asyncio.gather(*(transactions.describe_transaction(connection, one) for one in ids))
    return tuple(_writer(number, ids[number], markers.get(number), known) for number, known in enumerate(described))


def _writer(
    number: int, transactional_id: str, marker: int | None, known: KnownTransaction | Refused | None
) -> WriterState:
    described = known if isinstance(known, KnownTransaction) else None
    return WriterState(
        writer=number,
        transactional_id=transactional_id,
        marker=marker,
        state=None if described is None else described.state,
        is_open=described is not None and described.is_open,
    )


def _with_checkpoint(definition: PipelineDefinition, location: str) -> PipelineDefinition:
    query = definition.dataframe
    if query is None:
        raise InvalidError("the pipeline has no query")
    return replace(definition, transform=replace(query, checkpoint=location))
