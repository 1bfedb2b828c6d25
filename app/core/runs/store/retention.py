"""Removal of old rows."""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa

from app.core.access.tables.access import idempotency_keys, one_time_links, sessions
from app.core.alerts.tables import webhook_deliveries
from app.core.fencing.record import KEPT_FOR
from app.core.fencing.tables import fencing_events
from app.core.hanging.record import KEPT_FOR as HANGING_KEPT_FOR
from app.core.hanging.tables import hanging_transactions
from app.core.mappings.mapping import HISTORY_KEPT_FOR
from app.core.mappings.tables import id_counts, partition_ownerships
from app.core.runs.number_bounds import LARGEST
from app.core.runs.series import RunTotals
from app.core.runs.tables.tasks import run_samples, task_events
from app.kit.chart_range import FINE_FOR
from app.kit.db.store import DatabaseStore

THINNED_FOR = timedelta(hours=6)
"""Thinning begins this far back: samples that no server has thinned by then stay until they expire."""
SAMPLES_FOR = timedelta(days=14)
KEYS_FOR = timedelta(hours=24)
EVENTS_FOR = timedelta(days=30)
SESSIONS_FOR = timedelta(days=7)
DELIVERIES_FOR = timedelta(days=14)
ATTEMPTS_FOR = EVENTS_FOR
FINE_COUNTS_FOR = timedelta(hours=6)
COUNTS_FOR = timedelta(days=90)

_COUNTERS = RunTotals.__struct_fields__
# The sum always fits into its column, with any reported number: else no row of any pipeline would expire any more.
_TOLD = "least({largest}, coalesce(sum(greatest(0, (counters->>'{name}')::numeric)), 0))::bigint"
_ADDED = "{name} = least({largest}, expired_totals.{name}::numeric + excluded.{name})::bigint"
# Numbered in one pass, without a join: a run has tens of thousands, and Postgres chose to join all with all. That takes
# longer than the statement timeout.
_THIN_SAMPLES = sa.text(
    """
    DELETE FROM run_samples AS old USING (
        SELECT run_id, at, aborts_per_s,
               row_number() OVER (each_minute ORDER BY records_in_per_s DESC, at) AS most_in,
               row_number() OVER (each_minute ORDER BY records_in_per_s, at) AS least_in,
               row_number() OVER (each_minute ORDER BY records_out_per_s DESC, at) AS most_out,
               row_number() OVER (each_minute ORDER BY aborts_per_s DESC, at) AS most_aborts
        FROM run_samples WHERE at >= date_trunc('minute', CAST(:since AS timestamptz)) AND at < :before
        WINDOW each_minute AS (PARTITION BY run_id, date_trunc('minute', at))) AS placed
    WHERE least(most_in, least_in, most_out) > 1 AND (most_aborts > 1 OR placed.aborts_per_s = 0)
      AND (old.run_id, old.at) = (placed.run_id, placed.at)
    """
)
_THIN_COUNTS = sa.text(
    """
    DELETE FROM id_counts AS old USING (
        SELECT kafka_cluster_id, at,
               row_number() OVER (PARTITION BY kafka_cluster_id, date_trunc('hour', at) ORDER BY at) AS place
        FROM id_counts WHERE at < :before) AS placed
    WHERE placed.place > 1 AND (old.kafka_cluster_id, old.at) = (placed.kafka_cluster_id, placed.at)
    """
)
"""The first count of each hour stays, and of each minute the samples with a highest or lowest rate: one to four."""
_EXPIRE_ATTEMPTS = sa.text(
    f"""
    WITH gone AS (
        DELETE FROM task_attempts AS old
        WHERE received_at < :before AND EXISTS (
            SELECT FROM task_attempts AS newer
            WHERE (newer.run_id, newer.ordinal, newer.task) = (old.run_id, old.ordinal, old.task)
              AND (newer.lease, newer.attempt) > (old.lease, old.attempt))
        RETURNING run_id, report->'counters' AS counters
    ), kept AS (
        INSERT INTO expired_totals (run_id, {", ".join(_COUNTERS)})
        SELECT run_id, {", ".join(_TOLD.format(name=name, largest=LARGEST) for name in _COUNTERS)}
        FROM gone GROUP BY run_id
        ON CONFLICT (run_id) DO UPDATE
        SET {", ".join(_ADDED.format(name=name, largest=LARGEST) for name in _COUNTERS)}
    )
    SELECT count(*) FROM gone
    """  # noqa: S608 - names of our own fields
)
"""Attempts with a successor, all but their counters. A task's newest attempt *is* the task, and stays."""


class RetentionStore(DatabaseStore):
    async def thin_samples(self, *, now: datetime) -> int:
        """Reduce samples older than an hour to the extremes of each minute; return how many were removed."""
        before = now - FINE_FOR
        result = await self._db.execute(_THIN_SAMPLES, {"since": before - THINNED_FOR, "before": before})
        return result.rowcount

    async def expire(self, *, now: datetime) -> dict[str, int]:
        """Remove core's old rows (idempotency keys, sessions, links, old events); the number of them by table."""
        statements = {
            "idempotency_keys": sa.delete(idempotency_keys).where(idempotency_keys.c.created_at < now - KEYS_FOR),
            "one_time_links": sa.delete(one_time_links).where(one_time_links.c.expires_at < now - SESSIONS_FOR),
            "sessions": sa.delete(sessions).where(
                sa.or_(sessions.c.expires_at < now - SESSIONS_FOR, sessions.c.revoked_at < now - SESSIONS_FOR)
            ),
            "run_samples": sa.delete(run_samples).where(run_samples.c.at < now - SAMPLES_FOR),
            "task_events": sa.delete(task_events).where(task_events.c.at < now - EVENTS_FOR),
            "fencing_events": sa.delete(fencing_events).where(fencing_events.c.at < now - KEPT_FOR),
            "hanging_transactions": sa.delete(hanging_transactions).where(
                hanging_transactions.c.ended_at < now - HANGING_KEPT_FOR
            ),
            "webhook_deliveries": sa.delete(webhook_deliveries).where(
                webhook_deliveries.c.ended_at < now - DELIVERIES_FOR
            ),
            "id_counts": sa.delete(id_counts).where(id_counts.c.at < now - COUNTS_FOR),
            "partition_ownerships": sa.delete(partition_ownerships).where(
                sa.func.upper(partition_ownerships.c.during) < now - HISTORY_KEPT_FOR
            ),
        }
        removed: dict[str, int] = {}
        for table, statement in statements.items():
            removed[table] = (await self._db.execute(statement)).rowcount
        thinned = await self._db.execute(_THIN_COUNTS, {"before": now - FINE_COUNTS_FOR})
        removed["id_counts"] += thinned.rowcount
        attempts = await self._db.execute(_EXPIRE_ATTEMPTS, {"before": now - ATTEMPTS_FOR})
        removed["task_attempts"] = attempts.scalar_one()
        return removed
