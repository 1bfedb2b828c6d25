"""Looks after leases that have ended: what their tasks left open is ended, once it is known that they are gone.

Every server does it for itself, since only the one on a driver's host can look at its process. Nothing is kept: what
is to be done is read from the leases and from the coordinators, so a server that dies leaves it to the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from app.domain.clusters.cluster import Cluster
from app.domain.errors import NotFoundError
from app.domain.pipelines.pipeline import PipelineDefinition
from app.domain.runs.instance import Instance
from app.domain.runs.task import TaskReport
from app.domain.stuck.dead_tasks import DeadEnd, DeadProducer, dead_producer, why_gone
from app.ports.clock import Clock
from app.ports.spark import SparkLauncher
from app.ports.transactions import TransactionBrokers
from app.ports.unit_of_work import UnitOfWorkFactory
from app.services.stuck.dead_tasks import Ended, end_what_is_left

log = logging.getLogger(__name__)

LOOKED_AFTER_FOR = timedelta(minutes=15)
"""The longest transaction timeout that brokers allow unless told otherwise: then their coordinator has ended it."""
LONGEST_WAIT = timedelta(seconds=30)
AT_ONCE = 8
"""So many leases are looked after at once; one whose brokers are silent takes 5 s."""

Lease = tuple[str, int, int]


class _Left(NamedTuple):
    """What is known of an ended lease."""

    pipeline: str
    cluster: Cluster
    definition: PipelineDefinition
    reports: list[TaskReport]


class DeadTasks:
    """Looks at each lease that has ended lately until it is done with, less and less often."""

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: TransactionBrokers,
        launcher: SparkLauncher,
        clock: Clock,
        where: str,
        period_s: float = 0.5,
    ) -> None:
        self.name = f"dead tasks of {where}"
        self.period_s = period_s
        self._unit_of_work = unit_of_work
        self._brokers = brokers
        self._launcher = launcher
        self._clock = clock
        self._again: dict[Lease, tuple[int, datetime]] = {}
        self._done: dict[Lease, datetime] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._few = asyncio.Semaphore(AT_ONCE)

    def counts(self) -> Mapping[tuple[str, str], int]:
        """By (cluster, result), since this server began; what is tried again counts once for each try."""
        return self._counts

    def interrupted(self) -> None:
        """What was done with stays so; the rest is read anew in any case."""

    async def turn(self) -> None:
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            ended = {_lease(one): one for one in await uow.instances.ended_since(now - LOOKED_AFTER_FOR)}
        self._done = {lease: at for lease, at in self._done.items() if lease in ended}
        self._again = {lease: when for lease, when in self._again.items() if lease in ended}
        due = [one for lease, one in ended.items() if lease not in self._done and self._is_due(lease, now)]
        for outcome in await asyncio.gather(*(self._look_after(one) for one in due), return_exceptions=True):
            if outcome is not None:
                # One lease's trouble must not keep the others from being looked after; it is raised after them.
                raise outcome

    def _is_due(self, lease: Lease, now: datetime) -> bool:
        return lease not in self._again or now >= self._again[lease][1]

    async def _look_after(self, instance: Instance) -> None:
        async with self._few:
            left = await self._left_by(instance)
            is_over = left is None or not left.reports or await self._ended(instance, left)
        lease, now = _lease(instance), self._clock.now()
        if is_over:
            self._again.pop(lease, None)
            self._done[lease] = now
            return
        tries = self._again[lease][0] if lease in self._again else 0
        self._again[lease] = tries + 1, now + min(LONGEST_WAIT, timedelta(seconds=2.0 ** min(tries, 10) / 2))

    async def _left_by(self, instance: Instance) -> _Left | None:
        """None where nobody can say any more what it ran, since its pipeline was removed."""
        try:
            async with self._unit_of_work() as uow:
                run = await uow.runs.get(instance.run_id)
                revision = await uow.pipelines.get_revision(run.pipeline, instance.revision)
                cluster = await uow.clusters.get(run.cluster)
                reports = await uow.tasks.producers_of_lease(
                    run_id=instance.run_id, ordinal=instance.ordinal, lease=instance.lease
                )
        except NotFoundError:
            return None
        return _Left(run.pipeline, cluster, revision.definition, reports)

    async def _ended(self, instance: Instance, left: _Left) -> bool:
        """Whether nothing is left to do: everything of it is ended, or never was ours to end."""
        seen = await self._launcher.observe(instance, left.definition)
        why = why_gone(instance, seen, now=self._clock.now())
        if why is None:
            return False
        found = [dead_producer(report, pipeline=left.pipeline, why=why) for report in left.reports]
        results = [await self._end(left.cluster, dead) for dead in found if dead is not None]
        return all(result.is_final for result in results)

    async def _end(self, cluster: Cluster, dead: DeadProducer) -> DeadEnd:
        ended = await end_what_is_left(self._unit_of_work, self._brokers, cluster, dead, clock=self._clock)
        self._counts[cluster.name, ended.result.value] += 1
        self._tell(dead, ended)
        return ended.result

    def _tell(self, dead: DeadProducer, ended: Ended) -> None:
        who = f"{dead.task_name} of {dead.pipeline} ({dead.transactional_id})"
        if ended.result is DeadEnd.ENDED:
            log.info("ended what %s left open: %s", who, dead.why)
        elif ended.said:
            log.warning(
                "what %s left open is not ended, its readers wait for the transaction timeout: %s", who, ended.said
            )


def _lease(instance: Instance) -> Lease:
    return instance.run_id, instance.ordinal, instance.lease
