"""The offset log: store the events of tasks, and replay them, live and on request."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from app.core.alerts.service import tell
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.core.overview.product_views import Panel
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.needs import Need
from app.core.wire.heartbeat import TaskHeartbeat
from app.core.wire.offset_report import Init
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.storable import moment_of_ms, storable
from app.products.offset_log.alerts import contradiction_alert
from app.products.offset_log.check import PipelineCheck, check
from app.products.offset_log.heard import ReportedOffsets
from app.products.offset_log.hearing import unheard_inits
from app.products.offset_log.needs import contradiction_need
from app.products.offset_log.record import MARKED_FOR, CheckRecord, FindingRecord
from app.products.offset_log.silence import Attempted
from app.products.offset_log.store import OffsetLogStore

LIVE_SPAN = timedelta(hours=1)
"""Range of the live replay. A contradiction in it is replayed with all kept events before it is reported."""
FINDINGS_SHOWN = 50
FINDINGS_TOLD = 5
"""Most alerts of one pipeline in one turn: one fault causes contradictions in many partitions."""


class OffsetLog(msgspec.Struct, frozen=True, kw_only=True):
    """The status without a new check. last: None without events. findings: the newest."""

    last: CheckRecord | None
    findings: tuple[FindingRecord, ...]


async def keep(uow: UnitOfWork, heartbeat: TaskHeartbeat, *, database_epoch: str, now: datetime) -> bool:
    """Store the offset events of a heartbeat, whose lease is already checked. Return false if they are not stored.

    A report for another database epoch lacks the events that the other database had, and would count as complete. After
    a restore the task reports all events again, once an answer has named the current epoch.

    The write is durable, unlike the rest of a heartbeat: stored events are not reported again. An event that went back
    to its state before it grew would look like skipped records.
    """
    heartbeat = storable(heartbeat)
    if heartbeat.offsets is None or heartbeat.offsets.database_epoch not in (None, database_epoch):
        return False
    await uow.of(OffsetLogStore).add(heartbeat, heartbeat.offsets, now=now)
    return True


async def verify(
    uow: UnitOfWork, observations: Observations, *, pipeline: str, since: datetime | None, now: datetime
) -> PipelineCheck:
    """Replay the pipeline's events since then (None: all that is kept). Nothing is written.

    Raises NotFoundError when there is no such pipeline.
    """
    record = await uow.of(PipelineStore).get(pipeline)
    heard = await uow.of(OffsetLogStore).heard(pipeline, since=since)
    inits = await uow.of(OffsetLogStore).inits(pipeline)
    snapshot = observations.of(record.cluster)
    found = await asyncio.to_thread(_check, heard, inits, (), snapshot, since, now)
    suspected = {(one.group, one.topic, one.partition) for one in found.findings}
    if not suspected:
        return found
    # A dead attempt may have filled the gap without a report of it.
    attempted = await uow.of(OffsetLogStore).attempted(pipeline)
    if since is not None:
        # Earlier events may fill it: an attempt without connection reports late.
        whole = await uow.of(OffsetLogStore).heard(pipeline, since=None, places=sorted(suspected))
        heard = [one for one in heard if one.place not in suspected] + [one for one in whole if one.place in suspected]
    return await asyncio.to_thread(_check, heard, inits, attempted, snapshot, since, now)


async def check_live(uow: UnitOfWork, observations: Observations, *, pipeline: str, now: datetime) -> int:
    """Replay the last hour, and store its status and contradictions. Return the number of new contradictions.

    Each is reported once, also with several servers.
    """
    found = await verify(uow, observations, pipeline=pipeline, since=now - LIVE_SPAN, now=now)
    await uow.of(OffsetLogStore).note_check(pipeline, found)
    new = await uow.of(OffsetLogStore).add_findings(pipeline, found.findings, now=now)
    if new:
        record = await uow.of(PipelineStore).get(pipeline)
        for finding in new[:FINDINGS_TOLD]:
            await tell(uow, contradiction_alert(record, finding, others=len(new) - 1, now=now))
        uow.notify("pipeline", pipeline)
    return len(new)


async def log_of(uow: UnitOfWork, pipeline: Pipeline) -> OffsetLog | None:
    """None where tasks record none, since their offsets may go back."""
    if pipeline.definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE:
        return None
    return await _kept(uow, pipeline.name)


async def panel_of(uow: UnitOfWork, pipeline: Pipeline, now: datetime) -> Panel | None:
    """The section of the pipeline's page; None for a query, which has a checkpoint and reports no offsets."""
    del now
    if pipeline.definition.dataframe is not None:
        return None
    return Panel(template="components/offset_log_panel.html", content=await log_of(uow, pipeline))


async def look(uow: UnitOfWork, *, pipeline: str) -> OffsetLog:
    """Return the newest live check, and every contradiction that is kept, newest first.

    Raises NotFoundError when there is no such pipeline.
    """
    await uow.of(PipelineStore).get(pipeline)
    return await _kept(uow, pipeline)


async def _kept(uow: UnitOfWork, pipeline: str) -> OffsetLog:
    return OffsetLog(
        last=await uow.of(OffsetLogStore).last_check(pipeline),
        findings=tuple(await uow.of(OffsetLogStore).findings(pipeline, limit=FINDINGS_SHOWN)),
    )


def _check(
    heard: Collection[ReportedOffsets],
    inits: Mapping[str, Sequence[Init]],
    attempted: Sequence[Attempted],
    snapshot: Snapshot,
    since: datetime | None,
    now: datetime,
) -> PipelineCheck:
    newest = max((one.newest_at for one in heard if one.newest_at is not None), default=None)
    unheard = () if newest is None else _unheard(inits, snapshot, newest)
    return check(heard, unheard=unheard, attempted=attempted, since=since, until=now)


def _unheard(inits: Mapping[str, Sequence[Init]], snapshot: Snapshot, newest: datetime) -> tuple[str, ...]:
    """Compare the coordinators' state of the pipeline's ids with the reported inits."""
    journal = snapshot.transaction_journal
    is_read = journal.phase in (ReadingPhase.LIVE, ReadingPhase.REFUSED) and journal.as_of_ms >= 0
    if not is_read or moment_of_ms(journal.as_of_ms) < newest:
        return ("the inits that the coordinators know are not read up to now",)
    known = snapshot.transactions
    now = {
        name: Init(known[name].state.producer_id, known[name].state.producer_epoch) if name in known else None
        for name in inits
    }
    return unheard_inits(inits, now)


async def contradiction_needs(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime
) -> Mapping[str, Sequence[Need]]:
    """Return an issue for each pipeline with contradicting offset events of the last days."""
    del pipelines  # one statement reads all
    found = await uow.of(OffsetLogStore).contradicted(since=now - MARKED_FOR)
    return {name: (contradiction_need(name, number),) for name, number in found.items() if number}
