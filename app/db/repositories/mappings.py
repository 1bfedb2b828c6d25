"""Partition mappings as they are, and the stretches of time in which each owner held a partition."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.db.connection import Connection
from app.db.tables import definitions
from app.db.tables.mappings import partition_mappings, partition_ownerships
from app.db.tables.tasks import task_attempts
from app.domain.runs.task import TaskReport
from app.domain.transactions.mapping import PartitionMapping, PartitionOwner, PartitionOwnership

_M = partition_mappings.c
_O = partition_ownerships.c
_TYPES = [
    sa.bindparam("owner_run_id", type_=sa.Uuid(as_uuid=False)),
    sa.bindparam("generation", type_=sa.Integer()),
    sa.bindparam("transactional_id", type_=sa.Text()),
    sa.bindparam("now", type_=sa.DateTime(timezone=True)),
]

# A take is refused where a newer one stands: within a run by lease and attempt of the same task, and between tasks by
# the group's generation. A partition that nobody holds, or that a run which has ended held, is anybody's.
_TAKE = sa.text(
    """
    INSERT INTO partition_mappings AS held
        (kafka_cluster_id, group_id, topic, partition, pipeline_id, transactional_id, owner_run_id, owner_ordinal,
         owner_lease, owner_task, owner_attempt, owner_host, generation, producer_id, epoch, since)
    SELECT :kafka_cluster_id, :group_id, :topic, :partition, runs.pipeline_id, :transactional_id, runs.id,
           :owner_ordinal, :owner_lease, :owner_task, :owner_attempt, :owner_host, :generation, :producer_id, :epoch,
           :now
    FROM runs WHERE runs.id = :owner_run_id
    ON CONFLICT (kafka_cluster_id, group_id, topic, partition) DO UPDATE SET
        pipeline_id = excluded.pipeline_id, transactional_id = excluded.transactional_id,
        owner_run_id = excluded.owner_run_id, owner_ordinal = excluded.owner_ordinal,
        owner_lease = excluded.owner_lease, owner_task = excluded.owner_task,
        owner_attempt = excluded.owner_attempt, owner_host = excluded.owner_host,
        generation = excluded.generation,
        since = CASE WHEN (held.owner_run_id, held.owner_ordinal, held.owner_lease, held.owner_task,
                           held.owner_attempt) IS NOT DISTINCT FROM
                          (excluded.owner_run_id, excluded.owner_ordinal, excluded.owner_lease, excluded.owner_task,
                           excluded.owner_attempt) THEN held.since ELSE excluded.since END,
        producer_id = excluded.producer_id, epoch = excluded.epoch
    WHERE held.owner_run_id IS NULL
       OR held.owner_run_id <> excluded.owner_run_id
          AND EXISTS (SELECT FROM runs WHERE runs.id = held.owner_run_id AND runs.ended_at IS NOT NULL)
       OR held.owner_run_id = excluded.owner_run_id
          AND CASE WHEN (held.owner_ordinal, held.owner_task) = (excluded.owner_ordinal, excluded.owner_task)
                   THEN (held.owner_lease, held.owner_attempt) <= (excluded.owner_lease, excluded.owner_attempt)
                   ELSE held.generation IS NULL OR excluded.generation IS NULL
                        OR held.generation <= excluded.generation END
    RETURNING since
    """
).bindparams(*_TYPES, sa.bindparam("producer_id", type_=sa.BigInteger()), sa.bindparam("epoch", type_=sa.Integer()))

# A stretch that would begin and end at one instant was none. A server whose clock lags ends it where it began.
_CLOSE = """
    WITH gone AS (
        DELETE FROM partition_ownerships WHERE upper_inf(during) AND lower(during) >= :now AND {which} RETURNING id
    )
    UPDATE partition_ownerships SET during = tstzrange(lower(during), :now)
    WHERE upper_inf(during) AND {which} AND id NOT IN (SELECT id FROM gone) AND lower(during) < :now
