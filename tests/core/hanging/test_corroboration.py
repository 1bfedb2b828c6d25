"""A hidden id is not hanging; a producer that is not in the journal either is hanging for certain."""

from __future__ import annotations

import msgspec

from app.core.blocked.facts import with_journal
from app.core.hanging.corroboration import corroborated
from app.core.hanging.search import PartitionSearch, why_unclear
from app.core.observing.snapshot import ReadingPhase, Snapshot
from tests.core.blocked.answers import held, known
from tests.support.observing import NOW_MS, cluster, hear, state_of, transaction_batch

FACTS = msgspec.structs.replace(held(None, is_corroborated=False), open_at_ms=NOW_MS)


def read_to(at_ms: int, *, producer_id: int) -> Snapshot:
    live = cluster()
    hear(live, transaction_batch("an-id", state_of(producer_id=producer_id), at=0), now_ms=at_ms)
    live.enter(live.transactions.progress.topic, ReadingPhase.LIVE, now_ms=at_ms)
    return live.snapshot(now_ms=at_ms)


def test_id_that_only_the_journal_has_is_hidden_and_not_hanging() -> None:
    told = corroborated(FACTS, read_to(NOW_MS, producer_id=4015))
    assert PartitionSearch("k", asks_per_s=1).note_look(told, now_ms=NOW_MS).found == ()
    assert "it leaves out an-id, which the journal has" in why_unclear(told)
    assert "DESCRIBE on an-id" in why_unclear(told)


def test_hidden_id_of_another_partition_does_not_matter() -> None:
    told = with_journal(FACTS, {99: "another"}, is_whole=True)
    assert (told.coordinators.unanswered, told.coordinators.is_corroborated) == ((), True)


def test_producer_missing_in_the_journal_too_hangs_for_certain() -> None:
    told = corroborated(FACTS, read_to(NOW_MS, producer_id=7))
    (one,) = PartitionSearch("k", asks_per_s=1).note_look(told, now_ms=NOW_MS).found
    assert one.is_corroborated


def test_journal_that_is_behind_proves_nothing() -> None:
    told = corroborated(FACTS, read_to(NOW_MS - 1, producer_id=7))
    (one,) = PartitionSearch("k", asks_per_s=1).note_look(told, now_ms=NOW_MS).found
    assert not one.is_corroborated


def test_coordinators_answers_are_kept() -> None:
    facts = held(known())
    assert corroborated(facts, read_to(NOW_MS, producer_id=7)) is facts
