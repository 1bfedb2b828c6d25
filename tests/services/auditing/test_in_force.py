"""Whose instances lived in a span of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from app.domain.audits.doubts import InForce
from app.domain.page import Page
from app.domain.runs.instance import Instance, InstanceState
from app.domain.runs.run import DesiredRunState, Run, RunState
from app.services.auditing import in_force
from tests.support.audit_samples import HOUR, NOON

MINUTE = timedelta(minutes=1)


def run(id_: str, begin: datetime, end: datetime | None = None) -> Run:
    return Run(
        id=id_,
        pipeline="flights",
        cluster="c",
        kafka_cluster_id="k",
        revision=9,
        desired=DesiredRunState.RUN,
        state=RunState.RUNNING,
        started_at=begin,
        started_by="anna",
        ended_at=end,
    )


def lease(run_id: str, revision: int, begin: datetime | None, end: datetime | None = None) -> Instance:
    return Instance(
        run_id=run_id,
        ordinal=0,
        lease=1,
        revision=revision,
        state=InstanceState.RUNNING if end is None else InstanceState.STOPPED,
        since=end or begin or NOON - MINUTE,
        leased_at=begin or NOON - MINUTE,
        claimed_at=begin,
    )


class Uow:
    """Pages of one run each, the newest first."""

    def __init__(self, runs: Sequence[Run], leases: Sequence[Instance]) -> None:
        self._runs, self._leases = runs, leases
        self.runs = self.instances = self

    async def list(self, run_id: str = "", **asked: Any) -> Any:
        if run_id:
            return [one for one in self._leases if one.run_id == run_id]
        at = int(asked["after"] or 0)
        return Page(items=(self._runs[at],), next_cursor=str(at + 1) if at + 1 < len(self._runs) else None)


async def found(runs: Sequence[Run], leases: Sequence[Instance], begin: datetime | None = NOON - HOUR) -> InForce:
    uow: Any = Uow(runs, leases)
    return await in_force.revisions_in_force(uow, "flights", begin, NOON)


RUNS = [run("new", NOON - 30 * MINUTE), run("old", NOON - 5 * HOUR, NOON - 31 * MINUTE)]


async def test_revisions_whose_instances_lived_in_it() -> None:
    leases = [
        lease("new", 7, NOON - 29 * MINUTE),
        lease("old", 6, NOON - 2 * HOUR, NOON - 31 * MINUTE),
        lease("old", 5, NOON - 5 * HOUR, NOON - 2 * HOUR),
    ]
    assert await found(RUNS, leases) == InForce(revisions=(7, 6))


async def test_one_that_never_came_up_or_came_later_did_not() -> None:
    leases = [
        lease("new", 8, None),
        lease("new", 7, NOON + MINUTE),
        lease("old", 6, NOON - 5 * HOUR, NOON - 31 * MINUTE),
    ]
    assert await found(RUNS, leases) == InForce(revisions=(6,))


async def test_a_pipeline_that_began_in_it() -> None:
    assert await found(RUNS[:1], [lease("new", 7, NOON - 29 * MINUTE)]) == InForce(
        revisions=(7,), begun_at=NOON - 30 * MINUTE
    )


async def test_what_ended_before_it_is_not_looked_at_but_known_of() -> None:
    runs = [RUNS[0], run("older", NOON - 9 * HOUR, NOON - 8 * HOUR)]
    assert await found(runs, [lease("new", 7, NOON - 29 * MINUTE)]) == InForce(revisions=(7,))


async def test_without_a_begin_everything_counts() -> None:
    leases = [lease("new", 7, NOON - 29 * MINUTE), lease("old", 6, NOON - 5 * HOUR, NOON - 31 * MINUTE)]
    assert await found(RUNS, leases, begin=None) == InForce(revisions=(7, 6), begun_at=NOON - 5 * HOUR)
