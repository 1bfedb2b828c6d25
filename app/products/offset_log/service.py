"""The offset log: what tasks tell is kept, and replayed, live and whenever somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from app.core.alerts.service import tell
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import Phase, Snapshot
from app.core.pipelines.pipeline_record import Pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.needs import Need
from app.core.wire.heartbeat import TaskHeartbeat
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.storable import moment_of_ms, storable
from app.products.offset_log.alerts import contradiction_alert
from app.products.offset_log.check import PipelineCheck, check
from app.products.offset_log.heard import Heard
from app.products.offset_log.hearing import Init, unheard_inits
from app.products.offset_log.needs import contradiction_need
from app.products.offset_log.record import MARKED_FOR, CheckRecord, FindingRecord
from app.products.offset_log.silence import Attempted
from app.products.offset_log.store import OffsetLogStore

LIVE_SPAN = timedelta(hours=1)
"""What was told in this time is replayed live; what contradicts there is replayed with all that is kept before it is
said."""
FINDINGS_SHOWN = 50
FINDINGS_TOLD = 5
"""Alerts of one pipeline and one turn: what goes wrong once goes wrong in many partitions."""


class OffsetLog(msgspec.Struct, frozen=True, kw_only=True):
    """What is known without a new check. last: None as long as nothing was told. findings: the newest."""

    last: CheckRecord | None
    findings: tuple[FindingRecord, ...]


async def keep(uow: UnitOfWork, heartbeat: TaskHeartbeat, *, database_epoch: str, now: datetime) -> bool:
    """Keep what a task tells of its offsets. Its lease was checked by whoever took the heartbeat.

    False: not kept. It leaves out what the database of another epoch had, and would be taken for all that there was:
    after an older one was restored the task tells it anew, when the answer has named the epoch of now.

    Durably, unlike the rest of a heartbeat: what is answered as stored is not told again, and an event that went back
    to what it was before it grew would look like records that were skipped.
    """
    heartbeat = storable(heartbeat)
    if heartbeat.offsets is None or heartbeat.offsets.database_epoch not in (None, database_epoch):
        return False
    await uow.of(OffsetLogStore).add(heartbeat, heartbeat.offsets, now=now)
    return True


async def verify(
    uow: UnitOfWork, observations: Observations, *, pipeline: str, since: datetime | None, now: datetime
) -> PipelineCheck:
    """Replay what tasks of the pipeline told since then; None: all that is kept. Nothing is written.

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
    # Who died may have filled the gap without a word of it.
    attempted = await uow.of(OffsetLogStore).attempted(pipeline)
    if since is not None:
        # What was told earlier may fill it: a task that was cut off tells late what it did long ago.
        whole = await uow.of(OffsetLogStore).heard(pipeline, since=None, places=sorted(suspected))
        heard = [one for one in heard if one.place not in suspected] + [one for one in whole if one.place in suspected]
    return await asyncio.to_thread(_check, heard, inits, attempted, snapshot, since, now)


async def check_live(uow: UnitOfWork, observations: Observations, *, pipeline: str, now: datetime) -> int:
    """Replay the last hour; keep how it stands, and what contradicts. How many contradictions are new.

    Each is told once, whoever else checks.
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


async def look(uow: UnitOfWork, *, pipeline: str) -> OffsetLog:
    """What the newest live check said, and every contradiction that is kept, newest first.

    Raises NotFoundError when there is no such pipeline.
    """
    await uow.of(PipelineStore).get(pipeline)
    return OffsetLog(
        last=await uow.of(OffsetLogStore).last_check(pipeline),
        findings=tuple(await uow.of(OffsetLogStore).findings(pipeline, limit=FINDINGS_SHOWN)),
    )


def _check(
    heard: Collection[Heard],
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
    """What the coordinators know of the pipeline's ids, beside what was told of them."""
    journal = snapshot.transaction_journal
    is_read = journal.phase in (Phase.LIVE, Phase.REFUSED) and journal.as_of_ms >= 0
    if not is_read or moment_of_ms(journal.as_of_ms) < newest:
        return ("which inits the coordinators know is not read up to now",)
    known = snapshot.transactions
    now = {
        name: Init(known[name].state.producer_id, known[name].state.producer_epoch) if name in known else None
        for name in inits
    }
    return unheard_inits(inits, now)


async def contradiction_needs(
    uow: UnitOfWork, pipelines: Sequence[Pipeline], now: datetime
) -> Mapping[str, Sequence[Need]]:
    """Return a need for each pipeline with contradicting offset events of the last days."""
    del pipelines  # one statement reads all
    found = await uow.of(OffsetLogStore).contradicted(since=now - MARKED_FOR)
    return {name: (contradiction_need(name, number),) for name, number in found.items() if number}
