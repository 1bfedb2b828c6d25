"""Database store of the offset log: the events of tasks, and the results of checks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.pipelines.tables import pipelines, transactional_ids
from app.core.runs.tables.runs import runs
from app.core.runs.task import TaskReport
from app.core.wire.offset_events import Event, RecordedCheckpoint, Teller
from app.core.wire.offset_report import Init, OffsetReport
from app.kit.access import Verb
from app.kit.db.store import DatabaseStore
from app.kit.storable import moment_of_ms
from app.products.offset_log.check import OffsetFinding, PipelineCheck
from app.products.offset_log.heard import ReportedOffsets
from app.products.offset_log.keeping import KnownPartition, Place, keeping
from app.products.offset_log.record import CheckRecord, FindingRecord
from app.products.offset_log.silence import Attempted
from app.products.offset_log.tables import (
    offset_checks,
    offset_contradictions,
    offset_events,
    offset_tellers,
    offset_tellings,
)
from app.products.offset_log.verdict import ContradictionKind

_ROWS_AT_ONCE = 1000  # a statement takes 65,535 parameters
_ATTEMPT = ("run_id", "ordinal", "task", "lease", "attempt")
_EVENTS = msgspec.json.Decoder(tuple[Event, ...])
_KNOWN = """
    WITH started AS (
        SELECT runs.id,
               began.definition->>'cluster' AS on_cluster,
               (SELECT count(*) FROM runs AS before
                WHERE before.pipeline_id = runs.pipeline_id
                  AND (before.started_at, before.id) < (runs.started_at, runs.id)) AS number,
               (SELECT count(*) FROM runs AS before
                JOIN revisions AS its ON its.pipeline_id = before.pipeline_id AND its.number = before.revision
                WHERE before.pipeline_id = runs.pipeline_id
                  AND (before.started_at, before.id) < (runs.started_at, runs.id)
                  AND its.definition->>'processing_guarantee' = :unrecorded) AS unrecorded,
               (SELECT count(*) FROM command_log
                WHERE target = 'pipeline:' || pipelines.name AND verb = :reset
                  AND command_log.at < runs.started_at) AS resets
        FROM runs
        JOIN pipelines ON pipelines.id = runs.pipeline_id
        JOIN revisions AS began ON began.pipeline_id = runs.pipeline_id AND began.number = runs.revision
        WHERE pipelines.name = :pipeline
    ), known AS (
        SELECT id, number, dense_rank() OVER (ORDER BY on_cluster, resets + unrecorded) AS life FROM started
    )
