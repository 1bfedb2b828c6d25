"""Once a minute: cut drivers' logs that are too long, and remove the folders of instances that ended long ago.

A folder is on the host that submitted the driver, so each server does this for its own; `name` is the host's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby

from app.core.runs.instance import Instance
from app.core.runs.launcher import DriverFolders, InstanceFolders, LeaseFolder
from app.core.runs.store.instances import InstanceStore
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import UnavailableError

log = logging.getLogger(__name__)


class FolderRetention:
    """The loop that bounds the state folder over leases, and over the life of one.

    A folder is removed if no process works in it and nothing was written in it for `kept_for`. Also its instance must
    have ended that long ago, or be unknown to this database. So a live driver keeps its files after a restore of an
    older database, or if its instance was called lost too early.
    """

    def __init__(
        self,
        folders: InstanceFolders,
        *,
        others: Sequence[DriverFolders] = (),
        unit_of_work: UnitOfWorkFactory,
        clock: Clock,
        where: str,
        kept_for: timedelta,
        period_s: float = 60.0,
    ) -> None:
        self.name = f"instance files of {where}"
        self.period_s = period_s
        self._folders = folders
        self._others = others
        self._unit_of_work = unit_of_work
        self._clock = clock
        self._kept_for = kept_for

    async def turn(self) -> None:
        trimmed = await self._folders.trim_logs() + sum([await others.trim_logs() for others in self._others])
        if trimmed:
            log.info("%d drivers' logs had become too long; their last part is in driver.log.1", trimmed)
        before = self._clock.now() - self._kept_for
        candidates = await self._folders.unchanged_since(before)
        removed = 0
        for run_id, of_run in groupby(sorted(candidates, key=lambda f: f.run_id), key=lambda f: f.run_id):
            async with self._unit_of_work() as uow:
                leases = {(i.ordinal, i.lease): i for i in await uow.of(InstanceStore).list(run_id, with_history=True)}
            for folder in of_run:
                if _has_served(leases.get((folder.ordinal, folder.lease)), before):
                    removed += await self._remove(folder)
        if removed:
            log.info("removed the folders of %d leases that ended more than %s ago", removed, self._kept_for)
        for others in self._others:
            if gone := await others.remove_folders(unchanged_since=before):
                log.info(
                    "removed the folders of %d %s in which nothing was written for %s", gone, others.of, self._kept_for
                )

    async def _remove(self, folder: LeaseFolder) -> bool:
        try:
            return await self._folders.remove(folder)
        except UnavailableError as error:
            # The others are removed even if this one cannot be.
            log.warning("%s", error.message)
            return False

    def interrupted(self) -> None:
        """Nothing is kept between turns."""


def _has_served(instance: Instance | None, before: datetime) -> bool:
    return instance is None or (instance.has_ended and instance.since < before)
