"""The data of charts: samples of runs, and the rebalances beside them."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from app.core.pipelines.tables import pipelines
from app.core.runs.series import RunPoint, RunRebalance
from app.core.runs.store.runs import checked_uuid
from app.core.runs.tables.runs import runs
from app.core.runs.tables.tasks import run_samples, task_events
from app.core.runs.task import EventKind
from app.kit.db.store import DatabaseStore

_SAMPLE = sa.text(
    """
    INSERT INTO run_samples (run_id, at, records_in_per_s, records_out_per_s, commits_per_s, aborts_per_s,
                             commit_latency_p99_ms, lag_records)
    SELECT :run_id, date_trunc('second', CAST(:now AS timestamptz)),
           coalesce(sum((rates->>'records_in_per_s')::float8), 0),
           coalesce(sum((rates->>'records_out_per_s')::float8), 0),
           coalesce(sum((rates->>'commits_per_s')::float8), 0),
           coalesce(sum((rates->>'aborts_per_s')::float8), 0),
           max((report->>'commit_latency_p99_ms')::float8),
           least(9223372036854775807,
                 sum((SELECT sum(greatest(0, (p->>'end')::numeric
                                             - coalesce((p->>'committed')::numeric, (p->>'position')::numeric)))
                      FROM jsonb_array_elements(report->'partitions') AS p)))::bigint
    FROM (SELECT DISTINCT ON (ordinal, task) rates, report, received_at FROM task_attempts
          WHERE run_id = :run_id ORDER BY ordinal, task, lease DESC, attempt DESC) AS newest
    WHERE received_at > CAST(:now AS timestamptz) - CAST(:fresh_for AS interval)
      AND NOT EXISTS (SELECT FROM run_samples
                      WHERE run_id = :run_id AND at = date_trunc('second', CAST(:now AS timestamptz)))
    HAVING count(*) > 0
    ON CONFLICT DO NOTHING
    """
).bindparams(sa.bindparam("run_id", type_=sa.Uuid(as_uuid=False)))

_POINT = {
    "in_low": (sa.func.min, "records_in_per_s"),
    "in_high": (sa.func.max, "records_in_per_s"),
    "out_low": (sa.func.min, "records_out_per_s"),
    "out_high": (sa.func.max, "records_out_per_s"),
    "aborts": (sa.func.max, "aborts_per_s"),
}
"""The fields of `RunPoint`, by column."""


class SeriesStore(DatabaseStore):
    async def sample(self, run_id: str, *, now: datetime, fresh_for: timedelta) -> bool:
        """Write the run's sample of this second unless there is one; return whether it was written."""
        result = await self._db.execute(_SAMPLE, {"run_id": run_id, "now": now, "fresh_for": fresh_for})
        return result.rowcount > 0

    async def points(
        self, *, run_id: str | None = None, pipeline: str | None = None, since: datetime, until: datetime, step_s: int
    ) -> list[RunPoint]:
        """Return the rates of a run, of all runs of a pipeline, or of all pipelines; oldest first, at most one for each
        `step_s` seconds. Times without samples have none.
        """
        second = sa.func.floor(sa.extract("epoch", run_samples.c.at) / step_s) * step_s
        of_one = (
            sa.select(
                runs.c.pipeline_id,
                second.label("second"),
                *(worst(run_samples.c[column]).label(name) for name, (worst, column) in _POINT.items()),
            )
            .join(runs, runs.c.id == run_samples.c.run_id)
            .where(_is_in(run_samples.c.at, since, until), _ran_in(since, until, run_id=run_id, pipeline=pipeline))
            .group_by(runs.c.pipeline_id, second)
            .subquery()
            .c
        )
        at = sa.func.to_timestamp(of_one.second).label("at")
        sums = (sa.func.sum(of_one[name]).label(name) for name in _POINT)
        rows = await self._db.rows(sa.select(at, *sums).group_by(of_one.second).order_by(of_one.second))
        return [RunPoint(**{name: getattr(row, name) for name in RunPoint.__struct_fields__}) for row in rows]

    async def rebalances(
        self, *, run_id: str | None = None, pipeline: str | None = None, since: datetime, until: datetime, limit: int
    ) -> list[RunRebalance]:
        """Return the newest generations in which tasks were assigned partitions, oldest first."""
        columns = task_events.c
        began = sa.func.min(columns.at).label("at")
        task = sa.func.row(columns.ordinal, columns.task)
        rows = await self._db.rows(
            sa.select(began, columns.generation, sa.func.count(task.distinct()).label("tasks"))
            .join(runs, runs.c.id == columns.run_id)
            .where(
                _is_in(columns.at, since, until),
                _ran_in(since, until, run_id=run_id, pipeline=pipeline),
                columns.kind == EventKind.ASSIGNED,
                columns.generation.is_not(None),
            )
            .group_by(columns.run_id, columns.generation)
            .order_by(began.desc())
            .limit(limit)
        )
        return [RunRebalance(at=row.at, generation=row.generation, tasks=row.tasks) for row in reversed(rows)]


def _is_in(at: sa.ColumnElement[datetime], since: datetime, until: datetime) -> sa.ColumnElement[bool]:
    return (at >= since) & (at <= until)


def _ran_in(since: datetime, until: datetime, *, run_id: str | None, pipeline: str | None) -> sa.ColumnElement[bool]:
    """Select runs: those that ended earlier have nothing in the range, and need not be read."""
    if run_id is not None:
        return runs.c.id == checked_uuid(run_id)
    found = (runs.c.started_at < until) & (runs.c.ended_at.is_(None) | (runs.c.ended_at >= since))
    if pipeline is not None:
        found &= runs.c.pipeline_id == sa.select(pipelines.c.id).where(pipelines.c.name == pipeline).scalar_subquery()
    return found
