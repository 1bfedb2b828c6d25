"""Attempts of tasks, their events and totals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.pipelines.tables import pipelines
from app.core.runs.bad_records import BadCause, BadMinute, BadRecordSummary, summary_of
from app.core.runs.instance import ENDED
from app.core.runs.lease_context import LeaseContext
from app.core.runs.number_bounds import LARGEST
from app.core.runs.observation import ReportedProcess
from app.core.runs.series import RunTotals
from app.core.runs.store.lease_context import LEASE_CONTEXT, lease_context
from app.core.runs.store.runs import checked_uuid, cursor_moment
from app.core.runs.tables.runs import instances, runs
from app.core.runs.tables.tasks import expired_totals, task_attempts, task_events
from app.core.runs.task import EventKind, TaskEventRecord, TaskRates, TaskReport, TaskState, TaskStatus, ZombieSighting
from app.kit.db.store import DatabaseStore
from app.kit.page import Page, decode_cursor, encode_cursor

_T = task_attempts.c
_UNREMARKABLE = (EventKind.ASSIGNED, EventKind.REVOKED)

_COUNTED = sa.union_all(
    sa.select(
        _T.run_id,
        *(
            sa.func.greatest(0, _T.report["counters"][name].as_string().cast(sa.Numeric)).label(name)
            for name in RunTotals.__struct_fields__
        ),
    ),
    sa.select(expired_totals),
).subquery()
_LARGEST = sa.cast(LARGEST, sa.Numeric)
_TOTALS = sa.select(
    _COUNTED.c.run_id,
    # The sum of many 63-bit numbers does not fit.
    *(
        sa.func.least(_LARGEST, sa.func.sum(_COUNTED.c[name])).cast(sa.BigInteger).label(name)
        for name in RunTotals.__struct_fields__
    ),
).group_by(_COUNTED.c.run_id)


def _record() -> sa.Insert:
    """Return the statement of each heartbeat. To make it takes longer than to send it."""
    statement = postgresql.insert(task_attempts)
    new = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=["run_id", "ordinal", "task", "lease", "attempt"],
        set_={
            **{name: new[name] for name in ("sequence", "state", "state_since", "received_at", "report", "rates")},
            "zombie_heartbeats": _T.zombie_heartbeats + new.zombie_heartbeats,
            "zombie_first_seen_at": sa.func.coalesce(_T.zombie_first_seen_at, new.zombie_first_seen_at),
            "zombie_last_seen_at": sa.func.coalesce(new.zombie_last_seen_at, _T.zombie_last_seen_at),
        },
        where=_T.sequence < new.sequence,
    ).returning(_T.attempt)


_RECORD = _record()


class TaskStore(DatabaseStore):
    """One row an attempt: a lower attempt writes its own and cannot overwrite another; the highest is the task."""

    async def lease_context(
        self, *, run_id: str, ordinal: int, lease: int, task: int | None = None, attempt: int | None = None
    ) -> LeaseContext | None:
        """Return None if there is no such lease."""
        row = await self._db.row(
            LEASE_CONTEXT,
            {"run_id": run_id, "ordinal": ordinal, "lease": lease, "task": task, "attempt": attempt},
        )
        return None if row is None else lease_context(row)

    async def record(self, status: TaskStatus, *, is_zombie: bool) -> bool:
        """Write the attempt's row unless it has a later sequence; return whether it was written. A zombie is
        counted.
        """
        last = status.last
        seen_at = status.received_at if is_zombie else None
        written = await self._db.row(
            _RECORD,
            {
                "run_id": last.run_id,
                "ordinal": last.ordinal,
                "task": last.task,
                "lease": last.lease,
                "attempt": last.attempt,
                "sequence": last.sequence,
                "state": last.state,
                "state_since": status.state_since,
                "received_at": status.received_at,
                "report": msgspec.to_builtins(last),
                "rates": msgspec.to_builtins(status.rates),
                "zombie_heartbeats": int(is_zombie),
                "zombie_first_seen_at": seen_at,
                "zombie_last_seen_at": seen_at,
            },
        )
        return written is not None

    async def add_events(self, events: Sequence[TaskEventRecord]) -> None:
        """Store events; those that are stored already are not changed."""
        if events:
            await self._db.execute(
                postgresql.insert(task_events)
                # In one order everywhere, so that two deliveries of the same events do not deadlock.
                .values([_event_row(event) for event in sorted(events, key=lambda event: event.event_id)])
                .on_conflict_do_nothing(index_elements=["run_id", "event_id"])
            )

    async def states_of_instance(self, *, run_id: str, ordinal: int, lease: int) -> list[TaskState]:
        rows = await self._db.rows(
            sa.select(_T.state)
            .ext(postgresql.distinct_on(_T.task))
            .where(_T.run_id == run_id, _T.ordinal == ordinal, _T.lease == lease)
            .order_by(_T.task, _T.attempt.desc())
        )
        return [TaskState(row.state) for row in rows]

    async def left_by_lease(self, *, run_id: str, ordinal: int, lease: int) -> list[TaskReport]:
        """Return, by task, the last reports of two attempts, which may be the same.

        They are the newest one that named a transactional id with its producer, and the newest one that named a member.
        """
        of_lease = _is_of(run_id, ordinal, lease)
        newest = sa.select(_T.task, _T.attempt, _T.report).ext(postgresql.distinct_on(_T.task))
        in_turn = (_T.task, _T.attempt.desc())
        producers = newest.where(
            of_lease,
            _T.report["transactional_id"].as_string().is_not(None),
            _T.report["producer_epoch"].as_string().is_not(None),
        ).order_by(*in_turn)
        members = newest.where(of_lease, _T.report["member_id"].as_string().is_not(None)).order_by(*in_turn)
        found = {(row.task, row.attempt): row for one in (producers, members) for row in await self._db.rows(one)}
        return [msgspec.convert(found[at].report, TaskReport) for at in sorted(found)]

    async def report_of_attempt(
        self, *, run_id: str, ordinal: int, lease: int, task: int, attempt: int
    ) -> TaskReport | None:
        """Return its last report; None before the first one."""
        this = _is_of(run_id, ordinal, lease) & (_T.task == task) & (_T.attempt == attempt)
        row = await self._db.row(sa.select(_T.report).where(this))
        return None if row is None else msgspec.convert(row.report, TaskReport)

    async def processes_on(self, host: str) -> list[ReportedProcess]:
        """Return the process of the newest attempt of each task of live leases whose driver is on this host, too."""
        rows = await self._db.rows(
            sa.select(
                _T.run_id,
                _T.ordinal,
                _T.lease,
                _T.task,
                _T.attempt,
                _T.report["pid"].as_integer().label("pid"),
                _T.report["sent_at_ms"].as_string().cast(sa.BigInteger).label("sent_at_ms"),
                instances.c.application_id,
                instances.c.log_path,
            )
            .ext(postgresql.distinct_on(_T.run_id, _T.ordinal, _T.lease, _T.task))
            .join(
                instances,
                (instances.c.run_id == _T.run_id)
                & (instances.c.ordinal == _T.ordinal)
                & (instances.c.lease == _T.lease),
            )
            .where(
                instances.c.state.not_in(sorted(ENDED)),
                instances.c.host == host,
                _T.report["host"].as_string() == host,
            )
            .order_by(_T.run_id, _T.ordinal, _T.lease, _T.task, _T.attempt.desc())
        )
        return [
            ReportedProcess(**{name: getattr(row, name) for name in ReportedProcess.__struct_fields__}) for row in rows
        ]

    async def reports_of_run(self, run_id: str) -> list[TaskReport]:
        """Return the last report of every stored attempt of every lease."""
        rows = await self._db.rows(
            sa.select(_T.report).where(_T.run_id == run_id).order_by(_T.ordinal, _T.lease, _T.task, _T.attempt)
        )
        return [msgspec.convert(row.report, TaskReport) for row in rows]

    async def list_statuses(self, run_ids: Sequence[str]) -> list[TaskStatus]:
        """Return them by run, ordinal and task."""
        if not run_ids:
            return []
        return [_status(row) for row in await self._db.rows(_newest(run_ids))]

    async def list_not_progressing(self, run_ids: Sequence[str]) -> list[TaskStatus]:
        """Return the tasks of these runs that report that they commit nothing, without their partitions."""
        if not run_ids:
            return []
        newest = _newest(run_ids).subquery().c
        # Reports with many partitions are large, and few have this field: the others are not even decoded.
        without = newest.report.op("||")(sa.cast({"partitions": []}, postgresql.JSONB)).label("report")
        rows = await self._db.rows(
            sa.select(without, newest.rates, newest.received_at, newest.state_since)
            .where(newest.report["not_progressing_ms"].as_string().is_not(None))
            .order_by(newest.run_id, newest.ordinal, newest.task)
        )
        return [_status(row) for row in rows]

    async def list_events(self, run_id: str, *, after: str | None, limit: int) -> Page[TaskEventRecord]:
        """List them newest first."""
        statement = (
            sa.select(task_events)
            .where(task_events.c.run_id == checked_uuid(run_id))
            .order_by(task_events.c.at.desc(), task_events.c.event_id.desc())
            .limit(limit + 1)
        )
        if after is not None:
            at, event_id = decode_cursor(after, keys=2)
            statement = statement.where(
                sa.tuple_(task_events.c.at, task_events.c.event_id)
                < sa.tuple_(sa.literal(cursor_moment(at)), sa.literal(event_id))
            )
        rows = await self._db.rows(statement)
        items = tuple(_event(row) for row in rows[:limit])
        more = len(rows) > limit
        return Page(
            items=items, next_cursor=encode_cursor(items[-1].at.isoformat(), items[-1].event_id) if more else None
        )

    async def recent_events(self, *, pipeline: str | None, limit: int) -> list[tuple[str, TaskEventRecord]]:
        """Return (pipeline, event), newest first: all of one pipeline's, or those of all without plain assignments."""
        statement = (
            sa.select(task_events, pipelines.c.name)
            .join(runs, runs.c.id == task_events.c.run_id)
            .join(pipelines, pipelines.c.id == runs.c.pipeline_id)
            .order_by(task_events.c.at.desc(), task_events.c.event_id.desc())
            .limit(limit)
        )
        if pipeline is None:
            # Among many pipelines assignments are constant noise; on one pipeline's page they are part of its history.
            statement = statement.where(task_events.c.kind.not_in(_UNREMARKABLE))
        else:
            statement = statement.where(pipelines.c.name == pipeline)
        return [(row.name, _event(row)) for row in await self._db.rows(statement)]

    async def bad_records(self, run_id: str, *, now: datetime) -> BadRecordSummary:
        """Return the sum over all stored attempts of the run."""
        causes, minutes = _T.report["bad_records"], _T.report["bad_minutes"]
        rows = await self._db.rows(
            sa.select(causes.label("causes"), minutes.label("minutes")).where(
                _T.run_id == checked_uuid(run_id),
                # Null in reports of older releases. Most attempts have none, and are not decoded.
                sa.func.coalesce(sa.func.jsonb_array_length(causes), 0) > 0,
            )
        )
        return summary_of(
            (one for row in rows for one in msgspec.convert(row.causes, list[BadCause])),
            (one for row in rows for one in msgspec.convert(row.minutes or [], list[BadMinute])),
            now_ms=int(now.timestamp() * 1000),
        )

    async def list_zombies(self, run_id: str) -> list[ZombieSighting]:
        rows = await self._db.rows(
            sa.select(task_attempts)
            .where(_T.run_id == run_id, _T.zombie_heartbeats > 0)
            .order_by(_T.zombie_last_seen_at.desc())
        )
        return [
            ZombieSighting(
                run_id=row.run_id,
                ordinal=row.ordinal,
                lease=row.lease,
                task=row.task,
                attempt=row.attempt,
                host=row.report["host"],
                pid=row.report["pid"],
                state=TaskState(row.state),
                first_seen_at=row.zombie_first_seen_at,
                last_seen_at=row.zombie_last_seen_at,
                heartbeats=row.zombie_heartbeats,
            )
            for row in rows
        ]

    async def totals(self, run_ids: Sequence[str]) -> dict[str, RunTotals]:
        """Return sums over all attempts, ended ones included."""
        if not run_ids:
            return {}
        rows = await self._db.rows(_TOTALS.where(_COUNTED.c.run_id.in_(run_ids)))
        return {
            row.run_id: RunTotals(**{name: getattr(row, name) or 0 for name in RunTotals.__struct_fields__})
            for row in rows
        }


