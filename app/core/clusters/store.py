"""Clusters."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from app.core.clusters.cluster import Cluster
from app.core.pipelines.tables import clusters
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError


class ClusterStore(DatabaseStore):
    async def add(self, cluster: Cluster) -> None:
        """Raises ConflictError if the name is taken."""
        await self._db.execute(
            sa.insert(clusters).values(
                name=cluster.name,
                kafka_cluster_id=cluster.kafka_cluster_id,
                bootstrap_servers=cluster.bootstrap_servers,
                client_config=cluster.client_config,
                created_at=cluster.created_at,
                created_by=cluster.created_by,
            )
        )

    async def get(self, name: str) -> Cluster:
        row = await self._db.row(sa.select(clusters).where(clusters.c.name == name))
        if row is None:
            raise NotFoundError(f"there is no cluster {name}; `fenceline clusters list` shows all clusters")
        return _cluster(row)

    async def list_all(self) -> list[Cluster]:
        return [_cluster(row) for row in await self._db.rows(sa.select(clusters).order_by(clusters.c.name))]

    async def remove(self, name: str) -> None:
        """Raises ConflictError while a pipeline names it."""
        await self._db.execute(sa.delete(clusters).where(clusters.c.name == name))


def _cluster(row: sa.Row[Any]) -> Cluster:
    return Cluster(
        name=row.name,
        kafka_cluster_id=row.kafka_cluster_id,
        bootstrap_servers=row.bootstrap_servers,
        client_config=row.client_config,
        created_at=row.created_at,
        created_by=row.created_by,
    )
