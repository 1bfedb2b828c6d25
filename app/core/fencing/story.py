"""A fencing event as a history: the actions of the old producer, its successor and others, each with its source."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import accumulate

import msgspec

from app.core.fencing.evidence import (
    ClientWord,
    CommandVerb,
    CommandWord,
    CoordinatorRecord,
    Evidence,
    GroupRecord,
    LeaseWord,
    MarkerRecord,
    MemberRecord,
)
from app.core.fencing.fencing_event import FencingEvent, FencingKey
from app.core.journals import group_records, transaction_state
from app.core.journals.live_transactions import RecordedState
from app.core.journals.transaction_state import TransactionStatus
from app.core.runs.task import EventKind


class StorySide(StrEnum):
    """The party of a moment. OLD: the victim. NEW: the next producer with its id. DRIVER: that of a query."""

    OLD = "old"
    NEW = "new"
    GROUP = "group"
    OPERATOR = "operator"
    DRIVER = "driver"


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """`what` continues the side's name. source: the place of the record.

    is_own_word: the producer itself reported it, so it was alive. Other records about it may be caused by others.
    """

    at_ms: int
    side: StorySide
    what: str
    source: str
    is_own_word: bool = False


class StoryIncarnation(msgspec.Struct, frozen=True, kw_only=True):
    producer_id: int
    producer_epoch: int


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """moments: the coordinator's in the order of its journal, at any clock skew, and the others among them by time.

    new: None if there is none yet.
    """

    old: StoryIncarnation
    new: StoryIncarnation | None
    taken_at_ms: int
    moments: tuple[Moment, ...]


def story_of(event: FencingEvent) -> Story:
    """Return one moment for each piece of evidence; its time is by the clock of its source."""
    key = event.key
    records = _by_side(key, [one for one in event.evidence if isinstance(one, CoordinatorRecord)])
    others = [_of_another(one) for one in event.evidence if not isinstance(one, CoordinatorRecord)]
    first_new = next((one.record for side, one in records if side is StorySide.NEW), None)
    return Story(
        old=StoryIncarnation(producer_id=key.producer_id, producer_epoch=key.producer_epoch),
        new=None
        if first_new is None
        else StoryIncarnation(producer_id=first_new.producer_id, producer_epoch=first_new.producer_epoch),
        taken_at_ms=event.verdict.at_ms,
        moments=_in_order([_of_record(key, side, one) for side, one in records], others),
    )


def _in_order(recorded: Sequence[Moment], others: Sequence[Moment]) -> tuple[Moment, ...]:
    """Sort by time, but keep the journal's order of its records: coordinators' clocks may differ."""
    reached_ms = accumulate((moment.at_ms for moment in recorded), max)
    timed = [*zip(reached_ms, recorded, strict=True), *((moment.at_ms, moment) for moment in others)]
    return tuple(moment for _, moment in sorted(timed, key=lambda one: one[0]))


def _by_side(key: FencingKey, records: Sequence[CoordinatorRecord]) -> list[tuple[StorySide, CoordinatorRecord]]:
    """The coordinator ends a transaction at the next epoch; that epoch is the old producer's until the next init."""
    found: list[tuple[StorySide, CoordinatorRecord]] = []
    side, is_aborted = StorySide.OLD, False
    for one in sorted(records, key=lambda one: one.record.offset):
        record = one.record
        is_own = (record.producer_id, record.producer_epoch) == (key.producer_id, key.producer_epoch)
        is_next = (record.producer_id, record.producer_epoch) == (key.producer_id, key.producer_epoch + 1)
        is_aborted = is_aborted or (is_next and record.status.is_abort)
        if not is_own and not (is_next and is_aborted and record.status is not TransactionStatus.EMPTY):
            side = StorySide.NEW
        found.append((side, one))
    return found


