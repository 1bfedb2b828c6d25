"""The history of one transactional id: steps of its epochs, fencing events, and attempts of the task that owns it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta

import msgspec

from app.core.fencing.record import FencingFilter, FencingPlace
from app.core.fencing.store import FencingStore
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import EpochStep, EpochStepKind, LiveTransaction
from app.core.mappings.mapping import TransactionalIdOwner
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.store import PipelineStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.task import TaskStatus
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.storable import moment_of_ms

_FENCINGS = 20
_TASK_EVENTS = 200
_TOLD_AGAIN = timedelta(seconds=1)

_OF_STEPS = {
    EpochStepKind.FIRST_SEEN: "Seen for the first time: the journal no longer has earlier records.",
    EpochStepKind.INITIALISED: "Initialised by a starting producer (InitProducerId).",
    EpochStepKind.ABORTED: "Its transaction was ended by an abort at the next epoch.",
    EpochStepKind.ADVANCED: "The epoch changed without a record of the reason.",
}


class PastEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `what`: its kind. `who`: its attempt. producer_id, epoch: from there on.

    fencing_id: of the fencing event, if it is one.
    """

    at: datetime
    what: str
    sentence: str
    who: str | None = None
    producer_id: int | None = None
    epoch: int | None = None
    fencing_id: str | None = None

    @property
    def is_step(self) -> bool:
        """True if the id had another producer id or epoch from there on."""
        return self.producer_id is not None


class IdPast(msgspec.Struct, frozen=True, kw_only=True):
    """past: newest first. holder: the newest attempt of the task that owns the id, by its last heartbeat.
    groups: those that have offsets stored or pending by the id's producer.

    It has no events before the journal's first record, the retention of events and the kept steps.
    """

    past: tuple[PastEvent, ...]
    holder: TaskStatus | None
    groups: tuple[str, ...] = ()


class Storyteller:
    """For views that refresh many times a second: the database is queried once a second, or after a step."""

    def __init__(self) -> None:
        self._told: IdPast | None = None
        self._told_at: datetime | None = None
        self._steps: tuple[bytes, ...] = ()

    async def story_of(
        self,
        uow: UnitOfWork,
        live: LiveTransaction,
        owner: TransactionalIdOwner | None,
        *,
        groups: Mapping[str, LiveGroup],
        kafka_cluster_id: str,
        now: datetime,
    ) -> IdPast:
        is_old = self._told_at is None or not timedelta() <= now - self._told_at < _TOLD_AGAIN
        if self._told is None or is_old or live.past != self._steps:
            past = await _past_of(uow, live, owner, kafka_cluster_id=kafka_cluster_id)
            holder = None if owner is None else await _holder_of(uow, owner)
            # A large cluster has many groups, which must not block the event loop.
            served = await asyncio.to_thread(_groups_of, live.state.producer_id, groups)
            self._told = IdPast(past=tuple(past), holder=holder, groups=served)
            self._told_at, self._steps = now, live.past
        return self._told


async def _past_of(
    uow: UnitOfWork, live: LiveTransaction, owner: TransactionalIdOwner | None, *, kafka_cluster_id: str
) -> list[PastEvent]:
    found = [_of_step(step) for step in live.steps]
    wanted = FencingFilter(kafka_cluster_id=kafka_cluster_id, transactional_id=live.transactional_id)
    for record in (await uow.of(FencingStore).list(wanted, after=None, limit=_FENCINGS)).items:
        verdict = record.event.verdict
        found.append(
            PastEvent(
                at=moment_of_ms(verdict.at_ms),
                what=str(verdict.cause),
                sentence=verdict.sentence,
                who=_who(record.place),
                fencing_id=record.id if verdict.cause.is_fencing else None,
            )
        )
    if owner is not None:
        found += [event async for event in _of_task(uow, owner)]
    return sorted(found, key=lambda event: event.at, reverse=True)


def _groups_of(producer_id: int, groups: Mapping[str, LiveGroup]) -> tuple[str, ...]:
    return tuple(
        name
        for name, group in sorted(groups.items())
        if any(one.producer_id == producer_id for one in (*group.offsets.values(), *group.pending.values()))
    )


def sentence_of(step: EpochStep) -> str:
    """Return the reason for the new producer id or epoch."""
    return _OF_STEPS[step.kind]


def _who(place: FencingPlace) -> str | None:
    if place.pipeline is None or place.ordinal is None:
        return None
    return f"{place.pipeline} {place.ordinal}.{place.task} attempt {place.attempt} on {place.host}"


async def _holder_of(uow: UnitOfWork, owner: TransactionalIdOwner) -> TaskStatus | None:
    """None: its pipeline has never run, or the task has sent no heartbeat."""
    pipeline = await uow.of(PipelineStore).find(owner.pipeline)
    if pipeline is None or pipeline.current_run is None:
        return None
    place = await _place_of(uow, owner)
    statuses = await uow.of(TaskStore).list_statuses([pipeline.current_run.id])
    return next((one for one in statuses if (one.ordinal, one.task) == place), None)


async def _place_of(uow: UnitOfWork, owner: TransactionalIdOwner) -> tuple[int, int] | None:
    """Return the task of the id, or the owner of its partition; None without an owner."""
    if owner.ordinal is not None and owner.task is not None:
        return owner.ordinal, owner.task
    name = owner.transactional_id
    holder = (await uow.of(MappingStore).holders(kafka_cluster_id=owner.kafka_cluster_id, ids=[name])).get(name)
    return None if holder is None else (holder.ordinal, holder.task)


def _of_step(step: EpochStep) -> PastEvent:
    return PastEvent(
        at=moment_of_ms(step.at_ms),
        what=str(step.kind),
        sentence=sentence_of(step),
        producer_id=step.producer_id,
        epoch=step.producer_epoch,
    )


async def _of_task(uow: UnitOfWork, owner: TransactionalIdOwner) -> AsyncIterator[PastEvent]:
    place = await _place_of(uow, owner)
    for _, event in await uow.of(TaskStore).recent_events(pipeline=owner.pipeline, limit=_TASK_EVENTS):
        if (event.ordinal, event.task) == place:
            yield PastEvent(
                at=event.at,
                what=str(event.kind),
                sentence=event.message,
                who=f"{owner.pipeline} {event.ordinal}.{event.task} attempt {event.attempt}",
            )
