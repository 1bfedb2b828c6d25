"""Leases of instances."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.runs.instance import ENDED, Instance, InstanceOutcome, InstanceState
from app.core.runs.tables.runs import instances
from app.core.runs.tables.tasks import task_attempts
from app.kit.db.connection import Connection
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError

_newest_task_word = (
    sa.select(sa.func.max(task_attempts.c.received_at))
    .where(
        task_attempts.c.run_id == instances.c.run_id,
        task_attempts.c.ordinal == instances.c.ordinal,
        task_attempts.c.lease == instances.c.lease,
    )
    .correlate(instances)
    .scalar_subquery()
)
_SELECT = sa.select(
    instances, sa.func.greatest(instances.c.last_heartbeat_at, _newest_task_word).label("newest_word_at")
)
_CURRENT = _SELECT.ext(postgresql.distinct_on(instances.c.run_id, instances.c.ordinal)).order_by(
    instances.c.run_id, instances.c.ordinal, instances.c.lease.desc()
)


_TOUCH = sa.text(
    """
    UPDATE instances
    SET last_heartbeat_at = :now, executors = :executors, tasks_running = :tasks_running,
        tasks_waiting = :tasks_waiting, tasks_crashing = :tasks_crashing
    FROM (SELECT executors, tasks_running, tasks_waiting, tasks_crashing FROM instances
          WHERE run_id = :run_id AND ordinal = :ordinal AND lease = :lease) AS before
    WHERE run_id = :run_id AND ordinal = :ordinal AND lease = :lease
    RETURNING (before.executors, before.tasks_running, before.tasks_waiting, before.tasks_crashing)
        IS DISTINCT FROM (instances.executors, instances.tasks_running, instances.tasks_waiting,
                          instances.tasks_crashing)
    """
).bindparams(sa.bindparam("run_id", type_=sa.Uuid(as_uuid=False)))


class InstanceStore(DatabaseStore):
    async def add(self, instance: Instance) -> None:
        """Raises ConflictError while an earlier lease of the ordinal lives, or if the number does not grow."""
        await self._db.execute(
            sa.insert(instances).values(
                run_id=instance.run_id, ordinal=instance.ordinal, lease=instance.lease, **_values(instance)
            )
        )

    async def get(self, run_id: str, ordinal: int, lease: int, *, for_update: bool = False) -> Instance:
        where = _is(run_id, ordinal, lease)
        if for_update:
            await self._db.execute(sa.select(instances.c.lease).where(where).with_for_update(key_share=True))
        row = await self._db.row(_SELECT.where(where))
        if row is None:
            raise NotFoundError(f"run {run_id} has no lease {lease} of instance {ordinal}")
        return _instance(row)

    async def find_current(self, run_id: str, ordinal: int, *, for_update: bool = False) -> Instance | None:
        of_ordinal = (instances.c.run_id == run_id) & (instances.c.ordinal == ordinal)
        if for_update:
            await self._db.execute(sa.select(instances.c.lease).where(of_ordinal).with_for_update(key_share=True))
        row = await self._db.row(_CURRENT.where(of_ordinal))
        return None if row is None else _instance(row)

    async def list(self, run_id: str, *, with_history: bool) -> list[Instance]:
        """Return them by ordinal, then by falling lease; without history only the highest lease of each ordinal."""
        statement = _SELECT.order_by(instances.c.ordinal, instances.c.lease.desc()) if with_history else _CURRENT
        return [_instance(row) for row in await self._db.rows(statement.where(instances.c.run_id == run_id))]

    async def ended_since(self, moment: datetime) -> Sequence[Instance]:
        """Return claimed leases of all runs that have ended since then, oldest first."""
        rows = await self._db.rows(
            _SELECT.where(
                instances.c.state.in_(sorted(ENDED)),
                instances.c.since >= moment,
                instances.c.claimed_at.is_not(None),
            ).order_by(instances.c.since)
        )
        return [_instance(row) for row in rows]

    async def save(self, instance: Instance) -> None:
        """Write every column except the newest heartbeat's, which `touch` writes."""
        await self._db.execute(
            sa.update(instances)
            .where(_is(instance.run_id, instance.ordinal, instance.lease))
            .values(**_values(instance))
        )

    async def touch(
        self,
        *,
        run_id: str,
        ordinal: int,
        lease: int,
        now: datetime,
        executors: int,
        tasks_running: int,
        tasks_waiting: int,
        tasks_crashing: int,
    ) -> bool:
        """Write the report of a driver's heartbeat, and return whether it differs; one statement, once a second."""
        row = await self._db.row(
            _TOUCH,
            {
                "run_id": run_id,
                "ordinal": ordinal,
                "lease": lease,
                "now": now,
                "executors": executors,
                "tasks_running": tasks_running,
                "tasks_waiting": tasks_waiting,
                "tasks_crashing": tasks_crashing,
            },
        )
        return row is not None and bool(row[0])


async def current_instances(db: Connection, run_ids: Sequence[str]) -> dict[str, list[Instance]]:
    """Return the current lease of each ordinal of each run, by ordinal; for stores that show a run with them."""
    found: dict[str, list[Instance]] = {}
    if run_ids:
        for row in await db.rows(_CURRENT.where(instances.c.run_id.in_(run_ids))):
            found.setdefault(row.run_id, []).append(_instance(row))
    return found


def _is(run_id: str, ordinal: int, lease: int) -> sa.ColumnElement[bool]:
    return (instances.c.run_id == run_id) & (instances.c.ordinal == ordinal) & (instances.c.lease == lease)


_PLAIN = (
    "revision",
    "state",
    "since",
    "leased_at",
    "reason",
    "application_id",
    "host",
    "jvm_pid",
    "python_pid",
    "process_started_at",
    "log_path",
    "submitted_at",
    "claimed_at",
    "missing_since",
    "drain_signalled_at",
    "killed_at",
    "failures",
)
"""Columns that are written as the record has them. The columns of `touch` are left out: a save must not undo it."""


def _values(instance: Instance) -> dict[str, Any]:
    outcome = instance.outcome
    return {
        **{name: getattr(instance, name) for name in _PLAIN},
        "outcome_kind": None if outcome is None else outcome.kind,
        "outcome_message": None if outcome is None else outcome.message,
        "outcome_at": None if outcome is None else outcome.at,
    }


def _instance(row: sa.Row[Any]) -> Instance:
    plain = {name: getattr(row, name) for name in _PLAIN if name != "state"}
    return Instance(
        run_id=row.run_id,
        ordinal=row.ordinal,
        lease=row.lease,
        state=InstanceState(row.state),
        executors=row.executors,
        tasks_running=row.tasks_running,
        tasks_waiting=row.tasks_waiting,
        tasks_crashing=row.tasks_crashing,
        last_heartbeat_at=row.newest_word_at,
        outcome=None
        if row.outcome_kind is None
        else InstanceOutcome(kind=row.outcome_kind, message=row.outcome_message or "", at=row.outcome_at),
        **plain,
    )
