"""Find the leases of a query that may have initialised an id, in the database."""

from __future__ import annotations

from app.core.fencing.evidence import CoordinatorRecord, LeaseWord
from app.core.fencing.fencing_event import FencingCause, FencingEvent, FencingKind
from app.core.fencing.store import FencingStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.storable import moment_of_ms

_BY_ANOTHER = frozenset(
    {
        FencingCause.TAKEOVER,
        FencingCause.APPLICATION_RETURNED,
        FencingCause.NEWER_DRIVER,
        FencingCause.NEWER_ATTEMPT,
    }
)


async def leases_for(uow: UnitOfWork, event: FencingEvent) -> tuple[LeaseWord, ...]:
    """Return the newest leases up to the event's last record; none for ids of other pipelines and other causes."""
    if event.key.kind is not FencingKind.EPOCH or event.verdict.cause not in _BY_ANOTHER:
        return ()
    records = [one.at_ms for one in event.evidence if isinstance(one, CoordinatorRecord)]
    return await uow.of(FencingStore).leases_of_query(event.key, until=moment_of_ms(max(records)))
