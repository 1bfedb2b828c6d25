"""Seconds of a chart: the records' times decide, in any order of partitions."""

from __future__ import annotations

from itertools import permutations

import pytest

from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.transaction_pace import KEPT_SECONDS, PaceSample, TransactionPace
from app.core.journals.transaction_state import TransactionStatus, encode_key, encode_value
from tests.core.journals.batches import batch_of
from tests.support.observing import state_of

BEGAN_S = 1_800_000_000
ONGOING, COMMIT, ABORT = (
    TransactionStatus.ONGOING,
    TransactionStatus.COMPLETE_COMMIT,
    TransactionStatus.COMPLETE_ABORT,
)
# By id: what it became, and in which second.
STORIES = {
    "a": ((ONGOING, 0), (TransactionStatus.PREPARE_COMMIT, 2), (COMMIT, 2), (ONGOING, 4)),
    "b": ((TransactionStatus.EMPTY, 0), (ONGOING, 1), (ABORT, 3)),
    "c": ((ONGOING, 2), (COMMIT, 2)),
}


def told(order: tuple[str, ...]) -> LiveTransactions:
    found = LiveTransactions()
    for name in order:
        partition, began_ms = sorted(STORIES).index(name), -1
        for offset, (status, second) in enumerate(STORIES[name]):
            at_ms = (BEGAN_S + second) * 1000
            # A transaction's records all say when it began.
            began_ms = at_ms if status is ONGOING else began_ms
            state = state_of(status, start_ms=began_ms, changed_ms=at_ms)
            record = (encode_key(name), encode_value(state))
            found.apply(partition, batch_of([record], base_offset=offset, timestamp_ms=at_ms))
    return found


def samples(
    pace: TransactionPace, *, open_now: int, oldest_start_ms: int | None = None, first: int = -10, last: int = 4
) -> list[PaceSample]:
    return pace.samples(
        open_now=open_now, oldest_start_ms=oldest_start_ms, first_s=BEGAN_S + first, last_s=BEGAN_S + last
    )


@pytest.mark.parametrize("order", list(permutations(STORIES)), ids="".join)
def test_every_second_is_counted_in_any_order_of_partitions(order: tuple[str, ...]) -> None:
    found = told(order)
    still_open = sum(live.is_open for live in found.ids.values())
    oldest_start_ms = min(live.state.start_ms for live in found.ids.values() if live.is_open)
    assert samples(found.pace, open_now=still_open, oldest_start_ms=oldest_start_ms) == [
        PaceSample(BEGAN_S + second, *figures)
        for second, figures in enumerate(
            [(1, 0, 0, 1_000), (2, 0, 0, 2_000), (1, 2, 0, 2_000), (0, 0, 1), (1, 0, 0, 1_000)]
        )
    ]


def test_records_after_the_last_second_are_ignored() -> None:
    found = told(("a", "b", "c"))
    assert samples(found.pace, open_now=1, first=2, last=2) == [PaceSample(BEGAN_S + 2, 1, 2, 0, 2_000)]


def test_transaction_without_its_begin_uses_its_start_time() -> None:
    pace = TransactionPace()
    pace.note(None, state_of(ONGOING, start_ms=BEGAN_S * 1000), (BEGAN_S + 3) * 1000)
    pace.since_s = BEGAN_S - 1
    assert [sample.open for sample in samples(pace, open_now=1, first=-1, last=3)] == [0, 1, 1, 1, 1]


def test_age_of_a_long_transaction_ignores_short_ones() -> None:
    pace = TransactionPace()
    for began, ended in ((0, 9), (4, 9), (5, 6)):
        open_since = state_of(ONGOING, start_ms=(BEGAN_S + began) * 1000)
        pace.note(None, open_since, (BEGAN_S + began) * 1000)
        pace.note(open_since, state_of(COMMIT), (BEGAN_S + ended) * 1000)
    ages = [sample.oldest_ms // 1000 for sample in samples(pace, open_now=0, first=0, last=9)]
    assert ages == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


def test_partition_read_again_counts_nothing_twice() -> None:
    found = told(("a", "b", "c"))
    found.forget(0)
    assert samples(found.pace, open_now=1, last=4) == []
    for offset, (status, second) in enumerate(STORIES["a"]):
        at_ms = (BEGAN_S + second) * 1000
        record = (encode_key("a"), encode_value(state_of(status, start_ms=at_ms, changed_ms=at_ms)))
        found.apply(0, batch_of([record], base_offset=offset, timestamp_ms=at_ms))
    assert samples(found.pace, open_now=1, last=6) == [PaceSample(BEGAN_S + s, 1, 0, 0) for s in (5, 6)]


def test_memory_is_bounded_and_the_newest_stay() -> None:
    pace = TransactionPace()
    last = BEGAN_S + 5 * KEPT_SECONDS
    for second in range(BEGAN_S, last + 1):
        pace.note(None, state_of(COMMIT), second * 1000)
    assert len(pace.commits) <= 2 * KEPT_SECONDS
    assert set(range(last - KEPT_SECONDS + 1, last + 1)) <= pace.commits.keys()
