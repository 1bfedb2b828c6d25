"""Store each fencing event once, though many servers and workers report the same loss, and correct it in place.

All sources call `record_cases`. The observer calls it with `cases_of` an id's steps, the workers' listener with
`case_of_word`. A command of Fenceline calls it with `case_of_command`, and the search of a partition with
`case_of_marker`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from app.core.alerts.service import tell_of_fencing
from app.core.fencing.cases import joined
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import merged
from app.core.fencing.fencing_event import Case, FencingCause, FencingEvent, FencingVerdict
from app.core.fencing.record import KEPT_FOR, FencingFilter, FencingRecord, corrected, kept_id, place_of
from app.core.fencing.service.own_commands import OwnCommands
from app.core.fencing.service.own_leases import leases_for
from app.core.fencing.store import FencingStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.page import Page, checked_limit
from app.kit.storable import moment_of_ms, storable

NOTICE = "fencing"


async def record_cases(uow: UnitOfWork, cases: Iterable[Case], *, now: datetime) -> list[FencingEvent]:
    """Join the cases with the stored evidence, and store the events that they prove. Return the new and changed events.

    A repetition with the same cases, here or on another server, changes nothing. Rows are locked in one order, so that
    two servers with the same cases take turns. Call it last in a unit of work that holds other locks.
    """
    wanted = {case.key: case for case in joined(storable(_findable(case)) for case in cases)}
    kept = await uow.of(FencingStore).evidence_of(wanted)
    commands = OwnCommands(uow, now=now)
    changed: list[FencingEvent] = []
    told_anew: Counter[tuple[str, FencingCause]] = Counter()
    for key in sorted(wanted, key=msgspec.structs.astuple):
        case = wanted[key]
        if key in kept and merged(kept[key], case.evidence) == kept[key]:
            continue
        change = await _record(uow, case, commands, now=now)
        if change is not None:
            changed.append(change.event)
            cause = change.event.verdict.cause
            told_anew[key.kafka_cluster_id, cause] += change.cause_before is not cause
    if told_anew.total():
        await uow.of(FencingStore).add_told(+told_anew)
    return changed


class _Change(NamedTuple):
    """cause_before: the earlier verdict's cause; None for a new event."""

    event: FencingEvent
    cause_before: FencingCause | None = None


async def _record(uow: UnitOfWork, case: Case, commands: OwnCommands, *, now: datetime) -> _Change | None:
    before = await uow.of(FencingStore).find(case.key, for_update=True)
    if before is None:
        event = await _judged(uow, case, commands)
        if event is None or not _is_worth_a_row(event, now=now):
            return None
        place = place_of(event, await uow.of(FencingStore).place_of_producer(event.key))
        if await uow.of(FencingStore).add(event, place=place, now=now):
            _notify(uow, event, place.pipeline)
            await _tell(uow, event, None, now=now)
            return _Change(event)
        before = await uow.of(FencingStore).find(case.key, for_update=True)
    if before is None:
        # Another server added it and retention has removed it since `find`: it was too old to keep.
        return None
    if before.is_foreign:
        return None
    event = await _judged(uow, Case(case.key, merged(before.event.evidence, case.evidence)), commands)
    if event is None or event == before.event:
        return None
    place = place_of(event, before.place)
    corrections = corrected(before.corrections, before.event.verdict, event.verdict, at=now)
    await uow.of(FencingStore).change(before.id, event, place=place, corrections=corrections, now=now)
    _notify(uow, event, place.pipeline)
    await _tell(uow, event, before.event.verdict, now=now)
    return _Change(event, before.event.verdict.cause)


async def _judged(uow: UnitOfWork, case: Case, commands: OwnCommands) -> FencingEvent | None:
    event = judge_case(case)
    words = () if event is None else (*await commands.words_for(event), *await leases_for(uow, event))
    return judge_case(Case(case.key, merged(case.evidence, words))) if words else event


async def _tell(uow: UnitOfWork, event: FencingEvent, before: FencingVerdict | None, *, now: datetime) -> None:
    record = await uow.of(FencingStore).find(event.key)
    if record is not None:
        await tell_of_fencing(uow, record, before, now=now)


async def list_events(
    uow: UnitOfWork, wanted: FencingFilter, *, after: str | None = None, limit: int = 50
) -> Page[FencingRecord]:
    """Newest first. Raises InvalidError for an invalid cursor or limit."""
    return await uow.of(FencingStore).list(wanted, after=after, limit=checked_limit(limit))


async def get_event(uow: UnitOfWork, record_id: str) -> FencingRecord:
    """Raises NotFoundError."""
    return await uow.of(FencingStore).get(record_id)


def _is_worth_a_row(event: FencingEvent, *, now: datetime) -> bool:
    """A KIP-890 client ends its own transactions regularly: that only corrects earlier verdicts."""
    return event.verdict.cause is not FencingCause.OWN_ABORT and moment_of_ms(event.verdict.at_ms) >= now - KEPT_FOR


def _findable(case: Case) -> Case:
    return Case(msgspec.structs.replace(case.key, transactional_id=kept_id(case.key.transactional_id)), case.evidence)


def _notify(uow: UnitOfWork, event: FencingEvent, pipeline: str | None) -> None:
    uow.notify(NOTICE, event.key.kafka_cluster_id)
    if pipeline is not None:
        uow.notify("pipeline", pipeline)
