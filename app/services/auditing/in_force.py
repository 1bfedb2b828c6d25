"""Which revisions of a pipeline worked in a span of time: by the leases of its instances."""

from __future__ import annotations

from datetime import datetime

from app.domain.audits.audit import Audit
from app.domain.audits.doubts import InForce, doubts_of, span_in_force
from app.domain.audits.result import Gap
from app.domain.runs.run import Run
from app.ports.unit_of_work import UnitOfWork

_PAGE = 100


async def revisions_in_force(uow: UnitOfWork, pipeline: str, begin: datetime | None, until: datetime | None) -> InForce:
    """None: from the first start, or up to now."""
    found: set[int] = set()
    oldest: Run | None = None
    after: str | None = None
    while True:
        page = await uow.runs.list(pipeline=pipeline, after=after, limit=_PAGE)
        for run in page.items:
            if begin is not None and run.ended_at is not None and run.ended_at <= begin:
                # Runs of a pipeline follow each other.
                return InForce(revisions=tuple(sorted(found, reverse=True)))
            oldest = run
            if until is None or run.started_at < until:
                found |= await _of_run(uow, run, begin, until)
        after = page.next_cursor
        if after is None:
            break
    begun_at = None if oldest is None or (begin is not None and oldest.started_at <= begin) else oldest.started_at
    return InForce(revisions=tuple(sorted(found, reverse=True)), begun_at=begun_at)


async def _of_run(uow: UnitOfWork, run: Run, begin: datetime | None, until: datetime | None) -> set[int]:
    return {
        lease.revision
        for lease in await uow.instances.list(run.id, with_history=True)
        if lease.claimed_at is not None
        and (until is None or lease.claimed_at < until)
        and (begin is None or not lease.has_ended or lease.since > begin)
    }


async def doubts_about(uow: UnitOfWork, audit: Audit, *, now: datetime) -> tuple[Gap, ...]:
    """Of an audit that begins now. One that waited for its pipeline was processed later than its padding says."""
    begin, until = span_in_force(audit.window, padding_s=audit.padding_s)
    if until is not None and audit.is_scheduled:
        until = max(until, now)
    in_force = await revisions_in_force(uow, audit.pipeline, begin, until)
    judged_by = await uow.pipelines.get_revision(audit.pipeline, audit.revision)
    others = [
        await uow.pipelines.get_revision(audit.pipeline, number)
        for number in in_force.revisions
        if number != audit.revision
    ]
    return doubts_of(audit.window, in_force, judged_by=judged_by, others=others)