def _of_record(key: FencingKey, side: StorySide, one: CoordinatorRecord) -> Moment:
    record = one.record
    return Moment(
        at_ms=record.timestamp_ms,
        side=side,
        what=_what(key, record),
        source=f"{transaction_state.TOPIC}-{one.partition}, offset {record.offset}",
    )


def _what(key: FencingKey, record: RecordedState) -> str:
    at = f"epoch {record.producer_epoch}"
    if record.producer_id != key.producer_id:
        at = f"producer {record.producer_id} {at}"
    match record.status:
        case TransactionStatus.EMPTY:
            return f"was initialised at {at} with a timeout of {record.timeout_ms:,} ms"
        case TransactionStatus.ONGOING:
            where = ", ".join(f"{part.topic}-{number}" for part in record.partitions for number in part.partitions)
            open_for_ms = record.timestamp_ms - record.start_ms
            since = f", begun {open_for_ms:,} ms before" if record.start_ms >= 0 and open_for_ms > 0 else ""
            return f"had a transaction open at {at}{f' in {where}' if where else ''}{since}"
        case TransactionStatus.PREPARE_ABORT:
            return f"had its transaction aborted at {at}: decided"
        case TransactionStatus.COMPLETE_ABORT:
            return f"had its transaction aborted at {at}: done in every partition"
        case TransactionStatus.PREPARE_COMMIT:
            return f"committed at {at}: decided"
        case TransactionStatus.COMPLETE_COMMIT:
            return f"committed at {at}: done in every partition"
        case _:
            return f"was {record.status.word} at {at}"


def _of_another(one: Evidence) -> Moment:
    match one:
        case ClientWord():
            told = "was refused" if one.kind in (EventKind.FENCED, EventKind.ABORTED) else one.kind.replace("_", " ")
            error = f" with {one.error}" if one.error else ""
            return Moment(
                at_ms=one.at_ms,
                side=StorySide.OLD,
                what=f"{told}{error}: {one.message}",
                source=f"reported by {one.who}",
                is_own_word=True,
            )
        case MarkerRecord():
            where = f"{one.topic}-{one.partition}"
            return Moment(
                at_ms=one.at_ms,
                side=StorySide.OLD,
                what=f"got the marker {one.type.name} in {where}, of coordinator epoch {one.coordinator_epoch}",
                source=f"{where}, offset {one.offset}",
            )
        case CommandWord():
            verb = {
                CommandVerb.FENCE: "fenced the id",
                CommandVerb.END: f"ended it in {', '.join(one.partitions)}",
                CommandVerb.END_DEAD: "ended its open transaction",
            }[one.verb]
            answer = "" if one.producer_epoch is None else f"; the answer was epoch {one.producer_epoch}"
            why = f", because: {one.why}" if one.why else ""
            return Moment(
                at_ms=one.at_ms,
                side=StorySide.OPERATOR,
                what=f"{one.who} {verb}{why}{answer}",
                source=f"command {one.command_id} of the command log",
            )
        case GroupRecord():
            noun = "epoch" if one.is_epoch else "generation"
            return Moment(
                at_ms=one.at_ms,
                side=StorySide.GROUP,
                what=f"{one.group} reached {noun} {one.number} with {one.members} members",
                source=f"{group_records.TOPIC}-{one.partition}, offset {one.offset}",
            )
        case MemberRecord():
            did = "left" if one.has_left else "joined"
            return Moment(
                at_ms=one.at_ms,
                side=StorySide.GROUP,
                what=f"{one.client_id or one.member_id} on {one.host} {did} {one.group}, which then had {one.members}",
                source=f"{group_records.TOPIC}-{one.partition}, offset {one.offset}",
            )
        case LeaseWord():
            return Moment(
                at_ms=one.at_ms,
                side=StorySide.DRIVER,
                what=f"{one.who.removeprefix('the driver ')} claimed pipeline {one.pipeline}",
                source=f"lease {one.lease} of instance {one.ordinal}, run {one.run_id}",
            )
        case CoordinatorRecord():
            raise AssertionError("_of_record has the coordinator's records")