"""
_CLOSE_OTHERS = sa.text(
    _CLOSE.format(
        which="""kafka_cluster_id = :kafka_cluster_id AND group_id = :group_id AND topic = :topic
                 AND partition = :partition
                 AND (owner_run_id, owner_ordinal, owner_lease, owner_task, owner_attempt) IS DISTINCT FROM
                     (:owner_run_id, :owner_ordinal, :owner_lease, :owner_task, :owner_attempt)"""
    )
).bindparams(_TYPES[0], _TYPES[3])
_OPEN = sa.text(
    """
    INSERT INTO partition_ownerships
        (kafka_cluster_id, group_id, topic, partition, pipeline_id, transactional_id, owner_run_id, owner_ordinal,
         owner_lease, owner_task, owner_attempt, owner_host, generation, during)
    SELECT :kafka_cluster_id, :group_id, :topic, :partition, runs.pipeline_id, :transactional_id, runs.id,
           :owner_ordinal, :owner_lease, :owner_task, :owner_attempt, :owner_host, :generation,
           tstzrange(greatest(:now, (SELECT max(upper(during)) FROM partition_ownerships AS past
                                     WHERE past.kafka_cluster_id = :kafka_cluster_id AND past.group_id = :group_id
                                       AND past.topic = :topic AND past.partition = :partition)), NULL)
    FROM runs WHERE runs.id = :owner_run_id
      AND NOT EXISTS (SELECT FROM partition_ownerships AS open
                      WHERE open.kafka_cluster_id = :kafka_cluster_id AND open.group_id = :group_id
                        AND open.topic = :topic AND open.partition = :partition AND upper_inf(open.during))
    """
).bindparams(*_TYPES)

_LET_GO = """
    UPDATE partition_mappings SET owner_run_id = NULL, owner_ordinal = NULL, owner_lease = NULL, owner_task = NULL,
                                  owner_attempt = NULL, owner_host = NULL, since = :now
    WHERE owner_run_id = :run_id AND {which}
