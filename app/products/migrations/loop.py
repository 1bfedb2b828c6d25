"""Drive open migrations: view the pipeline, decide, and do one thing at a time; rows are written first.

No state is kept in memory between turns. If a server dies in the middle, the rows remain. A bounce is the
target of an instance, and a fence is a list of ids of which some are done.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from app.core.clusters.brokers import GroupDescription
from app.core.observing.service.observations import Observations
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.kit.errors import FencelineError, UnavailableError
from app.products.migrations.decision import TARGETS, EvidencePatience, Wait
from app.products.migrations.evidence import partition_ids, task_ids
from app.products.migrations.look import AuditNow, PreflightFacts
from app.products.migrations.migration import Migration, MigrationState, Stage
from app.products.migrations.ports import MigrationActs, MigrationQuestions
from app.products.migrations.service import driving
from app.products.migrations.service.looking import look_at
from app.products.migrations.service.rows import NOTICE, lock
from app.products.migrations.store.migrations import MigrationStore

log = logging.getLogger(__name__)

_WATCHED_EVERY = timedelta(seconds=10)
_REFUSED_AT_ONCE = 3
"""Each request may wait for its full timeout: the next view must not wait for a hundred of them."""
_FENCING_FOR = timedelta(seconds=5)
"""A turn fences some of a step's ids, so that other migrations continue and the page shows the progress."""


class _Answers(NamedTuple):
    """The facts that only the current stage requests."""

    asked_at: datetime | None = None
    group: GroupDescription | None = None
    preflight: PreflightFacts | None = None
    held_back: Mapping[str, tuple[int, int]] | None = None
    lost_offsets: str = ""


class MigrationDriver:
    """Drives migrations. One server at a time drives; others show the rows that it has written."""

    name = "migration driver"
    wakes = frozenset({NOTICE})

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        observations: Observations,
        acts: MigrationActs,
        questions: MigrationQuestions,
        clock: Clock,
        where: str = "",
        patience: EvidencePatience | None = None,
        period_s: float = 1.0,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._observations = observations
        self._acts = acts
        self._questions = questions
        self._clock = clock
        self.where = where
        self._patience = patience
        self.period_s = period_s
        self.is_idle = False
        self._watched_at: datetime | None = None

    async def turn(self) -> None:
        async with self._unit_of_work() as uow:
            found = await uow.of(MigrationStore).list_open()
        self.is_idle = not found
        for migration in found:
            try:
                await self._follow(migration)
            except UnavailableError:
                raise
            except FencelineError as error:
                log.warning("migration %s of %s: %s", migration.id, migration.pipeline, error.message)

        await self._watch()

    async def _watch(self) -> None:
        """Check archived ids of completed migrations, at the start of a server and now and then."""
        now = self._clock.now()
        if self._watched_at is not None and timedelta(0) <= now - self._watched_at < _WATCHED_EVERY:
            return
        self._watched_at = now
        async with self._unit_of_work() as uow:
            found = await uow.of(MigrationStore).list_done()
        for migration in found:
            async with self._unit_of_work() as uow:
                now = self._clock.now()
                look = await look_at(uow, self._observations.of(migration.cluster), migration, now=now)
                for alarm in await driving.watch(uow, migration.id, look, now=now):
                    log.warning("migration %s of %s: %s", migration.id, migration.pipeline, alarm.sentence)
                await uow.commit()

    def interrupted(self) -> None:
        """Do nothing: no state is kept in memory between turns."""

    async def _follow(self, migration: Migration) -> None:
        refused = await self._fence(migration)
        answers = await self._answers(migration)
        async with self._unit_of_work() as uow:
            # Read before the view: a second driver, whose lock was lost, may have just moved the migration.
            await lock(uow, migration.id)
            now = self._clock.now()
            migration, audit = await self._audited(uow, migration.id)
            snapshot = self._observations.of(migration.cluster)
            look = await look_at(
                uow, snapshot, migration, group=answers.group, group_asked_at=answers.asked_at, now=now
            )
            look = replace(
                look,
                audit=audit,
                preflight=answers.preflight,
                held_back=answers.held_back,
                lost_offsets=answers.lost_offsets,
                refused_fences=refused,
            )
            decision = await driving.advance(
                uow, migration.id, look, now=now, patience=self._patience, server=self.where
            )
            await uow.commit()
        if not isinstance(decision, Wait):
            log.info("migration %s of %s: %s", migration.id, migration.pipeline, type(decision).__name__.lower())

    async def _fence(self, migration: Migration) -> dict[str, str]:
        """Fence each id, and record each answer at once, so that a retry skips the completed ones.

        Returns the refused ids with the answers; they are retried until their step is late. A turn without time left
        leaves the remaining ids for the next one.
        """
        async with self._unit_of_work() as uow:
            waiting = await driving.ids_to_fence(uow, migration.id)
        if waiting is None:
            return {}
        step, names = waiting
        refused: dict[str, str] = {}
        ends_at = self._clock.now() + _FENCING_FOR
        for name in names:
            if self._clock.now() >= ends_at:
                break
            try:
                incarnation = await self._acts.fence(migration, name, step=step.number)
            except FencelineError as error:
                refused[name] = error.message
                if len(refused) == _REFUSED_AT_ONCE:
                    break
                continue
            async with self._unit_of_work() as uow:
                await driving.record_fence(uow, migration.id, incarnation, step=step.number, now=self._clock.now())
                await uow.commit()
        return refused

    async def _answers(self, migration: Migration) -> _Answers:
        """Ask the brokers outside of a database transaction, as they may be slow."""
        if migration.state is not MigrationState.ACTIVE:
            return _Answers()
        at = self._clock.now()
        group = await self._questions.group(migration)
        if migration.stage is Stage.VERIFY:
            return _Answers(at, group, held_back=await self._questions.held_back(migration))
        if migration.stage is not Stage.PREFLIGHT:
            # Only before a bounce: between two leases of the only instance no task can be asked.
            may_bounce = migration.stage in TARGETS and migration.step is None
            lost = await self._questions.lost_offsets(migration) if may_bounce else ""
            return _Answers(at, group, lost_offsets=lost)
        async with self._unit_of_work() as uow:
            snapshot = self._observations.of(migration.cluster)
            look = await look_at(uow, snapshot, migration, now=self._clock.now())
        ids = (*partition_ids(migration, look), *task_ids(migration, look))
        return _Answers(at, group, preflight=await self._questions.preflight(migration, ids))

    async def _audited(self, uow: UnitOfWork, migration_id: str) -> tuple[Migration, AuditNow | None]:
        """Start the audit, and record its id in the same transaction; otherwise no migration would own it."""
        migration = await uow.of(MigrationStore).get(migration_id)
        if migration.stage is not Stage.VERIFY or migration.state is not MigrationState.ACTIVE:
            return migration, None
        migration = await lock(uow, migration_id)
        audit = await self._questions.audit(uow, migration)
        if audit.audit_id and migration.audit_id is None:
            migration = replace(migration, audit_id=audit.audit_id)
            await uow.of(MigrationStore).save(migration)
        return migration, audit
