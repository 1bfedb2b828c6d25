"""One transaction, and the repositories that work in it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from app.ports.audit_repository import AuditPlanRepository, AuditRepository
from app.ports.drill_repository import DrillRepository
from app.ports.fencing_repository import FencingRepository
from app.ports.file_repository import FileReadingRepository, FileRepository
from app.ports.hanging_repository import HangingRepository
from app.ports.migration_repository import ForeignMigrationRepository, MigrationRepository
from app.ports.offset_log_repository import OffsetLogRepository, RecordedOffsetRepository
from app.ports.orphans import OrphanLookRepository
from app.ports.repositories import (
    AccessRepository,
    ClusterRepository,
    CommandRepository,
    InstanceRepository,
    PipelineRepository,
    RunRepository,
    TransactionalIdRepository,
)
from app.ports.task_repository import (
    IdCountRepository,
    IdentityRepository,
    MappingRepository,
    RetentionRepository,
    TaskRepository,
)
from app.ports.webhook_repository import DeliveryRepository, RaisedAlertRepository, WebhookRepository


class UnitOfWork(Protocol):
    """Everything between entering and `commit` happens or nothing does; leaving without `commit` rolls back.

    Services never call `commit`: the edge that opened the unit does (a request, a loop's turn, a CLI command).
    After a database error nothing more can be done in the unit but to leave it.
    """

    @property
    def clusters(self) -> ClusterRepository: ...
    @property
    def pipelines(self) -> PipelineRepository: ...
    @property
    def transactional_ids(self) -> TransactionalIdRepository: ...
    @property
    def runs(self) -> RunRepository: ...
    @property
    def instances(self) -> InstanceRepository: ...
    @property
    def tasks(self) -> TaskRepository: ...
    @property
    def mappings(self) -> MappingRepository: ...
    @property
    def id_counts(self) -> IdCountRepository: ...
    @property
    def offset_log(self) -> OffsetLogRepository: ...
    @property
    def recorded_offsets(self) -> RecordedOffsetRepository: ...
    @property
    def fencing(self) -> FencingRepository: ...
    @property
    def hanging(self) -> HangingRepository: ...
    @property
    def drills(self) -> DrillRepository: ...
    @property
    def audits(self) -> AuditRepository: ...
    @property
    def audit_plans(self) -> AuditPlanRepository: ...
    @property
    def migrations(self) -> MigrationRepository: ...
    @property
    def foreign_migrations(self) -> ForeignMigrationRepository: ...
    @property
    def files(self) -> FileRepository: ...
    @property
    def file_readings(self) -> FileReadingRepository: ...
    @property
    def orphan_looks(self) -> OrphanLookRepository: ...
    @property
    def webhooks(self) -> WebhookRepository: ...
    @property
    def deliveries(self) -> DeliveryRepository: ...
    @property
    def raised_alerts(self) -> RaisedAlertRepository: ...
    @property
    def access(self) -> AccessRepository: ...
    @property
    def commands(self) -> CommandRepository: ...
    @property
    def retention(self) -> RetentionRepository: ...
    @property
    def identity(self) -> IdentityRepository: ...

    def notify(self, noun: str, name: str) -> None:
        """Tell every server, on commit and only then, that what a page shows of `<noun>:<name>` has changed."""
        ...

    async def relax_durability(self) -> None:
        """Do not wait for the disk on commit: for state that the next second brings again (heartbeats)."""
        ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...


UnitOfWorkFactory = Callable[[], AbstractAsyncContextManager[UnitOfWork]]