def _is_of(run_id: str, ordinal: int, lease: int) -> sa.ColumnElement[bool]:
    return (_T.run_id == run_id) & (_T.ordinal == ordinal) & (_T.lease == lease)


def _event_row(event: TaskEventRecord) -> dict[str, Any]:
    return {**msgspec.structs.asdict(event), "partitions": list(event.partitions)}


def _event(row: sa.Row[Any]) -> TaskEventRecord:
    values: dict[str, Any] = {name: getattr(row, name) for name in TaskEventRecord.__struct_fields__}
    values |= {"kind": EventKind(row.kind), "partitions": tuple(row.partitions)}
    return TaskEventRecord(**values)


def _newest(run_ids: Sequence[str]) -> sa.Select[*tuple[Any, ...]]:
    """Select the newest attempt of each task, by run, ordinal and task."""
    return (
        sa.select(_T.run_id, _T.ordinal, _T.task, _T.report, _T.rates, _T.received_at, _T.state_since)
        .ext(postgresql.distinct_on(_T.run_id, _T.ordinal, _T.task))
        .where(_T.run_id.in_(run_ids))
        .order_by(_T.run_id, _T.ordinal, _T.task, _T.lease.desc(), _T.attempt.desc())
    )


def _status(row: sa.Row[Any]) -> TaskStatus:
    return TaskStatus(
        last=msgspec.convert(row.report, TaskReport),
        received_at=row.received_at,
        state_since=row.state_since,
        rates=msgspec.convert(row.rates, TaskRates),
    )