"""
"""The runs of a pipeline, each with the number of its start and its life."""
_HEARD = sa.text(
    f"""
    {_KNOWN}
    SELECT revisions.definition->>'group_id' AS group_id,
           reported.run_id, reported.ordinal, reported.task, reported.lease, reported.attempt,
           reported.topic, reported.partition,
           reported.recorded, reported.is_open, known.number, known.life,
           tellers.host, tellers.is_over, tellers.complete_at,
           found.events, found.newest_at
    FROM known
    JOIN offset_tellers AS tellers ON tellers.run_id = known.id
    JOIN offset_tellings AS reported USING (run_id, ordinal, task, lease, attempt)
    JOIN instances USING (run_id, ordinal, lease)
    JOIN runs ON runs.id = reported.run_id
    JOIN revisions ON revisions.pipeline_id = runs.pipeline_id AND revisions.number = instances.revision
    LEFT JOIN LATERAL (
        SELECT CAST(json_agg(event ORDER BY index) AS text) AS events, max(first_at) AS newest_at
        FROM offset_events AS kept
        WHERE (kept.run_id, kept.ordinal, kept.task, kept.lease, kept.attempt, kept.topic, kept.partition)
            = (reported.run_id, reported.ordinal, reported.task, reported.lease, reported.attempt,
               reported.topic, reported.partition)
          AND kept.last_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
    ) AS found ON true
    WHERE tellers.reported_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
      AND (CAST(:topics AS text[]) IS NULL OR (reported.topic, reported.partition) IN (
           SELECT * FROM unnest(CAST(:topics AS text[]), CAST(:partitions AS integer[]))))
    """  # noqa: S608 - the parts are constants
).bindparams(
    sa.bindparam("since", type_=sa.DateTime(timezone=True)),
    sa.bindparam("topics", type_=postgresql.ARRAY(sa.Text)),
    sa.bindparam("partitions", type_=postgresql.ARRAY(sa.Integer)),
)
_ATTEMPTED = sa.text(
    f"""
    {_KNOWN}
    SELECT known.number, known.life, tellers.ordinal, tellers.task, tellers.lease, tellers.attempt,
           tellers.is_over, tellers.complete_at, found.first, found.last
    FROM known
    JOIN offset_tellers AS tellers ON tellers.run_id = known.id
    LEFT JOIN LATERAL (
        SELECT min(CAST(event->>'generation' AS bigint)) AS first, max(CAST(event->>'generation' AS bigint)) AS last
        FROM offset_events AS kept
        WHERE (kept.run_id, kept.ordinal, kept.task, kept.lease, kept.attempt)
            = (tellers.run_id, tellers.ordinal, tellers.task, tellers.lease, tellers.attempt)
          AND event->>'type' = 'assigned'
    ) AS found ON true
    """  # noqa: S608 - the parts are constants
)
_LIVES = {"reset": Verb.RESET_OFFSETS, "unrecorded": ProcessingGuarantee.AT_LEAST_ONCE}
"""The commands and guarantees that begin another life."""


def _add(table: sa.Table, key: Sequence[str], kept: Sequence[str], *, newer_by: str) -> sa.Insert:
    """Return the statement that adds rows, or replaces the `kept` columns of older ones. It is sent each second."""
    statement = postgresql.insert(table)
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=key, set_={name: new[name] for name in kept}, where=table.c[newer_by] < new[newer_by]
    )


_ADD_TELLER = _add(
    offset_tellers,
    _ATTEMPT,
    ("sequence", "transactional_id", "inits", "is_over", "complete_at", "reported_at"),
    newer_by="sequence",
)
_ADD_TELLINGS = _add(
    offset_tellings, (*_ATTEMPT, "topic", "partition"), ("sequence", "recorded", "is_open"), newer_by="sequence"
)
_ADD_EVENTS = _add(
    offset_events,
    (*_ATTEMPT, "topic", "partition", "index"),
    ("checkpoints", "event", "last_at"),
    newer_by="checkpoints",
)


class OffsetLogStore(DatabaseStore):
    """Rows by attempt and partition. The copy of an event with the most checkpoints is kept."""

    async def add(self, attempt: TaskReport, offsets: OffsetReport, *, now: datetime) -> None:
        """Store the report of an attempt, unless a newer or equal one is stored."""
        key = {name: getattr(attempt, name) for name in _ATTEMPT}
        await self._add_teller(attempt, offsets, key, now=now)
        told = sorted(offsets.partitions, key=lambda one: (one.topic, one.partition))
        if not told:
            return
        rows = [
            {
                **key,
                "topic": one.topic,
                "partition": one.partition,
                "sequence": attempt.sequence,
                "recorded": one.recorded,
                "is_open": one.is_open,
            }
            for one in told
        ]
        await self._db.execute(_ADD_TELLINGS, rows)
        events = [
            {
                **key,
                "topic": one.topic,
                "partition": one.partition,
                "index": event.index,
                "checkpoints": event.checkpoints if isinstance(event, RecordedCheckpoint) else 1,
                "event": msgspec.to_builtins(event),
                "first_at": now,
                "last_at": now,
            }
            for one in told
            for event in sorted(one.events, key=lambda event: event.index)
        ]
        if events:
            await self._db.execute(_ADD_EVENTS, events)

    async def _add_teller(
        self, attempt: TaskReport, offsets: OffsetReport, key: Mapping[str, object], *, now: datetime
    ) -> None:
        row = {
            **key,
            "sequence": attempt.sequence,
            "host": attempt.host,
            "transactional_id": attempt.transactional_id,
            "inits": [list(init) for init in offsets.inits],
            "is_over": offsets.is_over,
            "complete_at": None if offsets.heard_ms is None else min(moment_of_ms(offsets.heard_ms), now),
            "reported_at": now,
        }
        await self._db.execute(_ADD_TELLER, row)

    async def heard(
        self, pipeline: str, *, since: datetime | None, places: Sequence[Place] | None = None
    ) -> list[ReportedOffsets]:
        """Return the events of a pipeline's partitions since then (None: all that is kept), of `places` only."""
        rows = await self._db.rows(
            _HEARD,
            {
                "pipeline": pipeline,
                **_LIVES,
                "since": since,
                "topics": None if places is None else [topic for _, topic, _ in places],
                "partitions": None if places is None else [partition for _, _, partition in places],
            },
        )
        # For tasks that abort ten times a second this takes seconds, during which the server must answer others.
        return await asyncio.to_thread(lambda: [_heard(row) for row in rows])

    async def attempted(self, pipeline: str) -> list[Attempted]:
        """Return every attempt with a kept report, about any partition or none."""
        rows = await self._db.rows(_ATTEMPTED, {"pipeline": pipeline, **_LIVES})
        return [
            Attempted(
                teller=Teller(run=row.number, ordinal=row.ordinal, task=row.task, lease=row.lease, attempt=row.attempt),
                is_over=row.is_over,
                complete_at=row.complete_at,
                first=row.first,
                last=row.last,
                life=row.life,
            )
            for row in rows
        ]

    async def inits(self, pipeline: str) -> Mapping[str, Sequence[Init]]:
        """Return the kept inits of each transactional id of the pipeline."""
        ids = sa.select(transactional_ids.c.transactional_id).join(
            pipelines, pipelines.c.id == transactional_ids.c.pipeline_id
        )
        found: dict[str, list[Init]] = {
            row.transactional_id: [] for row in await self._db.rows(ids.where(pipelines.c.name == pipeline))
        }
        told = (
            sa.select(offset_tellers.c.transactional_id, offset_tellers.c.inits)
            .join(runs, runs.c.id == offset_tellers.c.run_id)
            .join(pipelines, pipelines.c.id == runs.c.pipeline_id)
            .where(pipelines.c.name == pipeline)
        )
        for row in await self._db.rows(told):
            for init in (Init(*init) for init in row.inits):
                name = init.transactional_id or row.transactional_id
                if name is not None:
                    found.setdefault(name, []).append(init)
        return found

    async def told_since(self, since: datetime | None) -> list[str]:
        """Return the names of the pipelines with reports since then."""
        statement = (
            sa.select(pipelines.c.name)
            .distinct()
            .join(runs, runs.c.pipeline_id == pipelines.c.id)
            .join(offset_tellers, offset_tellers.c.run_id == runs.c.id)
            .order_by(pipelines.c.name)
        )
        if since is not None:
            statement = statement.where(offset_tellers.c.reported_at >= since)
        return [row.name for row in await self._db.rows(statement)]

    async def note_check(self, pipeline: str, check: PipelineCheck) -> None:
        """Store the result of the newest check, unless it had no events."""
        if check.standing is None:
            return
        record = CheckRecord(
            checked_at=check.until,
            since=check.since,
            standing=check.standing,
            figures=check.figures,
            partitions=dict(Counter(one.standing for one in check.partitions)),
            doubts=check.doubts,
        )
        statement = postgresql.insert(offset_checks).from_select(
            ["pipeline_id", "checked_at", "record"],
            sa.select(
                pipelines.c.id,
                sa.literal(check.until, sa.DateTime(timezone=True)),
                sa.literal(msgspec.to_builtins(record, str_keys=True), offset_checks.c.record.type),
            ).where(pipelines.c.name == pipeline),
        )
        new = statement.excluded
        await self._db.execute(
            statement.on_conflict_do_update(
                index_elements=["pipeline_id"],
                set_={"checked_at": new.checked_at, "record": new.record},
                where=offset_checks.c.checked_at < new.checked_at,
            )
        )

    async def add_findings(
        self, pipeline: str, findings: Sequence[OffsetFinding], *, now: datetime
    ) -> list[OffsetFinding]:
        """Store contradictions up to a bound (app/products/offset_log/keeping.py). Return those to report."""
        if not findings:
            return []
        # The lock serialises servers: two that check at once would both see room.
        found_in = await self._db.row(
            sa.select(pipelines.c.id).where(pipelines.c.name == pipeline).with_for_update(key_share=True)
        )
        if found_in is None:
            return []
        first, instead = keeping(findings, await self._known(found_in.id))
        table = offset_contradictions
        for one in instead:
            last = (
                sa.select(table.c.id)
                .where(table.c.pipeline_id == found_in.id, *_at(table, one))
                .order_by(table.c.found_at.desc(), table.c.start.desc())
                .limit(1)
            )
            await self._db.execute(sa.delete(table).where(table.c.id == last.scalar_subquery()))
        rows = [
            {
                "pipeline_id": found_in.id,
                "group_id": one.group,
                "topic": one.topic,
                "partition": one.partition,
                "kind": one.kind,
                "start": one.start,
                "found_at": now,
                "finding": msgspec.to_builtins(one),
            }
            for one in (*first, *instead)
        ]
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            await self._db.execute(postgresql.insert(table).values(rows[start : start + _ROWS_AT_ONCE]))
        return first

    async def _known(self, pipeline_id: str) -> dict[Place, KnownPartition]:
        table = offset_contradictions
        rows = await self._db.rows(
            sa.select(table.c.group_id, table.c.topic, table.c.partition, table.c.kind, table.c.start)
            .where(table.c.pipeline_id == pipeline_id)
            .order_by(table.c.found_at, table.c.start)
        )
        keys: dict[Place, list[tuple[ContradictionKind, int]]] = {}
        for row in rows:
            keys.setdefault((row.group_id, row.topic, row.partition), []).append(
                (ContradictionKind(row.kind), row.start)
            )
        return {place: KnownPartition(frozenset(of_place), of_place[-1]) for place, of_place in keys.items()}

    async def last_check(self, pipeline: str) -> CheckRecord | None:
        row = await self._db.row(
            sa.select(offset_checks.c.record)
            .join(pipelines, pipelines.c.id == offset_checks.c.pipeline_id)
            .where(pipelines.c.name == pipeline)
        )
        return None if row is None else msgspec.convert(row.record, CheckRecord, str_keys=True)

    async def findings(self, pipeline: str, *, limit: int) -> list[FindingRecord]:
        """Return the kept contradictions, newest first."""
        table = offset_contradictions
        rows = await self._db.rows(
            sa.select(table.c.id, table.c.found_at, table.c.finding)
            .join(pipelines, pipelines.c.id == table.c.pipeline_id)
            .where(pipelines.c.name == pipeline)
            .order_by(table.c.found_at.desc(), table.c.id)
            .limit(limit)
        )
        return [
            FindingRecord(id=row.id, found_at=row.found_at, finding=msgspec.convert(row.finding, OffsetFinding))
            for row in rows
        ]

    async def contradicted(self, *, since: datetime) -> dict[str, int]:
        """Return the number of contradictions found since then, by name of pipeline."""
        table = offset_contradictions
        rows = await self._db.rows(
            sa.select(pipelines.c.name, sa.func.count().label("found"))
            .join(pipelines, pipelines.c.id == table.c.pipeline_id)
            .where(table.c.found_at >= since)
            .group_by(pipelines.c.name)
        )
        return {row.name: row.found for row in rows}


def _at(table: sa.Table, one: OffsetFinding) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.group_id == one.group, table.c.topic == one.topic, table.c.partition == one.partition


def _heard(row: sa.Row[Any]) -> ReportedOffsets:
    return ReportedOffsets(
        group=row.group_id,
        topic=row.topic,
        partition=row.partition,
        teller=Teller(run=row.number, ordinal=row.ordinal, task=row.task, lease=row.lease, attempt=row.attempt),
        run_id=str(row.run_id),
        host=row.host,
        events=() if row.events is None else _EVENTS.decode(row.events),
        recorded=row.recorded,
        is_open=row.is_open,
        is_over=row.is_over,
        complete_at=row.complete_at,
        newest_at=row.newest_at,
        life=row.life,
    )
