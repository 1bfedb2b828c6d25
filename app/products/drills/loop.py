"""The loop of open drills: observe their pipelines, record events, judge, and request audits.

The processes of instances freeze or kill themselves. Only a server is frozen here, by the server that holds this loop's
lock.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from msgspec.structs import replace

from app.core.asked_batches import AskedBatches
from app.core.observing.service.observations import Observations
from app.core.runs.store.runs import RunStore
from app.core.wire.drill import ActStep
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from app.products.drills import judging
from app.products.drills.drill import Drill, DrillKind, DrillState, Target
from app.products.drills.ports import FreezeSelf
from app.products.drills.service.drills import NOTICE, audit_word, notify, replace_frozen_driver
from app.products.drills.service.looks import look_at, markers_of
from app.products.drills.store import DrillStore

LOOK_EVERY_S = 0.5
"""Interval of observation, which is also the precision of recovery times."""
SERVER_GOES_AFTER = timedelta(seconds=3)
"""Delay before a server freezes, so that the user sees the page of the drill first."""


MARKERS_READ_WITHIN = timedelta(seconds=15)
"""Time after the recovery in which the group's journal may be read less far than batches are reported."""


class DrillWatch:
    """Observe open drills, on one server at a time."""

    name = "drills"
    wakes = frozenset({NOTICE})

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        observations: Observations,
        freeze_self: FreezeSelf,
        clock: Clock,
        host: str,
        idle_s: float = 1.0,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._observations = observations
        self._freeze_self = freeze_self
        self._clock = clock
        self._host = host
        self._idle_s = idle_s
        self.period_s = idle_s
        self.is_idle = False

    async def turn(self) -> None:
        async with self._unit_of_work() as uow:
            found = await uow.of(DrillStore).list_open()
        self.period_s = LOOK_EVERY_S if found else self._idle_s
        self.is_idle = not found
        # The running drill first: the precision of its recovery time depends on the time of observation.
        for drill in sorted(found, key=lambda one: one.state is DrillState.AUDITING):
            await self._follow(drill)

    async def _follow(self, drill: Drill) -> None:
        if drill.state is DrillState.AUDITING:
            await self._change(drill, self._audited)
            return
        drill = await self._change(drill, self._seen)
        now = self._clock.now()
        is_time = drill.kind is DrillKind.FREEZE_SERVER and now - drill.ordered_at >= SERVER_GOES_AFTER
        if is_time and drill.may_begin(now) and not drill.targets:
            await self._take_the_server_away(drill)

    def interrupted(self) -> None:
        """Do nothing, as the loop has no state between turns."""

    async def _seen(self, uow: UnitOfWork, drill: Drill, now: datetime) -> Drill:
        run = await uow.of(RunStore).get(drill.run_id)
        look = await look_at(uow, self._observations.of(drill.plan.cluster), drill, now=now)
        drill = judging.see(drill, look)
        drill = await replace_frozen_driver(uow, drill, now=now)
        return judging.advance(drill, now=now, run_is_live=run.ended_at is None)

    async def _take_the_server_away(self, drill: Drill) -> None:
        """Commit the claim first, so that the server is frozen once, then freeze it without an open transaction."""
        target = Target(host=self._host, pid=os.getpid(), since=self._clock.now())

        async def claim(_: UnitOfWork, drill: Drill, now: datetime) -> Drill:
            if not drill.may_begin(now) or drill.targets:
                return drill
            return judging.hear(replace(drill, targets=(target,)), target, ActStep.CLAIMED, now=now)

        claimed = await self._change(drill, claim)
        if not claimed.targets:
            return
        problem = await self._freeze_self(claimed.plan.for_s)

        async def over(_: UnitOfWork, drill: Drill, now: datetime) -> Drill:
            if problem:
                return judging.hear(drill, drill.targets[0], ActStep.REFUSED, now=now, message=problem)
            drill = judging.hear(drill, drill.targets[0], ActStep.FROZEN, now=drill.targets[0].since)
            return judging.hear(drill, drill.targets[0], ActStep.THAWED, now=now)

        await self._change(claimed, over)

    async def _audited(self, uow: UnitOfWork, drill: Drill, now: datetime) -> Drill:
        word = await audit_word(uow, drill, now=now)
        drill = replace(drill, audit_id=word.audit_id)
        if drill.is_of_query and word.no_audit and drill.recovered_at is not None:
            markers = markers_of(self._observations.of(drill.plan.cluster), drill)
            batches = await uow.part(AskedBatches).figures(uow, drill.pipeline, since=drill.ordered_at, markers=markers)
            if batches.wrong and now - drill.recovered_at < MARKERS_READ_WITHIN:
                return drill
            return judging.conclude_by_batches(drill, batches, no_audit=word.no_audit, now=now)
        return judging.conclude(drill, word.figures, no_audit=word.no_audit, now=now) if word.is_through else drill

    async def _change(self, drill: Drill, change: Callable[[UnitOfWork, Drill, datetime], Awaitable[Drill]]) -> Drill:
        """Apply `change` to the drill's locked row, and return the drill."""
        async with self._unit_of_work() as uow:
            before = await uow.of(DrillStore).get(drill.id, for_update=True)
            if not before.is_open:
                return before
            after = await change(uow, before, self._clock.now())
            if after != before:
                await uow.of(DrillStore).save(after)
                if after.entries != before.entries or after.state is not before.state:
                    notify(uow, after)
                await uow.commit()
            return after