"""
_OF_TASK = """owner_ordinal = :ordinal AND owner_task = :task AND (owner_lease, owner_attempt) <= (:lease, :attempt)
    AND NOT EXISTS (SELECT FROM unnest(CAST(:topics AS text[]), CAST(:partitions AS int[])) AS kept (topic, partition)
                    WHERE kept.topic = {table}.topic AND kept.partition = {table}.partition)"""
_OF_INSTANCE = "owner_ordinal = :ordinal AND owner_lease = :lease"
_RUN = [sa.bindparam("run_id", type_=sa.Uuid(as_uuid=False)), _TYPES[3]]


def _letting_go(which: str) -> tuple[sa.TextClause, sa.TextClause]:
    """Mappings first, then their stretches: the order in which `take` locks them as well."""
    return (
        sa.text(_LET_GO.format(which=which.format(table="partition_mappings"))).bindparams(*_RUN),
        sa.text(
            _CLOSE.format(which="owner_run_id = :run_id AND " + which.format(table="partition_ownerships"))
        ).bindparams(*_RUN),
    )


# Two tasks that swap partitions would else lock them in opposite orders. Taken after any instance's row, never before.
_IN_TURN = sa.text("SELECT pg_advisory_xact_lock(hashtextextended('mappings of run ' || :run_id, 0))").bindparams(
    sa.bindparam("run_id", type_=sa.Text())
)
_RELEASE_TASK = _letting_go(_OF_TASK)
_RELEASE_INSTANCE = _letting_go(_OF_INSTANCE)


class SqlMappings:
    def __init__(self, db: Connection) -> None:
        self._db = db

    async def take(self, mapping: PartitionMapping) -> bool:
        owner = mapping.owner
        if owner is None:
            raise ValueError("only an owner can take a partition")
        key = {
            "kafka_cluster_id": mapping.kafka_cluster_id,
            "group_id": mapping.group,
            "topic": mapping.topic,
            "partition": mapping.partition,
        }
        who = {
            "owner_run_id": owner.run_id,
            "owner_ordinal": owner.ordinal,
            "owner_lease": owner.lease,
            "owner_task": owner.task,
            "owner_attempt": owner.attempt,
        }
        what = {
            "owner_host": owner.host,
            "transactional_id": mapping.transactional_id,
            "generation": mapping.generation,
            "now": mapping.since,
        }
        producer = {"producer_id": mapping.producer_id, "epoch": mapping.epoch}
        if await self._db.row(_TAKE, {**key, **who, **what, **producer}) is None:
            return False
        await self._db.execute(_CLOSE_OTHERS, {**key, **who, "now": mapping.since})
        await self._db.execute(_OPEN, {**key, **who, **what})
        return True

    async def release(self, *, owner_of: TaskReport, keep: Sequence[tuple[str, int]], now: datetime) -> None:
        parameters = {
            "run_id": owner_of.run_id,
            "ordinal": owner_of.ordinal,
            "task": owner_of.task,
            "lease": owner_of.lease,
            "attempt": owner_of.attempt,
            "topics": [topic for topic, _ in keep],
            "partitions": [partition for _, partition in keep],
            "now": now,
        }
        await self._db.execute(_IN_TURN, {"run_id": owner_of.run_id})
        for statement in _RELEASE_TASK:
            await self._db.execute(statement, parameters)

    async def release_instance(self, *, run_id: str, ordinal: int, lease: int, now: datetime) -> None:
        await self._db.execute(_IN_TURN, {"run_id": run_id})
        for statement in _RELEASE_INSTANCE:
            await self._db.execute(statement, {"run_id": run_id, "ordinal": ordinal, "lease": lease, "now": now})

    async def of_group(self, *, kafka_cluster_id: str, group: str) -> list[PartitionMapping]:
        rows = await self._db.rows(
            sa.select(partition_mappings, task_attempts.c.report["partitions"].label("reported"))
            .outerjoin(
                task_attempts,
                (task_attempts.c.run_id == _M.owner_run_id)
                & (task_attempts.c.ordinal == _M.owner_ordinal)
                & (task_attempts.c.task == _M.owner_task)
                & (task_attempts.c.lease == _M.owner_lease)
                & (task_attempts.c.attempt == _M.owner_attempt),
            )
            .where(_M.kafka_cluster_id == kafka_cluster_id, _M.group_id == group)
            .order_by(_M.topic, _M.partition)
        )
        return [_mapping(row) for row in rows]

    async def unowned(self, pipelines: Sequence[str]) -> dict[str, list[PartitionMapping]]:
        found: dict[str, list[PartitionMapping]] = {}
        if pipelines:
            rows = await self._db.rows(
                sa.select(partition_mappings, sa.null().label("reported"), definitions.pipelines.c.name)
                .join(definitions.pipelines, definitions.pipelines.c.id == _M.pipeline_id)
                .where(definitions.pipelines.c.name.in_(pipelines), _M.owner_run_id.is_(None))
                .order_by(_M.topic, _M.partition)
            )
            for row in rows:
                found.setdefault(row.name, []).append(_mapping(row))
        return found

    async def history(
        self, *, kafka_cluster_id: str, group: str, topic: str | None, partition: int | None, limit: int
    ) -> list[PartitionOwnership]:
        statement = (
            sa.select(
                partition_ownerships,
                sa.func.lower(_O.during).label("since"),
                sa.func.upper(_O.during).label("until"),
            )
            .where(_O.kafka_cluster_id == kafka_cluster_id, _O.group_id == group)
            .order_by(sa.func.lower(_O.during).desc(), _O.id.desc())
            .limit(limit)
        )
        if topic is not None:
            statement = statement.where(_O.topic == topic)
        if partition is not None:
            statement = statement.where(_O.partition == partition)
        return [
            PartitionOwnership(
                kafka_cluster_id=row.kafka_cluster_id,
                group=row.group_id,
                topic=row.topic,
                partition=row.partition,
                transactional_id=row.transactional_id,
                owner=_owner(row),
                generation=row.generation,
                since=row.since,
                until=row.until,
            )
            for row in await self._db.rows(statement)
        ]


def _owner(row: sa.Row[Any]) -> PartitionOwner:
    return PartitionOwner(
        run_id=row.owner_run_id,
        ordinal=row.owner_ordinal,
        lease=row.owner_lease,
        task=row.owner_task,
        attempt=row.owner_attempt,
        host=row.owner_host,
    )


def _mapping(row: sa.Row[Any]) -> PartitionMapping:
    reported: list[dict[str, Any]] = row.reported or []
    nothing: dict[str, Any] = {}
    progress = next((p for p in reported if (p["topic"], p["partition"]) == (row.topic, row.partition)), nothing)
    return PartitionMapping(
        kafka_cluster_id=row.kafka_cluster_id,
        group=row.group_id,
        topic=row.topic,
        partition=row.partition,
        transactional_id=row.transactional_id,
        owner=None if row.owner_run_id is None else _owner(row),
        producer_id=row.producer_id,
        epoch=row.epoch,
        generation=row.generation,
        since=row.since,
        position=progress.get("position"),
        committed=progress.get("committed"),
        end=progress.get("end"),
    )
