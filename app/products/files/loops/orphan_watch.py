"""Has orphans looked for and collected, as somebody asked: one order at a time, by one server at a time."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import NotFoundError
from app.products.files.orphan_look import OrphanAct, OrphanLook, OrphanResult, collected_so_far
from app.products.files.orphan_ports import OrphanCollectors, OrphanJob, Progress
from app.products.files.service import orphans
from app.products.files.store.orphan_looks import OrphanLookStore

log = logging.getLogger(__name__)

STALLED_AFTER = timedelta(minutes=10)
"""So long nothing may move. A request to a store or a broker has a bound of its own; a mounted folder has none."""


@dataclass(slots=True)
class _AtWork:
    look: OrphanLook
    job: OrphanJob
    heard: Progress
    moved_at: datetime


class OrphanWatch:
    """The loop that begins what was asked for, tells how far it is, and keeps how it ended.

    Each attempt has a number in its row, and only the newest is heard: a server that has lost the lock and does not
    know it writes nothing over what the next one does. What was at work when the lock or Postgres was lost is stopped;
    a look is then begun anew, a collection ends with what it had deleted.
    """

    name = "orphans"

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

    async def turn(self) -> None:
        if self._at_work is None:
            await self._begin_next()
        else:
            await self._hear(self._at_work)

    def interrupted(self) -> None:
        """What is at work is stopped, and heard once more."""
        if self._at_work is not None:
            self._at_work.job.stop()

    async def close(self) -> None:
        """The server stops. Whoever has the lock next finds the row, and goes on from there."""
        self.interrupted()
        self._at_work = None

    async def _begin_next(self) -> None:
        async with self._unit_of_work() as uow:
            living = await uow.of(OrphanLookStore).living()
        for one in living:
            now = self._clock.now()
            try:
                async with self._unit_of_work() as uow:
                    found = await orphans.begin(uow, one.id, now=now)
                    await uow.commit()
            except NotFoundError as error:
                # Its pipeline was deleted meanwhile, and with it the row.
                log.info("%s of %s is not there any more: %s", one.act, one.pipeline, error.message)
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
            reason = f"nothing has moved for {minutes:g} minutes: the store or the brokers hang ({progress.told})"
            result = OrphanResult(collected=collected_so_far(at_work.look, progress.deleted), reason=reason)
        elif result is not None and at_work.job.is_stopped and at_work.look.act is OrphanAct.LOOK:
            # Nothing was changed by it: the next turn begins it anew.
            self._at_work = None
            return
        if result is not None:
            await self._end(at_work.look, result, now=now)
            self._at_work = None
        elif progress[:2] != at_work.heard[:2] and not await self._tell(at_work.look, progress):
            log.info("%s of %s is another server's, or was deleted", at_work.look.act, at_work.look.pipeline)
            at_work.job.stop()
            self._at_work = None
        at_work.heard = progress

    async def _end(self, look: OrphanLook, result: OrphanResult, *, now: datetime) -> None:
        async with self._unit_of_work() as uow:
            is_kept = await orphans.end(uow, look, result, now=now)
            await uow.commit()
        word = result.reason or "done"
        log.info("%s for orphans of %s: %s", look.act, look.pipeline, word if is_kept else "another server's by now")

    async def _tell(self, look: OrphanLook, progress: Progress) -> bool:
        async with self._unit_of_work() as uow:
            is_ours = await orphans.note_progress(uow, look, progress.told, progress.deleted)
            await uow.commit()
        return is_ours
