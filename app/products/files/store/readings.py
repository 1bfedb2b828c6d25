"""Database store of the progress and the results of reading references."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.pipelines.tables import pipelines as pipelines_table
from app.core.pipelines.tables import revisions
from app.kit.db.store import DatabaseStore
from app.kit.storable import storable, storable_text
from app.products.files.reading import FileWatchState, Reception, TopicReading, WatchedPipeline
from app.products.files.tables.files import file_readings, file_watches
from app.products.files.totals import Total

_R = file_readings.c
_W = file_watches.c
_KEY = ("kafka_cluster_id", "topic", "partition")
_WORDS = ("problem", "stranger", "repetition")
_KEPT = TopicReading.__struct_fields__
_P = pipelines_table.c
_WATCHED = (
    sa.select(_P.name, _P.cluster, revisions.c.definition["sink_topic"].astext.label("sink_topic"))
    .join(revisions, (revisions.c.pipeline_id == _P.id) & (revisions.c.number == _P.current_revision))
    .where(sa.func.jsonb_typeof(revisions.c.definition["files"]) == "object")
    .order_by(_P.name)
)
# Each row only from its known position: another server that moved it has stored the references between.
_MOVE = sa.text(
    f"""
    UPDATE file_readings AS kept
    SET {", ".join(f"{name} = step.{name}" for name in _KEPT if name not in _KEY)}
    FROM jsonb_to_recordset(CAST(:steps AS jsonb)) AS step(
        kafka_cluster_id text, topic text, partition integer, was_topic_id text, was_offset bigint,
        topic_id text, next_offset bigint, end_offset bigint, begun_at timestamptz, begun_offset bigint,
        moved_at timestamptz, unread_offsets bigint, begun_again text)
    WHERE kept.pipeline_id = (SELECT id FROM pipelines WHERE name = :pipeline)
      AND (kept.kafka_cluster_id, kept.topic, kept.partition) = (step.kafka_cluster_id, step.topic, step.partition)
      AND (kept.topic_id, kept.next_offset) = (step.was_topic_id, step.was_offset)
    """  # noqa: S608 - the names are constants
)


class FileReadingStore(DatabaseStore):
    """The progress of reading, which advances in the transaction that stores the references."""

    async def watched(self) -> list[WatchedPipeline]:
        """Return the pipelines whose current revision has a file sink, ordered by name."""
        rows = await self._db.rows(_WATCHED)
        return [WatchedPipeline(row.name, row.cluster, row.sink_topic) for row in rows]

    async def readings(self, pipelines: Collection[str]) -> Mapping[str, Sequence[TopicReading]]:
        """Return the progress by pipeline, ordered by topic and partition."""
        rows = await self._db.rows(_readings().where(_P.name.in_(sorted(pipelines))))
        found: dict[str, list[TopicReading]] = {}
        for row in rows:
            found.setdefault(row.name, []).append(TopicReading(**{name: getattr(row, name) for name in _KEPT}))
        return found

    async def begin(self, pipeline: str, *, now: datetime) -> bool:
        """Create the pipeline's watch if missing, and lock it. Return false if the pipeline does not exist."""
        since = sa.literal(now, sa.DateTime(timezone=True))
        made = sa.select(_P.id, since, *(sa.literal("") for _ in _WORDS)).where(_P.name == pipeline)
        statement = postgresql.insert(file_watches).from_select(["pipeline_id", "since", *_WORDS], made)
        statement = statement.on_conflict_do_update(constraint="pk_file_watches", set_={"since": _W.since})
        return await self._db.row(statement.returning(_W.pipeline_id)) is not None

    async def move(self, pipeline: str, steps: Sequence[tuple[TopicReading | None, TopicReading]]) -> bool:
        """Advance the progress in steps (before, after); before None: not read yet.

        Return false if another server has moved one of them meanwhile. The transaction must be left then.
        """
        known = [_step(before, after) for before, after in steps if before is not None]
        if known:
            parameters = {"steps": msgspec.json.encode(known).decode(), "pipeline": pipeline}
            if (await self._db.execute(_MOVE, parameters)).rowcount < len(known):
                return False
        new = [msgspec.structs.asdict(storable(after)) for before, after in steps if before is None]
        if not new:
            return True
        pipeline_id = _id_of(pipeline)
        statement = postgresql.insert(file_readings).values([{"pipeline_id": pipeline_id, **row} for row in new])
        made = await self._db.rows(statement.on_conflict_do_nothing(constraint="pk_file_readings").returning(_R.topic))
        return len(made) == len(new)

    async def note_look(self, pipeline: str, total: Total, received: Reception, *, now: datetime) -> None:
        """Record an answer of the brokers with its content."""
        received = storable(received)
        words: dict[str, Any] = {name: word for name in ("stranger", "repetition") if (word := getattr(received, name))}
        if received.repeated:
            words["repeated_at"] = now
        counts = {
            **msgspec.structs.asdict(total),
            **{name: getattr(received, name) for name in ("strangers", "of_others", "repeated")},
        }
        await self._db.execute(
            sa.update(file_watches)
            .where(_W.pipeline_id == _id_of(pipeline))
            .values(
                looked_at=now,
                **{name: _W[name] + number for name, number in counts.items() if number},
                **words,
            )
        )

    async def note_problem(self, pipelines: Collection[str], problem: str, *, now: datetime) -> None:
        """Record the problem of reading these pipelines; empty: none. An existing problem keeps its time."""
        at = sa.literal(now, sa.DateTime(timezone=True))
        problem_at = at if problem else sa.cast(sa.null(), sa.DateTime(timezone=True))
        made = sa.select(_P.id, at, problem_at, sa.literal(storable_text(problem)), sa.literal(""), sa.literal(""))
        statement = postgresql.insert(file_watches).from_select(
            ["pipeline_id", "since", "problem_at", *_WORDS],
            # Rows are locked in the same order everywhere.
            made.where(_P.name.in_(sorted(pipelines))).order_by(_P.id),
        )
        await self._db.execute(
            statement.on_conflict_do_update(
                constraint="pk_file_watches",
                set_={
                    "problem": statement.excluded.problem,
                    "problem_at": sa.case(
                        (statement.excluded.problem == "", sa.null()),
                        else_=sa.func.coalesce(_W.problem_at, statement.excluded.problem_at),
                    ),
                },
            )
        )

    async def watches(self, pipelines: Collection[str]) -> Mapping[str, FileWatchState]:
        """Return the watches by pipeline."""
        rows = await self._db.rows(
            sa.select(file_watches, _P.name)
            .join(pipelines_table, _P.id == _W.pipeline_id)
            .where(_P.name.in_(sorted(pipelines)))
        )
        return {row.name: _watch(row) for row in rows}


def _watch(row: sa.Row[Any]) -> FileWatchState:
    total = Total(files=row.files, records=row.records, size_bytes=row.size_bytes)
    plain = {name: getattr(row, name) for name in FileWatchState.__struct_fields__ if name != "total"}
    return FileWatchState(total=total, **plain)


def _id_of(pipeline: str) -> sa.ScalarSelect[Any]:
    return sa.select(_P.id).where(_P.name == pipeline).scalar_subquery()


def _readings() -> sa.Select[Any]:
    return (
        sa.select(file_readings, _P.name)
        .join(pipelines_table, _P.id == _R.pipeline_id)
        .order_by(_P.name, _R.topic, _R.partition)
    )


def _step(before: TopicReading, after: TopicReading) -> dict[str, object]:
    step = msgspec.structs.asdict(storable(after))
    return {**step, "was_topic_id": before.topic_id, "was_offset": before.next_offset}
