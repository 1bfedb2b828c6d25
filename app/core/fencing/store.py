"""Fencing events: one row for each loss, reported by any number of servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.fencing.evidence import Evidence, LeaseWord
from app.core.fencing.fencing_event import (
    Confidence,
    FencingCause,
    FencingEvent,
    FencingKey,
    FencingKind,
    FencingVerdict,
)
from app.core.fencing.record import Correction, FencingFilter, FencingPlace, FencingRecord, kept_id
from app.core.fencing.tables import fencing_counts, fencing_events
from app.core.runs.store.runs import as_uuid, cursor_id, cursor_moment
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError
from app.kit.page import Page, decode_cursor, encode_cursor
from app.kit.storable import moment_of_ms

_T = fencing_events
_LOSS = sa.tuple_(_T.c.kafka_cluster_id, _T.c.transactional_id, _T.c.producer_id, _T.c.producer_epoch, _T.c.kind)
_PLACE = sa.text(
    """
    SELECT pipelines.name AS pipeline, pipelines.group_id, transactional_ids.ordinal, transactional_ids.task,
           held.run_id, held.lease, held.attempt, held.host
    FROM transactional_ids
    JOIN pipelines ON pipelines.id = transactional_ids.pipeline_id
    LEFT JOIN LATERAL (
        SELECT attempts.run_id, attempts.lease, attempts.attempt, attempts.report->>'host' AS host
        FROM runs JOIN task_attempts AS attempts ON attempts.run_id = runs.id
        WHERE runs.pipeline_id = pipelines.id
          AND attempts.ordinal = transactional_ids.ordinal AND attempts.task = transactional_ids.task
          AND (attempts.report->>'producer_id')::bigint = :producer_id
          AND (attempts.report->>'producer_epoch')::int = :producer_epoch
        ORDER BY attempts.received_at DESC LIMIT 1
    ) AS held ON true
    WHERE transactional_ids.kafka_cluster_id = :kafka_cluster_id
      AND transactional_ids.transactional_id = :transactional_id
    """
).columns(run_id=sa.Uuid(as_uuid=False))


_LEASES = sa.text(
    """
    SELECT pipelines.name AS pipeline, instances.run_id, instances.ordinal, instances.lease, instances.host,
           instances.claimed_at,
           CASE WHEN instances.state IN ('stopped', 'failed', 'lost') THEN instances.since END AS ended_at
    FROM transactional_ids
    JOIN pipelines ON pipelines.id = transactional_ids.pipeline_id
    JOIN runs ON runs.pipeline_id = pipelines.id
    JOIN instances ON instances.run_id = runs.id AND instances.ordinal = transactional_ids.ordinal
    JOIN revisions ON revisions.pipeline_id = pipelines.id AND revisions.number = instances.revision
    WHERE transactional_ids.kafka_cluster_id = :kafka_cluster_id
      AND transactional_ids.transactional_id = :transactional_id
      AND revisions.definition->'transform'->>'kind' = 'dataframe'
      AND instances.claimed_at <= :until
    ORDER BY instances.claimed_at DESC LIMIT 4
    """
).columns(run_id=sa.Uuid(as_uuid=False))


class FencingStore(DatabaseStore):
    async def evidence_of(self, keys: Collection[FencingKey]) -> dict[FencingKey, tuple[Evidence, ...]]:
        """Return the stored evidence of those keys that have an event, without a lock."""
        if not keys:
            return {}
        rows = await self._db.rows(sa.select(_T).where(_LOSS.in_([msgspec.structs.astuple(key) for key in keys])))
        return {_key(row): _record(row).event.evidence for row in rows}

    async def find(self, key: FencingKey, *, for_update: bool = False) -> FencingRecord | None:
        statement = sa.select(_T).where(sa.tuple_(*(sa.literal(one) for one in msgspec.structs.astuple(key))) == _LOSS)
        row = await self._db.row(statement.with_for_update(key_share=True) if for_update else statement)
        return None if row is None else _record(row)

    async def add(self, event: FencingEvent, *, place: FencingPlace, now: datetime) -> bool:
        """Store a new event; False if another server was first, which has committed by then."""
        statement = (
            postgresql.insert(_T)
            .values(
                **msgspec.structs.asdict(event.key),
                **_values(event, place),
                corrections=[],
                told_at=now,
                changed_at=now,
            )
            .on_conflict_do_nothing(constraint="uq_fencing_events_loss")
            .returning(_T.c.id)
        )
        return await self._db.row(statement) is not None

    async def change(
        self,
        record_id: str,
        event: FencingEvent,
        *,
        place: FencingPlace,
        corrections: tuple[Correction, ...],
        now: datetime,
    ) -> None:
        await self._db.execute(
            sa.update(_T)
            .where(_T.c.id == record_id)
            .values(**_values(event, place), corrections=msgspec.to_builtins(corrections), changed_at=now)
        )

    async def get(self, record_id: str) -> FencingRecord:
        wanted = as_uuid(record_id)
        row = None if wanted is None else await self._db.row(sa.select(_T).where(_T.c.id == wanted))
        if row is None:
            raise NotFoundError(f"the fencing event {record_id} does not exist; events are kept for 30 days")
        return _record(row)

    async def list(self, wanted: FencingFilter, *, after: str | None, limit: int) -> Page[FencingRecord]:
        """Newest first, by the time of the event."""
        statement = sa.select(_T).where(*_matching(wanted)).order_by(_T.c.at.desc(), _T.c.id.desc()).limit(limit + 1)
        if after is not None:
            at, record_id = decode_cursor(after, keys=2)
            last = sa.tuple_(sa.literal(cursor_moment(at)), sa.literal(cursor_id(record_id), _T.c.id.type))
            statement = statement.where(sa.tuple_(_T.c.at, _T.c.id) < last)
        rows = await self._db.rows(statement)
        items = tuple(_record(row) for row in rows[:limit])
        cursor = encode_cursor(rows[limit - 1].at.isoformat(), items[-1].id) if len(rows) > limit else None
        return Page(items=items, next_cursor=cursor)

    async def count_by_cause(self, wanted: FencingFilter) -> dict[FencingCause, int]:
        """How many of each cause match; causes without any are left out."""
        counted = sa.select(_T.c.cause, sa.func.count().label("events")).where(*_matching(wanted)).group_by(_T.c.cause)
        counts: Counter[FencingCause] = Counter()
        for row in await self._db.rows(counted):
            counts[_cause(row.cause)] += row.events
        return dict(counts)

    async def add_told(self, told: Mapping[tuple[str, FencingCause], int]) -> None:
        """Count so many more events of these Kafka clusters and causes; locks their counts until the end."""
        rows = [
            {"kafka_cluster_id": cluster, "cause": cause, "told": number}
            for (cluster, cause), number in sorted(told.items())
        ]
        counted = postgresql.insert(fencing_counts).values(rows)
        await self._db.execute(
            counted.on_conflict_do_update(
                constraint="pk_fencing_counts", set_={"told": fencing_counts.c.told + counted.excluded.told}
            )
        )

    async def told(self) -> dict[tuple[str, FencingCause], int]:
        """Return the number of events with each cause, by Kafka cluster; a corrected event counts under each of its
        causes.
        """
        rows = await self._db.rows(sa.select(fencing_counts))
        told: Counter[tuple[str, FencingCause]] = Counter()
        for row in rows:
            told[row.kafka_cluster_id, _cause(row.cause)] += row.told
        return dict(told)

    async def place_of_producer(self, key: FencingKey) -> FencingPlace:
        """Return the producer's owner: its id's pipeline and task, and the attempt that last reported this producer."""
        row = await self._db.row(
            _PLACE,
            {
                "kafka_cluster_id": key.kafka_cluster_id,
                "transactional_id": key.transactional_id,
                "producer_id": key.producer_id,
                "producer_epoch": key.producer_epoch,
            },
        )
        return FencingPlace() if row is None else _place(row)

    async def leases_of_query(self, key: FencingKey, *, until: datetime) -> tuple[LeaseWord, ...]:
        """Return the newest leases that drivers had claimed by then, if the id is one of a query's writers."""
        asked = {"kafka_cluster_id": key.kafka_cluster_id, "transactional_id": key.transactional_id, "until": until}
        return tuple(
            LeaseWord(
                pipeline=row.pipeline,
                run_id=row.run_id,
                ordinal=row.ordinal,
                lease=row.lease,
                at_ms=_ms(row.claimed_at),
                ended_ms=None if row.ended_at is None else _ms(row.ended_at),
                host=row.host or "",
            )
            for row in await self._db.rows(_LEASES, asked)
        )


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _matching(wanted: FencingFilter) -> list[sa.ColumnElement[bool]]:
    conditions = [
        _T.c[name] == value
        for name in ("kafka_cluster_id", "pipeline", "cause")
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.transactional_id is not None:
        conditions.append(_T.c.transactional_id == kept_id(wanted.transactional_id))
    if wanted.of_group is not None:
        kept = [kept_id(name) for name in wanted.of_group.transactional_ids]
        ids = sa.func.any(sa.literal(kept, postgresql.ARRAY(sa.Text)))
        conditions.append((_T.c.group_id == wanted.of_group.group_id) | (_T.c.transactional_id == ids))
    if wanted.since is not None:
        conditions.append(_T.c.at >= wanted.since)
    if wanted.until is not None:
        conditions.append(_T.c.at < wanted.until)
    if not wanted.with_what_is_none:
        conditions.append(_T.c.is_fencing)
    return conditions


def _values(event: FencingEvent, place: FencingPlace) -> dict[str, Any]:
    verdict = event.verdict
    return {
        "cause": verdict.cause,
        "confidence": verdict.confidence,
        "is_fencing": verdict.cause.is_fencing,
        "at": moment_of_ms(verdict.at_ms),
        "verdict": msgspec.to_builtins(verdict),
        "evidence": msgspec.to_builtins(event.evidence),
        **msgspec.structs.asdict(place),
        "partitions": list(place.partitions),
    }


def _key(row: sa.Row[Any]) -> FencingKey:
    return FencingKey(
        kafka_cluster_id=row.kafka_cluster_id,
        transactional_id=row.transactional_id,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        kind=FencingKind(row.kind),
    )


def _place(row: sa.Row[Any]) -> FencingPlace:
    """Without the partitions, which only stored events have."""
    return FencingPlace(
        pipeline=row.pipeline,
        group_id=row.group_id,
        run_id=row.run_id,
        ordinal=row.ordinal,
        lease=row.lease,
        task=row.task,
        attempt=row.attempt,
        host=row.host,
    )


def _cause(word: str) -> FencingCause:
    """While servers of two releases run, the newer one may write a cause that this one does not know."""
    return FencingCause(word) if word in set(FencingCause) else FencingCause.UNEXPLAINED


def _record(row: sa.Row[Any]) -> FencingRecord:
    evidence: tuple[Evidence, ...] = ()
    corrections: tuple[Correction, ...] = ()
    is_foreign = False
    try:
        verdict = msgspec.convert(row.verdict, FencingVerdict)
        evidence = msgspec.convert(row.evidence, tuple[Evidence, ...])
        corrections = msgspec.convert(row.corrections, tuple[Correction, ...])
    except msgspec.ValidationError:
        is_foreign = True
        verdict = FencingVerdict(
            cause=_cause(row.cause),
            confidence=Confidence.OPEN,
            at_ms=_ms(row.at),
            sentence=f"{row.verdict['sentence']} (a newer release of Fenceline has written this, as {row.cause})",
        )
    return FencingRecord(
        id=row.id,
        event=FencingEvent(key=_key(row), verdict=verdict, evidence=evidence),
        place=msgspec.structs.replace(_place(row), partitions=tuple(row.partitions)),
        corrections=corrections,
        told_at=row.told_at,
        changed_at=row.changed_at,
        is_foreign=is_foreign,
    )
