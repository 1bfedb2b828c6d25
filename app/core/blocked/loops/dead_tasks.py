"""End the open transactions of dead tasks, and remove their members from their groups.

Every server runs this loop, since only the server on a driver's host can observe its processes. The loop stores
nothing: it reads leases, coordinators and groups again. So if a server dies, another one continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.dead_tasks import DeadEnd, DeadMember, DeadTask, dead_task, why_attempt_gone, why_gone
from app.core.blocked.service.dead_tasks import EndedDeadTask, end_what_is_left
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import Instance
from app.core.runs.launcher import SparkLauncher
from app.core.runs.observation import ReportedProcess
from app.core.runs.store.instances import InstanceStore
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import GoneBy, TaskReport
from app.core.wire.heartbeat import DriverHeartbeat
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
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
    """The evidence of an attempt's death, and the state of its treatment: done, or the next time.

    by: as its driver reports it; None: its own process was found here, and has ended.
    """

    by: GoneBy | None
    since: datetime
    due: datetime
    tries: int = 0
    is_done: bool = False


class DeadTasks:
    """Check each lease that ended lately until it is done, at growing intervals.

    Also check attempts of live leases that their own driver reports as dead, or whose process on this host has ended.
    """

    wakes = frozenset({"run"})

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        brokers: TransactionBrokers,
        launcher: SparkLauncher,
        clock: Clock,
        host: str,
        where: str,
        period_s: float = 0.5,
    ) -> None:
        self.name = f"dead tasks of {where}"
        self.period_s = period_s
        self.is_idle = False
        self._unit_of_work = unit_of_work
        self._brokers = brokers
        self._launcher = launcher
        self._clock = clock
        self._host = host
        self._again: dict[Lease, tuple[int, datetime]] = {}
        self._done: dict[Lease, datetime] = {}
        self._heard: dict[_Attempt, _Heard] = {}
        # As the newest turn read them.
        self._ended_leases: frozenset[Lease] = frozenset()
        self._reported: tuple[ReportedProcess, ...] = ()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._member_counts: Counter[tuple[str, str]] = Counter()
        self._few = asyncio.Semaphore(AT_ONCE)

    def counts(self) -> Mapping[tuple[str, str], int]:
        """The results for transactions by (cluster, result), since this server started; each repetition counts."""
        return self._counts

    def member_counts(self) -> Mapping[tuple[str, str], int]:
        """The same for members."""
        return self._member_counts

    def hear(self, said: DriverHeartbeat) -> None:
        """Take a report of a lease's current driver. It repeats the report, so that this is not stored."""
        now = self._clock.now()
        for gone in said.gone:
            attempt = (said.run_id, said.ordinal, said.lease, gone.task, gone.attempt)
            self._heard.setdefault(attempt, _Heard(by=gone.by, since=now, due=now))
        self._forget(now)

    def _notice(self, ended: Sequence[ReportedProcess], now: datetime) -> None:
        """Take the end of an attempt's own process; the driver's report of its executor would be acted on later."""
        for one in ended:
            attempt = (one.run_id, one.ordinal, one.lease, one.task, one.attempt)
            known = self._heard.get(attempt)
            if known is None or (known.by is GoneBy.EXECUTOR and not known.is_done):
                self._heard[attempt] = _Heard(by=None, since=now, due=now)

    def interrupted(self) -> None:
        """Nothing to undo: finished ends are kept, and the rest is read or reported again."""

    async def glance(self) -> bool:
        """Check the known processes, and whether a further try is due."""
        now = self._clock.now()
        self._notice(await self._launcher.ended_tasks(self._reported), now)
        return not self._told(now) and not any(
            lease not in self._done and self._is_due(lease, now) for lease in self._ended_leases
        )

    async def turn(self) -> None:
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            ended = {_lease(one): one for one in await uow.of(InstanceStore).ended_since(now - LOOKED_AFTER_FOR)}
            reported = await uow.of(TaskStore).processes_on(self._host)
        self._ended_leases, self._reported = frozenset(ended), tuple(reported)
        self._notice(await self._launcher.ended_tasks(reported), now)
        self.is_idle = not (ended or reported or self._heard)
        self._done = {lease: at for lease, at in self._done.items() if lease in ended}
        self._again = {lease: when for lease, when in self._again.items() if lease in ended}
        self._forget(now)
        told = self._told(now)
        due = [one for lease, one in ended.items() if lease not in self._done and self._is_due(lease, now)]
        looks = [*(self._look_after(one) for one in due), *(self._look_after_attempt(at) for at in told)]
        for outcome in await asyncio.gather(*looks, return_exceptions=True):
            if outcome is not None:
                # The error of one lease must not prevent the checks of the others; it is raised after them.
                raise outcome

    def _forget(self, now: datetime) -> None:
        """Also called by `hear`: another server of this host may have the loop's lock."""
        self._heard = {at: heard for at, heard in self._heard.items() if now - heard.since < LOOKED_AFTER_FOR}

    def _told(self, now: datetime) -> list[_Attempt]:
        return [at for at, heard in self._heard.items() if not heard.is_done and now >= heard.due]

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
            left = await self._left_by_attempt(attempt[:3], task=task, attempt=number)
            is_over = left is None or await self._ended_all(left, why)
        self._heard[attempt] = heard._replace(is_done=is_over, tries=heard.tries + 1, due=now + _wait(heard.tries))

    async def _left_by_attempt(self, lease: Lease, *, task: int, attempt: int) -> _Left | None:
        run_id, ordinal, number = lease
        try:
            async with self._unit_of_work() as uow:
                instance = await uow.of(InstanceStore).get(run_id, ordinal, number)
                report = await uow.of(TaskStore).report_of_attempt(
                    run_id=run_id, ordinal=ordinal, lease=number, task=task, attempt=attempt
                )
                return None if report is None else await _of_pipeline(uow, instance, [report])
        except NotFoundError:
            return None

    async def _left_by(self, instance: Instance) -> _Left | None:
        """Return None if the pipeline was removed, so that the work of the lease is not known."""
        try:
            async with self._unit_of_work() as uow:
                reports = await uow.of(TaskStore).left_by_lease(
                    run_id=instance.run_id, ordinal=instance.ordinal, lease=instance.lease
                )
                return await _of_pipeline(uow, instance, reports)
        except NotFoundError:
            return None

    async def _ended(self, instance: Instance, left: _Left) -> bool:
        """Return True if nothing is left to do: every transaction is ended, or was never Fenceline's to end, and no
        member is left.
        """
        seen = await self._launcher.observe(instance, left.definition)
        why = why_gone(instance, seen, now=self._clock.now())
        if why is None:
            return False
        return await self._ended_all(left, why)

    async def _ended_all(self, left: _Left, why: str) -> bool:
        group = left.definition.group_id
        found = [dead_task(report, pipeline=left.pipeline, group=group, why=why) for report in left.reports]
        results = [await self._end(left.cluster, dead) for dead in found if dead is not None]
        return all(result.is_final for result in results)

    async def _end(self, cluster: Cluster, dead: DeadTask) -> EndedDeadTask:
        ended = await end_what_is_left(self._unit_of_work, self._brokers, cluster, dead, clock=self._clock)
        if ended.transaction is not None:
            self._counts[cluster.name, ended.transaction.value] += 1
        if ended.member is not None:
            self._member_counts[cluster.name, ended.member.value] += 1
        _tell(dead, ended)
        return ended


async def _of_pipeline(uow: UnitOfWork, instance: Instance, reports: list[TaskReport]) -> _Left:
    run = await uow.of(RunStore).get(instance.run_id)
    revision = await uow.of(PipelineStore).get_revision(run.pipeline, instance.revision)
    cluster = await uow.of(ClusterStore).get(run.cluster)
    return _Left(run.pipeline, cluster, revision.definition, reports)


def _tell(dead: DeadTask, ended: EndedDeadTask) -> None:
    who = f"{dead.task_name} of {dead.pipeline}"
    if ended.transaction is DeadEnd.ENDED:
        log.info("ended the transaction that %s left open: %s", who, dead.why)
    if ended.member is DeadMember.REMOVED:
        log.info("removed the member %s of %s from the group %s: %s", dead.member_id, who, dead.group, dead.why)
    for reason in ended.said:
        log.warning("%s leaves its partitions or its consumers blocked until a timeout: %s", who, reason)


def _wait(tries: int) -> timedelta:
    return min(LONGEST_WAIT, timedelta(seconds=2.0 ** min(tries, 10) / 2))


def _lease(instance: Instance) -> Lease:
    return instance.run_id, instance.ordinal, instance.lease
