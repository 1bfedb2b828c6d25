"""Partition mappings as they are, and the ownership intervals of each partition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.clusters.partition import Partition
from app.core.ids.store.transactional_ids import archived_of
from app.core.mappings.mapping import (
    AssignedId,
    IdOrigin,
    OwnershipFilter,
    PartitionMapping,
    PartitionOwner,
    PartitionOwnership,
    ReportedIncarnation,
)
from app.core.mappings.store.statements import (
    CLOSE_CHANGED,
    COMPLETE,
    IN_TURN,
    INCARNATIONS,
    OPEN,
    RELEASE_INSTANCE,
    RELEASE_TASK,
    TAKE,
)
from app.core.mappings.tables import partition_mappings, partition_ownerships
from app.core.pipelines import tables as definitions
from app.core.runs.tables.tasks import task_attempts
from app.core.runs.task import TaskReport
from app.kit.db.store import DatabaseStore
from app.kit.errors import ConflictError, InvalidError
from app.kit.page import Page, decode_cursor, encode_cursor

_M = partition_mappings.c
_O = partition_ownerships.c
_P = definitions.pipelines.c
_I = definitions.transactional_ids.c
_ASSIGNED = (_I.kafka_cluster_id == _M.kafka_cluster_id) & (_I.transactional_id == _M.assigned_id)
_NAMED = (
    sa.select(partition_mappings, sa.null().label("reported"), _P.name, _I.archived_at, _I.archived_by)
    .join(definitions.pipelines, _P.id == _M.pipeline_id)
    .outerjoin(definitions.transactional_ids, _ASSIGNED)
)
# No task has read it yet: the row exists only for its assigned id.
_UNREAD = (
    _M.assigned_id.is_not(None) & _M.owner_run_id.is_(None) & _M.transactional_id.is_(None) & _M.generation.is_(None)
)


class MappingStore(DatabaseStore):
    async def take(
        self, mappings: Sequence[PartitionMapping], *, heard: datetime | None = None
    ) -> frozenset[Partition]:
        """Make this owner the owner of the mappings, and close the earlier intervals; return those that it got.

        All are of one group, owner, generation and time. A partition with a newer owner stays with it. An interval
        continues while its values are unchanged; unknown ones are filled in.
        `heard`: the owner's heartbeat before, which confirms its intervals that change now up to then.
        """
        if not mappings:
            return frozenset()
        first = mappings[0]
        owner = first.owner
        if owner is None:
            raise ValueError("only an owner can take a partition")
        one_taker = {
            "kafka_cluster_id": first.kafka_cluster_id,
            "group_id": first.group,
            "owner_run_id": owner.run_id,
            "owner_ordinal": owner.ordinal,
            "owner_lease": owner.lease,
            "owner_task": owner.task,
            "owner_attempt": owner.attempt,
            "owner_host": owner.host,
            "generation": first.generation,
            "now": first.since,
        }
        rows = await self._db.rows(TAKE, {**one_taker, **_arrays(mappings)})
        got = frozenset(Partition(row.topic, row.partition) for row in rows)
        if got:
            parameters = {**one_taker, **_arrays([one for one in mappings if (one.topic, one.partition) in got])}
            await self._db.execute(CLOSE_CHANGED, {**parameters, "heard_at": heard})
            for statement in (COMPLETE, OPEN):
                await self._db.execute(statement, parameters)
        return got

    async def held_by(self, owner: TaskReport) -> frozenset[Partition]:
        """Return topics and partitions that this attempt of the task owns, as committed; waits for no lock."""
        rows = await self._db.rows(
            sa.select(_M.topic, _M.partition).where(
                _M.owner_run_id == owner.run_id,
                _M.owner_ordinal == owner.ordinal,
                _M.owner_task == owner.task,
                _M.owner_lease == owner.lease,
                _M.owner_attempt == owner.attempt,
            )
        )
        return frozenset(Partition(row.topic, row.partition) for row in rows)

    async def release(
        self,
        *,
        owner_of: TaskReport,
        keep: Sequence[Partition],
        now: datetime,
        heard: datetime | None = None,
    ) -> None:
        """End the ownership of all partitions of this task (any attempt up to this one) that are not in `keep`.

        `heard`: as in `take`.
        """
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
        await self._db.execute(IN_TURN, {"run_id": owner_of.run_id})
        mappings, stretches = RELEASE_TASK
        await self._db.execute(mappings, parameters)
        await self._db.execute(stretches, {**parameters, "heard_at": heard})

    async def release_instance(self, *, run_id: str, ordinal: int, lease: int, now: datetime) -> None:
        """End every ownership of an instance that has ended."""
        await self._db.execute(IN_TURN, {"run_id": run_id})
        parameters = {"run_id": run_id, "ordinal": ordinal, "lease": lease, "now": now}
        mappings, stretches = RELEASE_INSTANCE
        await self._db.execute(mappings, parameters)
        await self._db.execute(stretches, {**parameters, "heard_at": None})

    async def assign(
        self,
        *,
        pipeline: str,
        kafka_cluster_id: str,
        group: str,
        ids: Sequence[AssignedId],
        origin: IdOrigin,
        now: datetime,
    ) -> None:
        """Assign their ids to partitions; the pipeline owns the ids already. ConflictError rather than replacing
        one.
        """
        if not ids:
            return
        # As three arrays: a statement has 65,535 parameters at most.
        given = (
            sa.func.unnest(
                sa.literal([one.topic for one in ids], postgresql.ARRAY(sa.Text)),
                sa.literal([one.partition for one in ids], postgresql.ARRAY(sa.Integer)),
                sa.literal([one.transactional_id for one in ids], postgresql.ARRAY(sa.Text)),
            )
            .table_valued("topic", "partition", "assigned_id")
            .render_derived(name="given")
        )
        values: dict[str, sa.ColumnElement[Any]] = {
            "kafka_cluster_id": sa.literal(kafka_cluster_id),
            "group_id": sa.literal(group),
            "topic": given.c.topic,
            "partition": given.c.partition,
            "pipeline_id": _P.id,
            "assigned_id": given.c.assigned_id,
            "origin": sa.literal(str(origin)),
            "since": sa.literal(now, sa.DateTime(timezone=True)),
        }
        rows_of = (
            sa.select(*values.values())
            .join_from(definitions.pipelines, given, sa.true())
            .where(_P.name == pipeline)
            .order_by(given.c.topic, given.c.partition)
        )
        insert = postgresql.insert(partition_mappings).from_select(list(values), rows_of)
        new = insert.excluded
        rows = await self._db.rows(
            insert.on_conflict_do_update(
                index_elements=["kafka_cluster_id", "group_id", "topic", "partition"],
                set_={"pipeline_id": new.pipeline_id, "assigned_id": new.assigned_id, "origin": new.origin},
                # A pipeline that has left the group does not decide about its partitions any more.
                where=_M.assigned_id.is_(None)
                | (_M.pipeline_id != new.pipeline_id)
                | ((_M.assigned_id == new.assigned_id) & (_M.origin == new.origin)),
            ).returning(_M.topic, _M.partition)
        )
        assigned = {(row.topic, row.partition) for row in rows}
        for one in ids:
            if (one.topic, one.partition) not in assigned:
                raise ConflictError(
                    f"{one.topic}-{one.partition} of the group {group} has been assigned another transactional id "
                    "already: it is not replaced"
                )

    async def unassign(self, *, pipeline: str, origin: IdOrigin) -> int:
        """Remove the assignments of the pipeline's partitions; return the number of those that had one."""
        owner = sa.select(_P.id).where(_P.name == pipeline).scalar_subquery()
        mine = (_M.pipeline_id == owner) & (_M.origin == origin)
        unread = await self._db.execute(sa.delete(partition_mappings).where(mine, _UNREAD))
        cleared = await self._db.execute(
            sa.update(partition_mappings).where(mine).values(assigned_id=None, origin=None)
        )
        return unread.rowcount + cleared.rowcount

    async def of_group(self, *, kafka_cluster_id: str, group: str) -> list[PartitionMapping]:
        """Return them by topic and partition, with the offsets that the owner last reported."""
        rows = await self._db.rows(
            sa.select(
                partition_mappings,
                task_attempts.c.report["partitions"].label("reported"),
                _P.name,
                _I.archived_at,
                _I.archived_by,
            )
            .join(definitions.pipelines, _P.id == _M.pipeline_id)
            .outerjoin(definitions.transactional_ids, _ASSIGNED)
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
        """Return, by pipeline, the partitions that have lost their owner, by topic and partition."""
        found: dict[str, list[PartitionMapping]] = {}
        if pipelines:
            rows = await self._db.rows(
                _NAMED.where(_P.name.in_(pipelines), _M.owner_run_id.is_(None), ~_UNREAD).order_by(
                    _M.topic, _M.partition
                )
            )
            for row in rows:
                found.setdefault(row.name, []).append(_mapping(row))
        return found

    async def of_cluster(self, *, kafka_cluster_id: str) -> list[PartitionMapping]:
        """Return them by group, topic and partition; without offsets."""
        rows = await self._db.rows(
            _NAMED.where(_M.kafka_cluster_id == kafka_cluster_id).order_by(_M.group_id, _M.topic, _M.partition)
        )
        return [_mapping(row) for row in rows]

    async def holders(self, *, kafka_cluster_id: str, ids: Collection[str]) -> dict[str, PartitionOwner]:
        """Return the owner of a partition under each id, by id."""
        rows = await self._db.rows(
            sa.select(partition_mappings).where(
                _M.kafka_cluster_id == kafka_cluster_id, _M.transactional_id.in_(ids), _M.owner_run_id.is_not(None)
            )
        )
        return {row.transactional_id: _owner(row) for row in rows}

    async def history(
        self, wanted: OwnershipFilter, *, kafka_cluster_id: str, after: str | None, limit: int
    ) -> Page[PartitionOwnership]:
        """List them newest first."""
        begin = sa.func.lower(_O.during)
        heard = sa.case(
            (sa.func.upper_inf(_O.during), sa.func.greatest(begin, task_attempts.c.received_at)), else_=_O.heard_until
        )
        statement = (
            sa.select(
                partition_ownerships,
                begin.label("since"),
                sa.func.upper(_O.during).label("until"),
                heard.label("heard"),
                _P.name,
            )
            .join(definitions.pipelines, _P.id == _O.pipeline_id)
            .outerjoin(
                task_attempts,
                (task_attempts.c.run_id == _O.owner_run_id)
                & (task_attempts.c.ordinal == _O.owner_ordinal)
                & (task_attempts.c.lease == _O.owner_lease)
                & (task_attempts.c.task == _O.owner_task)
                & (task_attempts.c.attempt == _O.owner_attempt),
            )
            .where(_O.kafka_cluster_id == kafka_cluster_id, *_conditions(wanted))
            .order_by(begin.desc(), _O.id.desc())
            .limit(limit + 1)
        )
        if after is not None:
            statement = statement.where(sa.tuple_(begin, _O.id) < sa.tuple_(*_position(after)))
        rows = await self._db.rows(statement)
        page, more = rows[:limit], len(rows) > limit
        return Page(
            items=tuple(_ownership(row) for row in page),
            next_cursor=encode_cursor(page[-1].since.isoformat(), str(page[-1].id)) if more else None,
        )

    async def incarnations(self, *, kafka_cluster_id: str) -> list[ReportedIncarnation]:
        """Return the producers that tasks reported last, under ids with an owner."""
        rows = await self._db.rows(INCARNATIONS, {"kafka_cluster_id": kafka_cluster_id})
        return [
            ReportedIncarnation(transactional_id=row.transactional_id, producer_id=row.producer_id, epoch=row.epoch)
            for row in rows
        ]


def _arrays(mappings: Sequence[PartitionMapping]) -> dict[str, list[Any]]:
    return {
        "topics": [one.topic for one in mappings],
        "partitions": [one.partition for one in mappings],
        "transactional_ids": [one.transactional_id for one in mappings],
        "producer_ids": [one.producer_id for one in mappings],
        "epochs": [one.epoch for one in mappings],
    }


def _conditions(wanted: OwnershipFilter) -> Iterator[sa.ColumnElement[bool]]:
    columns = {
        _O.group_id: wanted.group,
        _O.topic: wanted.topic,
        _O.partition: wanted.partition,
        _O.transactional_id: wanted.transactional_id,
    }
    yield from (column == value for column, value in columns.items() if value is not None)
    if wanted.at is not None:
        yield _O.during.contains(sa.cast(wanted.at, sa.DateTime(timezone=True)))
    if wanted.since is not None or wanted.until is not None:
        yield _O.during.overlaps(sa.func.tstzrange(wanted.since, wanted.until))


def _position(after: str) -> tuple[datetime, int]:
    since, number = decode_cursor(after, keys=2)
    try:
        return datetime.fromisoformat(since), int(number)
    except ValueError as error:
        raise InvalidError(
            "this cursor belongs to another list: take it from next_cursor unchanged", field="after"
        ) from error


def _ownership(row: sa.Row[Any]) -> PartitionOwnership:
    return PartitionOwnership(
        pipeline=row.name,
        kafka_cluster_id=row.kafka_cluster_id,
        group=row.group_id,
        topic=row.topic,
        partition=row.partition,
        transactional_id=row.transactional_id,
        owner=_owner(row),
        generation=row.generation,
        producer_id=row.producer_id,
        epoch=row.epoch,
        since=row.since,
        until=row.until,
        heard_until=row.heard,
    )


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
        pipeline=row.name,
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
        assigned_id=row.assigned_id,
        origin=None if row.origin is None else IdOrigin(row.origin),
        archived=archived_of(row),
    )
