"""Leases: the numbers of the applications that run one ordinal, one after another."""

from __future__ import annotations

from datetime import datetime

from app.core.runs.instance import Instance, InstanceState
from app.core.runs.run import Run
from app.core.runs.store.instances import InstanceStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError


async def add_lease(uow: UnitOfWork, *, run: Run, ordinal: int, previous: Instance | None, now: datetime) -> Instance:
    """Write the next lease of an ordinal, PENDING, at its desired revision.

    Raises ConflictError while the previous lease lives: two applications must never have one ordinal.
    """
    if previous is not None and not previous.has_ended:
        raise ConflictError(
            f"instance {ordinal} of run {run.id} is {previous.state} under lease {previous.lease}: "
            "wait until it has ended"
        )
    # Later than the restart it belongs to, even if a clock has gone back. An earlier lease would be bounced again and
    # again, until the clock has caught up.
    leased_at = now if run.bounce_requested_at is None else max(now, run.bounce_requested_at)
    instance = Instance(
        run_id=run.id,
        ordinal=ordinal,
        lease=1 if previous is None else previous.lease + 1,
        revision=run.target_of(ordinal),
        state=InstanceState.PENDING,
        since=now,
        leased_at=leased_at,
    )
    await uow.of(InstanceStore).add(instance)
    return instance
