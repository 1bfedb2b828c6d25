"""A fencing event as it is kept: with whose it was, and what was said of it before."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

import msgspec

from app.core.fencing.evidence import ClientWord, CoordinatorRecord
from app.core.fencing.fencing_event import Cause, FencingEvent, Verdict
from app.kit.storable import storable_text

KEPT_FOR = timedelta(days=30)
"""What happened longer ago is removed, and is not written again by whoever reads an old journal."""

MAX_CORRECTIONS = 20
LONGEST_ID_BYTES = 1_000
"""A longer transactional id does not fit into an index; Kafka takes ids of 32 kB."""


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """What was said until `until`, when more evidence came."""

    verdict: Verdict
    until: datetime


class FencingPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Whose loss it was, as far as it is known; all None for clients that are not ours.

    group_id: of the member or of its pipeline. partitions: `topic-partition` of input that was lost, and of output that
    was aborted.
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

    is_foreign: written by a newer release in words that this one does not know; it is told as far as it can be, without
    its evidence, and never changed here.
    """

    id: str
    event: FencingEvent
    place: FencingPlace
    corrections: tuple[Correction, ...]
    told_at: datetime
    changed_at: datetime
    is_foreign: bool = False


class GroupLosses(msgspec.Struct, frozen=True, kw_only=True):
    """Losses of a group's members, and of these ids, as those that store its offsets: a client that is not ours has no
    words, and only its id leads to the group."""

    group_id: str
    transactional_ids: tuple[str, ...] = ()


class FencingFilter(msgspec.Struct, frozen=True, kw_only=True):
    """None means any; `since` and `until` bound when it happened. What is no fencing is left out unless asked for.

    Transactional ids are whole, here and in `of_group`, or as `kept_id` makes them.
    """

    kafka_cluster_id: str | None = None
    transactional_id: str | None = None
    of_group: GroupLosses | None = None
    pipeline: str | None = None
    cause: Cause | None = None
    since: datetime | None = None
    until: datetime | None = None
    with_what_is_none: bool = False


def kept_id(transactional_id: str) -> str:
    """The id that events are kept and found by: of a long one its beginning and its hash. What it answers stays so."""
    kept = storable_text(transactional_id)
    encoded = kept.encode()
    if len(encoded) <= LONGEST_ID_BYTES:
        return kept
    beginning = encoded[: LONGEST_ID_BYTES - 100].decode(errors="ignore")
    whole = hashlib.sha256(transactional_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{beginning}… (sha256 {whole})"


def place_of(event: FencingEvent, known: FencingPlace) -> FencingPlace:
    """Where the evidence says that it was; what the evidence does not say is taken from `known`."""
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
    corrections: tuple[Correction, ...], before: Verdict, now: Verdict, *, at: datetime
) -> tuple[Correction, ...]:
    """The corrections, with one more if cause or confidence is another now; a sentence alone is no correction."""
    if (before.cause, before.confidence) == (now.cause, now.confidence):
        return corrections
    return (*corrections, Correction(verdict=before, until=at))[-MAX_CORRECTIONS:]
