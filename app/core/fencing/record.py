"""A stored fencing event: with its owner and its earlier verdicts."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

import msgspec

from app.core.fencing.evidence import ClientWord, CoordinatorRecord
from app.core.fencing.fencing_event import FencingCause, FencingEvent, FencingVerdict
from app.kit.storable import storable_text

KEPT_FOR = timedelta(days=30)
"""Older events are removed, and are not written again by a reader of an old journal."""

MAX_CORRECTIONS = 20
LONGEST_ID_BYTES = 1_000
"""A longer transactional id does not fit into an index; Kafka accepts ids of 32 kB."""


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict until `until`, when more evidence came."""

    verdict: FencingVerdict
    until: datetime


class FencingPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of the victim, as far as it is known; all None for foreign clients.

    group_id: of the member or of its pipeline. partitions: `topic-partition` of lost input and of aborted output.
    """

    pipeline: str | None = None
    group_id: str | None = None
    run_id: str | None = None
    ordinal: int | None = None
    lease: int | None = None
    task: int | None = None
    attempt: int | None = None
    host: str | None = None
    partitions: tuple[str, ...] = ()


class FencingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """corrections: oldest first, the newest MAX_CORRECTIONS of them.

    is_foreign: written by a newer release with values that this one does not know. It is shown as far as possible,
    without its evidence, and never changed here.
    """

    id: str
    event: FencingEvent
    place: FencingPlace
    corrections: tuple[Correction, ...]
    told_at: datetime
    changed_at: datetime
    is_foreign: bool = False


class GroupLosses(msgspec.Struct, frozen=True, kw_only=True):
    """Losses of a group's members, and of these ids, which store its offsets. A foreign client sends no reports, so
    only its id leads to the group.
    """

    group_id: str
    transactional_ids: tuple[str, ...] = ()


class FencingFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None means any; `since` and `until` bound the time of the event. Events that are no fencing are omitted by
    default.

    Transactional ids are complete, here and in `of_group`, or as `kept_id` returns them.
    """

    kafka_cluster_id: str | None = None
    transactional_id: str | None = None
    of_group: GroupLosses | None = None
    pipeline: str | None = None
    cause: FencingCause | None = None
    since: datetime | None = None
    until: datetime | None = None
    with_what_is_none: bool = False


def kept_id(transactional_id: str) -> str:
    """Return the id under which events are stored: a long one is shortened and gets its hash. Results are stored, so
    they must not change.
    """
    kept = storable_text(transactional_id)
    encoded = kept.encode()
    if len(encoded) <= LONGEST_ID_BYTES:
        return kept
    beginning = encoded[: LONGEST_ID_BYTES - 100].decode(errors="ignore")
    whole = hashlib.sha256(transactional_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{beginning}… (sha256 {whole})"


def place_of(event: FencingEvent, known: FencingPlace) -> FencingPlace:
    """Return the owner by the evidence; missing values are taken from `known`."""
    words = [one for one in event.evidence if isinstance(one, ClientWord)]
    partitions = {name for word in words for name in word.partitions}.union(
        f"{at.topic}-{number}"
        for one in event.evidence
        if isinstance(one, CoordinatorRecord)
        for at in one.record.partitions
        for number in at.partitions
        if not at.topic.startswith("__")
    )
    if not words:
        return msgspec.structs.replace(known, partitions=tuple(sorted(partitions)))
    word = words[0]
    return FencingPlace(
        pipeline=word.pipeline or known.pipeline,
        group_id=word.group or known.group_id,
        run_id=word.run_id,
        ordinal=word.ordinal,
        lease=word.lease,
        task=word.task,
        attempt=word.attempt,
        host=word.host or known.host,
        partitions=tuple(sorted(partitions)),
    )


def corrected(
    corrections: tuple[Correction, ...], before: FencingVerdict, now: FencingVerdict, *, at: datetime
) -> tuple[Correction, ...]:
    """Add a correction if the cause or the confidence has changed; a new sentence alone is no correction."""
    if (before.cause, before.confidence) == (now.cause, now.confidence):
        return corrections
    return (*corrections, Correction(verdict=before, until=at))[-MAX_CORRECTIONS:]
