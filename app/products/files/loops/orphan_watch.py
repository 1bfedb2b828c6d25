"""Run requested orphan scans and collections, one at a time, on one server at a time."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import NotFoundError
from app.products.files.orphan_look import OrphanAct, OrphanLook, OrphanResult, collected_so_far
from app.products.files.orphan_ports import CollectionProgress, OrphanCollectors, OrphanJob
from app.products.files.service import orphans
from app.products.files.store.orphan_looks import OrphanLookStore

log = logging.getLogger(__name__)

STALLED_AFTER = timedelta(minutes=10)
"""Longest time without progress. Requests to stores and brokers have their own limits, a mounted folder has none."""


@dataclass(slots=True)
class _AtWork:
    look: OrphanLook
    job: OrphanJob
    heard: CollectionProgress
    moved_at: datetime


class OrphanWatch:
    """Begin requested scans and collections, record their progress and their results.

    Each attempt has a number in its row, and only the newest may write. So a server that has lost the lock without
    knowing it overwrites nothing. The current job is stopped when the lock or Postgres is lost. A scan is then
    repeated, and a collection ends with the deletions so far.
    """

    name = "orphans"
    wakes = frozenset({orphans.NOTICE})

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        collectors: OrphanCollectors,
        clock: Clock,
        stalled_after: timedelta = STALLED_AFTER,
        period_s: float = 1.0,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._collectors = collectors
        self._clock = clock
        self._stalled_after = stalled_after
        self.period_s = period_s
        self._at_work: _AtWork | None = None
        self.is_idle = False

    async def turn(self) -> None:
        if self._at_work is None:
            await self._begin_next()
        else:
            await self._hear(self._at_work)

    def interrupted(self) -> None:
        """Stop the current job; its result is read in the next turn."""
        if self._at_work is not None:
            self._at_work.job.stop()

    async def close(self) -> None:
        """End with the server. The next owner of the lock finds the row, and continues."""
        self.interrupted()
        self._at_work = None

    async def _begin_next(self) -> None:
        async with self._unit_of_work() as uow:
            living = await uow.of(OrphanLookStore).living()
        self.is_idle = not living
        for one in living:
            now = self._clock.now()
            try:
                async with self._unit_of_work() as uow:
                    found = await orphans.begin(uow, one.id, now=now)
                    await uow.commit()
            except NotFoundError as error:
                # The pipeline was deleted meanwhile, and the row with it.
                log.info("%s of %s does not exist any more: %s", one.act, one.pipeline, error.message)
                continue
            if found is not None:
                look, order = found
                log.info("%s for orphans of %s, attempt %s", look.act, look.pipeline, look.attempt)
                job = self._collectors.begin(order)
                self._at_work = _AtWork(look, job, job.progress, now)
                return

    async def _hear(self, at_work: _AtWork) -> None:
        now, result, progress = self._clock.now(), at_work.job.result, at_work.job.progress
        if result is None and progress.steps != at_work.heard.steps:
            at_work.moved_at = now
        if result is None and now - at_work.moved_at >= self._stalled_after:
            at_work.job.stop()
            minutes = self._stalled_after / timedelta(minutes=1)
            reason = f"no progress for {minutes:g} minutes: the store or the brokers hang ({progress.told})"
            result = OrphanResult(collected=collected_so_far(at_work.look, progress.deleted), reason=reason)
        elif result is not None and at_work.job.is_stopped and at_work.look.act is OrphanAct.LOOK:
            # A scan changes nothing, so the next turn repeats it.
            self._at_work = None
            return
        if result is not None:
            await self._end(at_work.look, result, now=now)
            self._at_work = None
        elif progress[:2] != at_work.heard[:2] and not await self._tell(at_work.look, progress):
            log.info("%s of %s belongs to another server, or was deleted", at_work.look.act, at_work.look.pipeline)
            at_work.job.stop()
            self._at_work = None
        at_work.heard = progress

    async def _end(self, look: OrphanLook, result: OrphanResult, *, now: datetime) -> None:
        async with self._unit_of_work() as uow:
            is_kept = await orphans.end(uow, look, result, now=now)
            await uow.commit()
        word = result.reason or "done"
        log.info(
            "%s for orphans of %s: %s", look.act, look.pipeline, word if is_kept else "belongs to another server now"
        )

    async def _tell(self, look: OrphanLook, progress: CollectionProgress) -> bool:
        async with self._unit_of_work() as uow:
            is_ours = await orphans.note_progress(uow, look, progress.told, progress.deleted)
            await uow.commit()
        return is_ours
