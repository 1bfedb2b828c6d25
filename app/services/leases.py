"""Leases: the numbers under which an ordinal of a run is given to one application after another."""

from __future__ import annotations

from datetime import datetime

from app.domain.errors import ConflictError
from app.domain.instance import Instance, InstanceState
from app.domain.run import Run
from app.ports.unit_of_work import UnitOfWork


async def add_lease(uow: UnitOfWork, *, run: Run, ordinal: int, previous: Instance | None, now: datetime) -> Instance:
    """Write the next lease of an ordinal, PENDING, at the run's revision.

    Raises ConflictError while the previous lease lives: two applications must never hold one ordinal.
    """
    if previous is not None and not previous.has_ended:
        raise ConflictError(
            f"instance {ordinal} of run {run.id} is {previous.state} under lease {previous.lease}: "
            "it can be leased again only after it has stopped, failed or is known to be lost"
        )
    instance = Instance(
        run_id=run.id,
        ordinal=ordinal,
        lease=1 if previous is None else previous.lease + 1,
        revision=run.revision,
        state=InstanceState.PENDING,
        since=now,
        leased_at=now,
    )
    await uow.instances.add(instance)
    return instance
