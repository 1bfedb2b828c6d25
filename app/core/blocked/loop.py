"""End the open transactions of dead tasks of ended leases.

Every server runs this loop, since only the server on a driver's host can observe its process. The loop stores nothing:
it reads leases and coordinators again. So if a server dies, another one continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.dead_tasks import DeadEnd, DeadProducer, dead_producer, why_attempt_gone, why_gone
from app.core.blocked.service.dead_tasks import EndedDeadTask, end_what_is_left
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import Instance
from app.core.runs.launcher import SparkLauncher
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import GoneBy, TaskReport
from app.core.wire.heartbeat import DriverHeartbeat
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import NotFoundError

log = logging.getLogger(__name__)

LOOKED_AFTER_FOR = timedelta(minutes=15)
"""The brokers' default for the longest transaction timeout. After it, the coordinator has ended the transaction."""
LONGEST_WAIT = timedelta(seconds=30)
AT_ONCE = 8
"""The number of leases checked at once; one whose brokers do not answer takes 5 s."""

Lease = tuple[str, int, int]
_Attempt = tuple[str, int, int, int, int]


class _Left(NamedTuple):
    """The records about an ended lease."""

    pipeline: str
    cluster: Cluster
    definition: PipelineDefinition
    reports: list[TaskReport]


class _Heard(NamedTuple):
    """A driver's report of a dead attempt of its own, and the state of its treatment: done, or the next time."""

    by: GoneBy
    since: datetime
    due: datetime
    tries: int = 0
    is_done: bool = False


class DeadTasks:
    """Check each lease that ended lately until it is done, at growing intervals.

    Also check attempts of live leases that their own driver reports as dead.
    """

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
        self._heard: dict[_Attempt, _Heard] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._few = asyncio.Semaphore(AT_ONCE)

    def counts(self) -> Mapping[tuple[str, str], int]:
        """By (cluster, result), since this server started; each repetition counts."""
        return self._counts

    def hear(self, said: DriverHeartbeat) -> None:
        """Take a report of a lease's current driver. It repeats the report, so that this is not stored."""
        now = self._clock.now()
        for gone in said.gone:
            attempt = (said.run_id, said.ordinal, said.lease, gone.task, gone.attempt)
            self._heard.setdefault(attempt, _Heard(by=gone.by, since=now, due=now))
        self._forget(now)

    def interrupted(self) -> None:
        """Nothing to undo: finished ends are kept, and the rest is read or reported again."""

    async def turn(self) -> None:
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            ended = {_lease(one): one for one in await uow.of(InstanceStore).ended_since(now - LOOKED_AFTER_FOR)}
        self._done = {lease: at for lease, at in self._done.items() if lease in ended}
        self._again = {lease: when for lease, when in self._again.items() if lease in ended}
        self._forget(now)
        told = [at for at, heard in self._heard.items() if not heard.is_done and now >= heard.due]
        due = [one for lease, one in ended.items() if lease not in self._done and self._is_due(lease, now)]
        looks = [*(self._look_after(one) for one in due), *(self._look_after_attempt(at) for at in told)]
        for outcome in await asyncio.gather(*looks, return_exceptions=True):
            if outcome is not None:
                # The error of one lease must not prevent the checks of the others; it is raised after them.
                raise outcome

    def _forget(self, now: datetime) -> None:
        """Also called by `hear`: another server of this host may have the loop's lock."""
        self._heard = {at: heard for at, heard in self._heard.items() if now - heard.since < LOOKED_AFTER_FOR}

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
        self._again[lease] = tries + 1, now + _wait(tries)

    async def _look_after_attempt(self, attempt: _Attempt) -> None:
        *_, task, number = attempt
        heard, now = self._heard[attempt], self._clock.now()
        why = why_attempt_gone(heard.by, since=heard.since, now=now)
        if why is None:
            return
        async with self._few:
            left = await self._left_by_lease(attempt[:3])
            # If the task's next attempt has a producer, its init has ended the transaction.
            reports = [] if left is None else [one for one in left.reports if (one.task, one.attempt) == (task, number)]
            is_over = left is None or await self._ended_all(left, reports, why)
        self._heard[attempt] = heard._replace(is_done=is_over, tries=heard.tries + 1, due=now + _wait(heard.tries))

    async def _left_by_lease(self, lease: Lease) -> _Left | None:
        run_id, ordinal, number = lease
        try:
            async with self._unit_of_work() as uow:
                instance = await uow.of(InstanceStore).get(run_id, ordinal, number)
        except NotFoundError:
            return None
        return await self._left_by(instance)

    async def _left_by(self, instance: Instance) -> _Left | None:
        """Return None if the pipeline was removed, so that the work of the lease is not known."""
        try:
            async with self._unit_of_work() as uow:
                run = await uow.of(RunStore).get(instance.run_id)
                revision = await uow.of(PipelineStore).get_revision(run.pipeline, instance.revision)
                cluster = await uow.of(ClusterStore).get(run.cluster)
                reports = await uow.of(TaskStore).producers_of_lease(
                    run_id=instance.run_id, ordinal=instance.ordinal, lease=instance.lease
                )
        except NotFoundError:
            return None
        return _Left(run.pipeline, cluster, revision.definition, reports)

    async def _ended(self, instance: Instance, left: _Left) -> bool:
        """Return True if nothing is left to do: every transaction is ended, or was never Fenceline's to end."""
        seen = await self._launcher.observe(instance, left.definition)
        why = why_gone(instance, seen, now=self._clock.now())
        if why is None:
            return False
        return await self._ended_all(left, left.reports, why)

    async def _ended_all(self, left: _Left, reports: list[TaskReport], why: str) -> bool:
        found = [dead_producer(report, pipeline=left.pipeline, why=why) for report in reports]
        results = [await self._end(left.cluster, dead) for dead in found if dead is not None]
        return all(result.is_final for result in results)

    async def _end(self, cluster: Cluster, dead: DeadProducer) -> DeadEnd:
        ended = await end_what_is_left(self._unit_of_work, self._brokers, cluster, dead, clock=self._clock)
        self._counts[cluster.name, ended.result.value] += 1
        self._tell(dead, ended)
        return ended.result

    def _tell(self, dead: DeadProducer, ended: EndedDeadTask) -> None:
        who = f"{dead.task_name} of {dead.pipeline} ({dead.transactional_id})"
        if ended.result is DeadEnd.ENDED:
            log.info("ended the transaction that %s left open: %s", who, dead.why)
        elif ended.said:
            log.warning("the transaction that %s left open blocks its consumers until its timeout: %s", who, ended.said)


def _wait(tries: int) -> timedelta:
    return min(LONGEST_WAIT, timedelta(seconds=2.0 ** min(tries, 10) / 2))


def _lease(instance: Instance) -> Lease:
    return instance.run_id, instance.ordinal, instance.lease
