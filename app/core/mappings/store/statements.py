"""The SQL for changes of owners: several partitions of one owner at once, in one order everywhere."""

from __future__ import annotations

import sqlalchemy as sa

_TYPES = [
    sa.bindparam("owner_run_id", type_=sa.Uuid(as_uuid=False)),
    sa.bindparam("generation", type_=sa.Integer()),
    sa.bindparam("now", type_=sa.DateTime(timezone=True)),
]
_OWNER = ("owner_run_id", "owner_ordinal", "owner_lease", "owner_task", "owner_attempt")
_SAME_OWNER = """
    ({held}.owner_run_id, {held}.owner_ordinal, {held}.owner_lease, {held}.owner_task, {held}.owner_attempt)
    IS NOT DISTINCT FROM {new}
"""
_TAKEN = """
    unnest(CAST(:topics AS text[]), CAST(:partitions AS int[]), CAST(:transactional_ids AS text[]),
           CAST(:producer_ids AS bigint[]), CAST(:epochs AS int[]))
    AS taken (topic, partition, transactional_id, producer_id, epoch)
"""

# A take is refused if a newer owner exists. Lease and attempt decide within one task, the group's generation between
# tasks. A partition without an owner, or with one of an ended run, can be taken by any task.
TAKE = sa.text(
    f"""
    INSERT INTO partition_mappings AS held
        (kafka_cluster_id, group_id, topic, partition, pipeline_id, transactional_id, owner_run_id, owner_ordinal,
         owner_lease, owner_task, owner_attempt, owner_host, generation, producer_id, epoch, since)
    SELECT :kafka_cluster_id, :group_id, taken.topic, taken.partition, runs.pipeline_id, taken.transactional_id,
           runs.id, :owner_ordinal, :owner_lease, :owner_task, :owner_attempt, :owner_host, :generation,
           taken.producer_id, taken.epoch, :now
    FROM runs, {_TAKEN} WHERE runs.id = :owner_run_id
    ORDER BY taken.topic, taken.partition
    ON CONFLICT (kafka_cluster_id, group_id, topic, partition) DO UPDATE SET
        pipeline_id = excluded.pipeline_id, transactional_id = excluded.transactional_id,
        assigned_id = CASE WHEN held.pipeline_id = excluded.pipeline_id THEN held.assigned_id END,
        origin = CASE WHEN held.pipeline_id = excluded.pipeline_id THEN held.origin END,
        owner_run_id = excluded.owner_run_id, owner_ordinal = excluded.owner_ordinal,
        owner_lease = excluded.owner_lease, owner_task = excluded.owner_task,
        owner_attempt = excluded.owner_attempt, owner_host = excluded.owner_host,
        generation = excluded.generation,
        since = CASE WHEN {
        _SAME_OWNER.format(held="held", new=f"({', '.join(f'excluded.{name}' for name in _OWNER)})")
    } THEN held.since ELSE excluded.since END,
        producer_id = excluded.producer_id, epoch = excluded.epoch
    WHERE held.owner_run_id IS NULL
       OR held.owner_run_id <> excluded.owner_run_id
          AND EXISTS (SELECT FROM runs WHERE runs.id = held.owner_run_id AND runs.ended_at IS NOT NULL)
       OR held.owner_run_id = excluded.owner_run_id
          AND CASE WHEN (held.owner_ordinal, held.owner_task) = (excluded.owner_ordinal, excluded.owner_task)
                   THEN (held.owner_lease, held.owner_attempt) <= (excluded.owner_lease, excluded.owner_attempt)
                   ELSE held.generation IS NULL OR excluded.generation IS NULL
                        OR held.generation <= excluded.generation END
    RETURNING topic, partition
    """  # noqa: S608 - parts of our own
).bindparams(*_TYPES)

