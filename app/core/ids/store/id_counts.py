"""The number of transactional ids of a cluster, minute by minute and then hour by hour."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.ids.registry import IdCount
from app.core.mappings.tables import id_counts
from app.kit.db.store import DatabaseStore

_C = id_counts.c


class IdCountStore(DatabaseStore):
    """The numbers of transactional ids of clusters: one a minute, after six hours one an hour, for 90 days."""

    async def add(self, count: IdCount, *, kafka_cluster_id: str) -> None:
        await self._db.execute(
            postgresql.insert(id_counts)
            .values(
                kafka_cluster_id=kafka_cluster_id,
                at=count.at,
                ids=count.ids,
                ours=count.ours,
                orphaned=count.orphaned,
            )
            .on_conflict_do_nothing()
        )

    async def series(self, *, kafka_cluster_id: str, since: datetime) -> list[IdCount]:
        """Oldest first."""
        rows = await self._db.rows(
            sa.select(id_counts).where(_C.kafka_cluster_id == kafka_cluster_id, _C.at >= since).order_by(_C.at)
        )
        return [IdCount(at=row.at, ids=row.ids, ours=row.ours, orphaned=row.orphaned) for row in rows]
