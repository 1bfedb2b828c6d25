"""Confirmed offsets of tasks, kept as long as the pipeline is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.tables.recorded_offsets import recorded_offsets
from app.kit.db.store import DatabaseStore

_R = recorded_offsets.c
_GIVEN = """
    WITH owner AS ({owner})
    INSERT INTO recorded_offsets AS known
        (kafka_cluster_id, group_id, topic, partition, pipeline_id, "offset", topic_id, is_final, began_at)
    SELECT :kafka_cluster_id, :group, given.topic, given.partition, owner.id, given."offset", given.topic_id,
           given.is_final, owner.began_at
    FROM unnest(CAST(:topics AS text[]), CAST(:partitions AS integer[]), CAST(:offsets AS bigint[]),
                CAST(:topic_ids AS text[]), CAST(:finals AS boolean[]))
         AS given(topic, partition, "offset", topic_id, is_final),
         owner
    -- In one order, so that two tasks that hand a partition over do not deadlock.
    ORDER BY given.topic, given.partition
    ON CONFLICT (kafka_cluster_id, group_id, topic, partition) DO UPDATE SET
        pipeline_id = excluded.pipeline_id, "offset" = excluded."offset", began_at = excluded.began_at,
        topic_id = {topic_id}, is_final = excluded.is_final
"""
# A heartbeat may not know the id yet. The known one stays only if the offset certainly belongs to the same topic.
_REPORTED_ID = """coalesce(excluded.topic_id, CASE
            WHEN excluded.began_at = known.began_at OR excluded."offset" = known."offset" THEN known.topic_id END)"""
_REPORT = sa.text(
    _GIVEN.format(  # noqa: S608
        owner="SELECT pipeline_id AS id, started_at AS began_at FROM runs WHERE id = CAST(:run_id AS uuid)",
        topic_id=_REPORTED_ID,
    )
    + """
    WHERE excluded.began_at > known.began_at
       OR (excluded.began_at = known.began_at AND (
              excluded."offset" > known."offset"
           OR (excluded."offset" = known."offset" AND excluded.is_final AND NOT known.is_final)
           OR (excluded."offset" = known."offset" AND known.topic_id IS NULL AND excluded.topic_id IS NOT NULL)
           OR excluded.topic_id <> known.topic_id))
    """
)
_REPLACE = sa.text(
    _GIVEN.format(
        owner="SELECT id, CAST(:now AS timestamptz) AS began_at FROM pipelines WHERE name = :pipeline",
        topic_id="excluded.topic_id",
    )
)


class RecordedOffsetStore(DatabaseStore):
    """The last offset of each partition of a group whose commit was confirmed and reported."""

    async def of_group(self, *, kafka_cluster_id: str, group: str) -> list[RecordedOffset]:
        """Return them by topic and partition."""
        rows = await self._db.rows(
            sa.select(_R.topic, _R.partition, _R.offset, _R.topic_id, _R.is_final)
            .where(_R.kafka_cluster_id == kafka_cluster_id, _R.group_id == group)
            .order_by(_R.topic, _R.partition)
        )
        return [
            RecordedOffset(
                topic=row.topic,
                partition=row.partition,
                offset=row.offset,
                topic_id=row.topic_id,
                is_final=row.is_final,
            )
            for row in rows
        ]

    async def report(
        self, offsets: Sequence[RecordedOffset], *, run_id: str, kafka_cluster_id: str, group: str
    ) -> None:
        """Store the confirmed offsets of a task of this run.

        In one run offsets only grow; those of a later run, or of another topic of the name, replace the earlier ones.
        """
        if offsets:
            await self._db.execute(_REPORT, {**_given(offsets, kafka_cluster_id, group), "run_id": run_id})

    async def replace(
        self, offsets: Sequence[RecordedOffset], *, pipeline: str, kafka_cluster_id: str, group: str, now: datetime
    ) -> None:
        """Store the offsets that a user has set; later reports of an earlier run do not change them."""
        if offsets:
            await self._db.execute(
                _REPLACE, {**_given(offsets, kafka_cluster_id, group), "pipeline": pipeline, "now": now}
            )


def _given(offsets: Sequence[RecordedOffset], kafka_cluster_id: str, group: str) -> dict[str, Any]:
    return {
        "kafka_cluster_id": kafka_cluster_id,
        "group": group,
        "topics": [one.topic for one in offsets],
        "partitions": [one.partition for one in offsets],
        "offsets": [one.offset for one in offsets],
        "topic_ids": [one.topic_id for one in offsets],
        "finals": [one.is_final for one in offsets],
    }
