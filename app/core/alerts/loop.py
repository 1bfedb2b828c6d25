"""Lasting conditions: open transactions, observers without data, runs that crash or do not progress."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from app.core.alerts.alert import Alert
from app.core.alerts.conditions import WATCHED, AlertBounds, FirstSeen, SeenConditions, changes, seen
from app.core.alerts.lag_conditions import lag_conditions
from app.core.alerts.service import raise_alert, resolve_alert
from app.core.alerts.store.webhooks import RaisedAlertStore
from app.core.alerts.told import crash_loop_alert, not_progressing_alert
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.lag.service import Lags
from app.core.observing.service.observations import Observations
from app.core.runs.store.runs import RunStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskStatus
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory


class AlertWatch:
    """Compares this server's observer and the runs with the raised alerts. One server at a time does."""

    name = "alerts"

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        observations: Observations,
        lags: Lags,
        clock: Clock,
        bounds: AlertBounds,
        period_s: float = 5.0,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._observations = observations
        self._lags = lags
        self._clock = clock
        self._bounds = bounds
        self._first_seen = FirstSeen()
        self.period_s = period_s

    async def turn(self) -> None:
        now = self._clock.now()
        async with self._unit_of_work() as uow:
            clusters = await uow.of(ClusterStore).list_all()
            runs = await uow.of(RunStore).list_live()
            tasks = await uow.of(TaskStore).list_not_progressing([run.id for run in runs])
            raised = await uow.of(RaisedAlertStore).list(WATCHED)
        # Off the event loop: a check of 50,000 ids takes tens of milliseconds.
        now_seen = await asyncio.to_thread(self._look, clusters, raised)
        loops = [alert for run in runs if (alert := crash_loop_alert(run, now=now)) is not None]
        of_run: defaultdict[str, list[TaskStatus]] = defaultdict(list)
        for status in tasks:
            of_run[status.run_id].append(status)
        still = [alert for run in runs if (alert := not_progressing_alert(run, of_run[run.id], now=now)) is not None]
        reports = {report.cluster: report for report in self._lags.reports()}
        lag, unknown = lag_conditions(clusters, reports, self._bounds, raised=raised, now=now)
        now_seen = replace(
            now_seen,
            conditions=(*now_seen.conditions, *loops, *still, *lag),
            undecided=now_seen.undecided | unknown,
        )
        new, over = changes(raised, now_seen, registered={one.kafka_cluster_id for one in clusters}, now=now)
        if not new and not over:
            return
        async with self._unit_of_work() as uow:
            # The end comes first: a journal that was not read and is now behind is one subject, and stays open.
            for alert in over:
                await resolve_alert(uow, alert.kind, alert.subject, now=now)
            for alert in new:
                await raise_alert(uow, alert)
            await uow.commit()

    def interrupted(self) -> None:
        """Raised alerts are in Postgres."""

    def _look(self, clusters: list[Cluster], raised: Sequence[Alert]) -> SeenConditions:
        snapshots = {one.name: self._observations.of(one.name) for one in clusters}
        return seen(
            clusters,
            snapshots,
            self._bounds,
            now=self._clock.now(),
            first_seen=self._first_seen,
            raised=raised,
            blocked=self._observations.blocked(),
        )
