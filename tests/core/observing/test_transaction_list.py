"""Pages of transactional ids: the right ones, in order, each once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.transaction_list import IdOwnership, TransactionQuery, TransactionSort, counted, select
from app.kit.errors import InvalidError
from app.kit.page import encode_cursor
from tests.support.observing import NOW_MS, live_transaction, state_of

S = 1_000


def some(*found: tuple[str, TransactionStatus, int]) -> dict[str, LiveTransaction]:
    """By name: status, and how many seconds ago it began and changed."""
    return {
        name: live_transaction(name, state_of(status, start_ms=NOW_MS - ago_s * S, changed_ms=NOW_MS - ago_s * S))
        for name, status, ago_s in found
    }


THREE = some(
    ("fl.t.Orders.0.0", TransactionStatus.ONGOING, 5),
    ("connect-sink", TransactionStatus.PREPARE_ABORT, 90),
    ("streams", TransactionStatus.COMPLETE_COMMIT, 1),
)


def names(query: TransactionQuery, *, ours: set[str] | None = None) -> list[str]:
    page = select(counted(THREE), query, ours=ours or set(), now_ms=NOW_MS, after=None, limit=50)
    assert page.matching == len(page.items)
    return [one.transactional_id for one in page.items]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (TransactionQuery(), ["connect-sink", "fl.t.Orders.0.0", "streams"]),
        (TransactionQuery(sort=TransactionSort.CHANGED), ["streams", "fl.t.Orders.0.0", "connect-sink"]),
        (TransactionQuery(sort=TransactionSort.ID), ["connect-sink", "fl.t.Orders.0.0", "streams"]),
        (TransactionQuery(search="oRD"), ["fl.t.Orders.0.0"]),
        (TransactionQuery(states=frozenset({"PrepareAbort", "Empty"})), ["connect-sink"]),
        (TransactionQuery(is_open=False), ["streams"]),
        (TransactionQuery(min_open_ms=60 * S), ["connect-sink"]),
    ],
    # Not the query itself: the order of its set's words differs from process to process.
    ids=["all", "changed", "by id", "search", "states", "not open", "open for long"],
)
def test_query_finds_what_it_says_in_its_order(query: TransactionQuery, expected: list[str]) -> None:
    assert names(query) == expected


def test_ours_are_told_from_foreign_ones() -> None:
    ours = {"fl.t.Orders.0.0"}
    assert names(TransactionQuery(owner=IdOwnership.OURS), ours=ours) == ["fl.t.Orders.0.0"]
    assert names(TransactionQuery(owner=IdOwnership.FOREIGN), ours=ours) == ["connect-sink", "streams"]


@given(
    ages=st.lists(st.tuples(st.sampled_from(TransactionStatus), st.integers(0, 5)), max_size=25),
    sort=st.sampled_from(TransactionSort),
    limit=st.integers(1, 7),
)
def test_pages_have_each_id_once_and_in_order(
    ages: list[tuple[TransactionStatus, int]], sort: TransactionSort, limit: int
) -> None:
    ids = some(*((f"id-{number}", status, age) for number, (status, age) in enumerate(ages)))
    query = TransactionQuery(sort=sort)
    whole = select(counted(ids), query, ours=(), now_ms=NOW_MS, after=None, limit=500).items
    found: list[LiveTransaction] = []
    after: str | None = None
    while True:
        page = select(counted(ids), query, ours=(), now_ms=NOW_MS, after=after, limit=limit)
        assert page.matching == len(ids)
        found += page.items
        after = page.next_cursor
        if after is None:
            break
    assert tuple(found) == whole
    assert {one.transactional_id for one in found} == set(ids)


def test_cursor_of_another_order_is_refused() -> None:
    page = select(counted(THREE), TransactionQuery(), ours=(), now_ms=NOW_MS, after=None, limit=1)
    with pytest.raises(InvalidError, match="another list"):
        select(
            counted(THREE),
            TransactionQuery(sort=TransactionSort.CHANGED),
            ours=(),
            now_ms=NOW_MS,
            after=page.next_cursor,
            limit=1,
        )


@pytest.mark.parametrize("key", ["", "-", "--5", "5-", "1e3", "٣", "9" * 5_000])
def test_cursor_with_another_key_than_a_moment_is_refused(key: str) -> None:
    after = encode_cursor(TransactionSort.OLDEST, key, "streams")
    with pytest.raises(InvalidError, match="another list"):
        select(counted(THREE), TransactionQuery(), ours=(), now_ms=NOW_MS, after=after, limit=1)


def test_what_is_open_for_long_rises_and_nothing_else_moves() -> None:
    many = some(
        ("b-short", TransactionStatus.ONGOING, 0),
        ("c-hangs", TransactionStatus.ONGOING, 9),
        ("d-hangs-longer", TransactionStatus.PREPARE_ABORT, 90),
        ("a-done", TransactionStatus.COMPLETE_COMMIT, 500),
    )
    expected = ["d-hangs-longer", "c-hangs", "a-done", "b-short"]
    query = TransactionQuery(sort=TransactionSort.LONG_OPEN)
    assert names_of(many, query) == expected
    # Their states change all the time; the order is the same.
    changed = many | some(("a-done", TransactionStatus.ONGOING, 0), ("b-short", TransactionStatus.COMPLETE_COMMIT, 0))
    assert names_of(changed, query) == expected


def test_tally_counts_all_and_names_the_oldest() -> None:
    found = counted(THREE).tally
    assert (found.ids, found.open) == (3, 2)
    assert found.oldest is THREE["connect-sink"]
    assert counted({}).tally == (0, 0, None)


def names_of(transactions: dict[str, LiveTransaction], query: TransactionQuery) -> list[str]:
    """Page by page, one at a time."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = select(counted(transactions), query, ours=(), now_ms=NOW_MS, after=after, limit=1)
        found += [one.transactional_id for one in page.items]
        after = page.next_cursor
        if after is None:
            return found
