"""The unit of work on Postgres."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from app.db.changes import CHANNEL
from app.db.connection import Connection
from app.db.repositories.access import SqlAccess
from app.db.repositories.audits import SqlAuditPlans, SqlAudits
from app.db.repositories.clusters import SqlClusters
from app.db.repositories.commands import SqlCommands
from app.db.repositories.deliveries import SqlDeliveries
from app.db.repositories.drills import SqlDrills
from app.db.repositories.fencing import SqlFencing
from app.db.repositories.file_readings import SqlFileReadings
from app.db.repositories.files import SqlFiles
from app.db.repositories.foreign_migrations import SqlForeignMigrations
from app.db.repositories.hanging import SqlHanging
from app.db.repositories.id_counts import SqlIdCounts
from app.db.repositories.identity import SqlIdentity
from app.db.repositories.instances import SqlInstances
from app.db.repositories.mappings import SqlMappings
from app.db.repositories.migrations import SqlMigrations
from app.db.repositories.offset_log import SqlOffsetLog
from app.db.repositories.orphan_looks import SqlOrphanLooks
from app.db.repositories.pipelines import SqlPipelines
from app.db.repositories.recorded_offsets import SqlRecordedOffsets
from app.db.repositories.retention import SqlRetention
from app.db.repositories.runs import SqlRuns
from app.db.repositories.tasks import SqlTasks
from app.db.repositories.transactional_ids import SqlTransactionalIds
from app.db.repositories.webhooks import SqlRaisedAlerts, SqlWebhooks

_NOTIFY = sa.text("SELECT pg_notify(:channel, notice) FROM unnest(CAST(:notices AS text[])) AS notice")
_RELAX = sa.text("SET LOCAL synchronous_commit = off")
MAX_NOTICES = 64
"""More changed things than this are told as one: look at everything."""


class SqlUnitOfWork:
    """See app/ports/unit_of_work.py. It takes no connection before the first statement."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._db = Connection(engine)
        self._notices: dict[str, None] = {}
        self.clusters = SqlClusters(self._db)
        self.pipelines = SqlPipelines(self._db)
        self.transactional_ids = SqlTransactionalIds(self._db)
        self.instances = SqlInstances(self._db)
        self.runs = SqlRuns(self._db)
        self.tasks = SqlTasks(self._db)
        self.mappings = SqlMappings(self._db)
        self.id_counts = SqlIdCounts(self._db)
        self.offset_log = SqlOffsetLog(self._db)
        self.recorded_offsets = SqlRecordedOffsets(self._db)
        self.fencing = SqlFencing(self._db)
        self.hanging = SqlHanging(self._db)
        self.drills = SqlDrills(self._db)
        self.audits = SqlAudits(self._db)
        self.audit_plans = SqlAuditPlans(self._db)
        self.migrations = SqlMigrations(self._db)
        self.foreign_migrations = SqlForeignMigrations(self._db)
        self.files = SqlFiles(self._db)
        self.file_readings = SqlFileReadings(self._db)
        self.orphan_looks = SqlOrphanLooks(self._db)
        self.webhooks = SqlWebhooks(self._db)
        self.deliveries = SqlDeliveries(self._db)
        self.raised_alerts = SqlRaisedAlerts(self._db)
        self.access = SqlAccess(self._db)
        self.commands = SqlCommands(self._db)
        self.retention = SqlRetention(self._db)
        self.identity = SqlIdentity(self._db)

    @property
    def connection(self) -> Connection:
        """For statements that no repository has: the tests break the schema's rules by hand with it."""
        return self._db

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._db.close()

    def notify(self, noun: str, name: str) -> None:
        self._notices[f"{noun}:{name}"] = None

    async def relax_durability(self) -> None:
        await self._db.execute(_RELAX)

    async def commit(self) -> None:
        if self._notices:
            notices = list(self._notices) if len(self._notices) <= MAX_NOTICES else ["*:*"]
            await self._db.execute(_NOTIFY, {"channel": CHANNEL, "notices": notices})
            self._notices.clear()
        await self._db.commit()

    async def rollback(self) -> None:
        self._notices.clear()
        await self._db.rollback()
