"""Assign each piece of evidence to its case. `cause.py` judges the cases."""

from __future__ import annotations

from collections.abc import Iterable

from app.core.fencing.evidence import (
    ClientWord,
    CommandVerb,
    CommandWord,
    CoordinatorRecord,
    Evidence,
    GroupRecord,
    MarkerRecord,
    merged,
)
from app.core.fencing.fencing_event import Case, FencingKey, FencingKind
from app.core.fencing.marker_verdict import record_beside
from app.core.fencing.membership_verdict import is_about_membership
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.record_batch import MarkerType
from app.core.runs.task import EventKind


def joined(cases: Iterable[Case]) -> list[Case]:
    """Return one case for each key, with the evidence of brokers, clients and commands about the same loss."""
    by_key: dict[FencingKey, tuple[Evidence, ...]] = {}
    for case in cases:
        by_key[case.key] = merged(by_key.get(case.key, ()), case.evidence)
    return [Case(key, evidence) for key, evidence in by_key.items()]


def case_of_word(
    word: ClientWord,
    *,
    kafka_cluster_id: str,
    transactional_id: str | None,
    producer_id: int | None,
    producer_epoch: int | None,
    generations: Iterable[GroupRecord] = (),
) -> Case | None:
    """Return the case of a task's report about its producer; None if it is no fencing, or about an unknown producer.

    generations: those that its group reached (`generations_of`), for reports about membership.
    """
    if transactional_id is None or producer_id is None or producer_epoch is None:
        return None
    if is_about_membership(word):
        kind, beside = FencingKind.MEMBERSHIP, _next_generation(word, generations)
    elif word.kind in _ABOUT_THE_EPOCH:
        kind, beside = FencingKind.EPOCH, ()
    else:
        return None
    key = FencingKey(
        kafka_cluster_id=kafka_cluster_id,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        kind=kind,
    )
    return Case(key, merged([word], beside))


_ABOUT_THE_EPOCH = frozenset({EventKind.FENCED, EventKind.SUPERSEDED, EventKind.REBUILT})
"""SUPERSEDED and REBUILT report the task's reaction. Alone they are no event."""


def generations_of(group: LiveGroup) -> tuple[GroupRecord, ...]:
    """Return the generations that the group reached, as far as the observer has recorded them."""
    return tuple(
        GroupRecord(
            group=group.group,
            number=reached.number,
            is_epoch=group.has_epoch,
            members=reached.members,
            partition=group.partition,
            offset=reached.journal_offset,
            at_ms=reached.at_ms,
        )
        for reached in group.rebalances
    )


def _next_generation(word: ClientWord, reached: Iterable[GroupRecord]) -> tuple[GroupRecord, ...]:
    """Return the only relevant record: the first generation after the member's own."""
    generation = word.generation
    if generation is None:
        return ()
    later = [record for record in reached if record.number > generation]
    return (min(later, key=lambda record: record.number),) if later else ()


def case_of_command(
    command: CommandWord, *, kafka_cluster_id: str, transactional_id: str, producer_id: int, producer_epoch: int
) -> Case:
    """Return the case of a Fenceline command, by the producer that it was meant for."""
    key = FencingKey(
        kafka_cluster_id=kafka_cluster_id,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        kind=FencingKind.MARKER if command.verb is CommandVerb.END else FencingKind.EPOCH,
    )
    return Case(key, (command,))


def case_of_marker(
    marker: MarkerRecord,
    *,
    kafka_cluster_id: str,
    producer_id: int,
    producer_epoch: int,
    live: LiveTransaction | None,
) -> Case | None:
    """Return the case of an ABORT that no coordinator decided; None for an explained marker.

    live: the id that has this producer id, in a journal read up to the time of the marker; None without one. An unknown
    producer id proves less: its transactional id may have expired.
    """
    known: CoordinatorRecord | None = None
    if live is not None:
        record = record_beside(marker, producer_id, producer_epoch, live)
        if record is None:
            return None
        known = CoordinatorRecord(live.partition, record)
    return _case_beside(
        marker,
        known,
        kafka_cluster_id=kafka_cluster_id,
        transactional_id="" if live is None else live.transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def case_of_torn(
    marker: MarkerRecord, *, kafka_cluster_id: str, transactional_id: str, known: CoordinatorRecord
) -> Case | None:
    """Return the case of an ABORT that was written while the coordinator had the transaction open, by its record
    `known`.
    """
    return _case_beside(
        marker,
        known,
        kafka_cluster_id=kafka_cluster_id,
        transactional_id=transactional_id,
        producer_id=known.record.producer_id,
        producer_epoch=known.record.producer_epoch,
    )


def _case_beside(
    marker: MarkerRecord,
    known: CoordinatorRecord | None,
    *,
    kafka_cluster_id: str,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
) -> Case | None:
    if marker.type is MarkerType.COMMIT:
        return None
    key = FencingKey(
        kafka_cluster_id=kafka_cluster_id,
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        kind=FencingKind.MARKER,
    )
    return Case(key, merged([marker], () if known is None else [known]))
