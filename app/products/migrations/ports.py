"""What the loop that drives migrations asks of the outside, beside the rows and the observed journals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from app.core.clusters.brokers import GroupDescription
from app.core.clusters.survey import Survey
from app.kit.db.unit_of_work import UnitOfWork
from app.products.migrations.look import AuditNow, Incarnation, PreflightFacts
from app.products.migrations.migration import Migration


class MigrationActs(Protocol):
    """A bounce needs none of it: its row is the target of the instance, and the reconciler does the moving."""

    async def fence(self, migration: Migration, transactional_id: str, *, step: int) -> Incarnation:
        """Initialise the id and leave it so; what the coordinator answered. To repeat it is safe.

        Raises a FencelineError where it was not done, or nobody said that it was.
        """
        ...


class MigrationQuestions(Protocol):
    """What only one stage asks. Each says itself what it could not learn; none raises because of the brokers."""

    async def preflight(self, migration: Migration, ids: tuple[str, ...]) -> PreflightFacts: ...

    async def group(self, migration: Migration) -> GroupDescription | None:
        """As its coordinator has it now; None: it did not say."""
        ...

    async def of_cluster(self, cluster: str, group: str) -> tuple[GroupDescription | None, Survey | None]:
        """A group, ours or not, and the cluster's brokers. Raises NotFoundError where there is no such cluster."""
        ...

    async def held_back(self, migration: Migration) -> Mapping[str, tuple[int, int]] | None:
        """Of partitions of the sink whose readers of committed data do not get to the end, how far, and the end.

        None: the brokers are away.
        """
        ...

    async def lost_offsets(self, migration: Migration) -> str:
        """Why tasks that began now would refuse to: the group has lost committed offsets. Else, or not known, empty."""
        ...

    async def audit(self, uow: UnitOfWork, migration: Migration) -> AuditNow:
        """The audit of the migration's time: begun, if there is none yet. The caller holds its row and commits."""
        ...