# An interval that would begin and end at one instant is deleted. A server whose clock lags ends it where it began.
# The reporter sends a heartbeat just now; its earlier partitions are confirmed up to `:heard_at`.
_CLOSE = """
    WITH gone AS (
        DELETE FROM partition_ownerships WHERE upper_inf(during) AND lower(during) >= :now AND {which} RETURNING id
    )
    UPDATE partition_ownerships SET
        during = tstzrange(lower(during), :now),
        heard_until = greatest(lower(during), least(:now, coalesce(
            CASE WHEN {is_reporter} THEN :heard_at
                 ELSE (SELECT last.received_at FROM task_attempts AS last
                       WHERE (last.run_id, last.ordinal, last.lease, last.task, last.attempt)
                             = (owner_run_id, owner_ordinal, owner_lease, owner_task, owner_attempt)) END,
            lower(during))))
    WHERE upper_inf(during) AND {which} AND id NOT IN (SELECT id FROM gone) AND lower(during) < :now
"""
_HEARD = sa.bindparam("heard_at", type_=sa.DateTime(timezone=True))
_HERE = "{held}.kafka_cluster_id = :kafka_cluster_id AND {held}.group_id = :group_id"
# A value that becomes known, or is unknown just now, is not a change.
_UNCHANGED = (
    _SAME_OWNER.format(held="held", new="(:owner_run_id, :owner_ordinal, :owner_lease, :owner_task, :owner_attempt)")
    + """
    AND held.owner_host = :owner_host
    AND coalesce(held.generation = :generation, true)
    AND coalesce(held.transactional_id = taken.transactional_id, true)
    AND coalesce((held.producer_id, held.epoch) = (taken.producer_id, taken.epoch), true)"""
)
CLOSE_CHANGED = sa.text(
    _CLOSE.format(
        is_reporter=_SAME_OWNER.format(
            held="partition_ownerships",
            new="(:owner_run_id, :owner_ordinal, :owner_lease, :owner_task, :owner_attempt)",
        ),
        which=f"""id IN (
            SELECT held.id FROM partition_ownerships AS held
            JOIN {_TAKEN} ON (held.topic, held.partition) = (taken.topic, taken.partition)
            WHERE {_HERE.format(held="held")} AND upper_inf(held.during) AND NOT ({_UNCHANGED})
        )""",  # noqa: S608 - parts of our own
    )
).bindparams(*_TYPES, _HEARD)
COMPLETE = sa.text(
    f"""
    UPDATE partition_ownerships AS held SET
        generation = coalesce(held.generation, :generation),
        transactional_id = coalesce(held.transactional_id, taken.transactional_id),
        producer_id = coalesce(held.producer_id, taken.producer_id), epoch = coalesce(held.epoch, taken.epoch)
    FROM {_TAKEN}
    WHERE {_HERE.format(held="held")} AND (held.topic, held.partition) = (taken.topic, taken.partition)
      AND upper_inf(held.during)
      AND (held.generation IS NULL AND :generation IS NOT NULL
           OR held.transactional_id IS NULL AND taken.transactional_id IS NOT NULL
           OR held.producer_id IS NULL AND taken.producer_id IS NOT NULL)
    """  # noqa: S608 - parts of our own
).bindparams(_TYPES[1])
OPEN = sa.text(
    f"""
    INSERT INTO partition_ownerships
        (kafka_cluster_id, group_id, topic, partition, pipeline_id, transactional_id, owner_run_id, owner_ordinal,
         owner_lease, owner_task, owner_attempt, owner_host, generation, producer_id, epoch, during)
    SELECT :kafka_cluster_id, :group_id, taken.topic, taken.partition, runs.pipeline_id, taken.transactional_id,
           runs.id, :owner_ordinal, :owner_lease, :owner_task, :owner_attempt, :owner_host, :generation,
           taken.producer_id, taken.epoch,
           tstzrange(greatest(:now, (SELECT upper(past.during) FROM partition_ownerships AS past
                                     WHERE {_HERE.format(held="past")}
                                       AND past.topic = taken.topic AND past.partition = taken.partition
                                     ORDER BY lower(past.during) DESC LIMIT 1)), NULL)
    FROM runs, {_TAKEN} WHERE runs.id = :owner_run_id
      AND NOT EXISTS (SELECT FROM partition_ownerships AS open
                      WHERE {_HERE.format(held="open")} AND open.topic = taken.topic
                        AND open.partition = taken.partition AND upper_inf(open.during))
    """  # noqa: S608 - parts of our own
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
_RUN = [sa.bindparam("run_id", type_=sa.Uuid(as_uuid=False)), _TYPES[2]]


_REPORTER = _SAME_OWNER.format(held="partition_ownerships", new="(:run_id, :ordinal, :lease, :task, :attempt)")


def _letting_go(which: str, *, is_reporter: str) -> tuple[sa.TextClause, sa.TextClause]:
    """Return the statements for mappings, then for their intervals: `take` locks them in the same order."""
    return (
        sa.text(_LET_GO.format(which=which.format(table="partition_mappings"))).bindparams(*_RUN),
        sa.text(
            _CLOSE.format(
                which="owner_run_id = :run_id AND " + which.format(table="partition_ownerships"),
                is_reporter=is_reporter,
            )
        ).bindparams(*_RUN, _HEARD),
    )


# Without it two tasks that swap partitions would lock them in opposite orders. Taken after any instance's row.
IN_TURN = sa.text("SELECT pg_advisory_xact_lock(hashtextextended('mappings of run ' || :run_id, 0))").bindparams(
    sa.bindparam("run_id", type_=sa.Text())
)
INCARNATIONS = sa.text(
    """
    SELECT ids.transactional_id, (report->>'producer_id')::bigint AS producer_id,
           (report->>'producer_epoch')::int AS epoch
    FROM transactional_ids AS ids
    JOIN runs ON runs.pipeline_id = ids.pipeline_id
    JOIN task_attempts ON task_attempts.run_id = runs.id AND report->>'transactional_id' = ids.transactional_id
    WHERE ids.kafka_cluster_id = :kafka_cluster_id AND report->>'producer_id' IS NOT NULL
      AND report->>'producer_epoch' IS NOT NULL
    UNION
    SELECT transactional_id, producer_id, epoch FROM partition_mappings
    WHERE kafka_cluster_id = :kafka_cluster_id AND transactional_id IS NOT NULL AND producer_id IS NOT NULL
      AND epoch IS NOT NULL
    """
)
RELEASE_TASK = _letting_go(_OF_TASK, is_reporter=_REPORTER)
RELEASE_INSTANCE = _letting_go(_OF_INSTANCE, is_reporter="false")
