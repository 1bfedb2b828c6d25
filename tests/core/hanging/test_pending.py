"""Pending offsets that block a new owner: their transactions, or a hanging one."""

from __future__ import annotations

import pytest

from app.core.hanging.hanging_transaction import HangingTransaction
from app.core.hanging.pending import NOT_WORTH_A_WORD_MS, pending_holds
from app.core.journals.group_records import TOPIC
from app.core.observing.snapshot import ReadingPhase, Snapshot
from tests.support.hanging_samples import hanging_transaction
from tests.support.observing import NOW_MS, cluster, hear, offset_batch, set_clock, state_of, transaction_batch

LATER_MS = NOW_MS + NOT_WORTH_A_WORD_MS


def snapshot(*, behind_ms: int | None = 0) -> Snapshot:
    """An offset of `billing` and one of `audit`, pending by two producers; of the first the journal has the id.

    behind_ms: their coordinators' clocks; None: not measured.
    """
    live, stamped_ms = cluster(), NOW_MS - (behind_ms or 0)
    if behind_ms is not None:
        set_clock(live, behind_ms=behind_ms)
    hear(live, transaction_batch("tx-7", state_of(producer_id=7, start_ms=stamped_ms), at=0))
    hear(live, offset_batch("billing", 41, at=0, producer_id=7, committed_ms=stamped_ms), topic=TOPIC)
    hear(live, offset_batch("audit", 12, at=1, producer_id=8, committed_ms=stamped_ms), topic=TOPIC)
    hear(live, offset_batch("stored", 12, at=2), topic=TOPIC)
    live.enter(TOPIC, ReadingPhase.LIVE, now_ms=NOW_MS)
    return live.snapshot(now_ms=NOW_MS)


def hanging(producer_id: int, *, topic: str = TOPIC) -> HangingTransaction:
    return hanging_transaction(topic=topic, producer_id=producer_id)


def test_pending_offsets_have_their_transactions() -> None:
    audit, billing = pending_holds(snapshot(), [hanging(8)], now_ms=LATER_MS)
    assert (billing.group, billing.topic, billing.partition, billing.offset) == ("billing", "orders", 0, 41)
    assert (billing.transactional_id, billing.state, billing.times_out_ms) == ("tx-7", "Ongoing", NOW_MS + 60_000)
    assert (billing.is_hanging, billing.journal_partition) == (False, 0)
    assert (audit.group, audit.producer_id, audit.is_hanging, audit.state) == ("audit", 8, True, None)


def test_producer_that_hangs_elsewhere_does_not_make_offsets_hang() -> None:
    assert not any(one.is_hanging for one in pending_holds(snapshot(), [hanging(8, topic="orders")], now_ms=LATER_MS))


@pytest.mark.parametrize("behind_ms", [-300_000, -5_000, 0, 300_000])
def test_age_uses_the_coordinators_clock_at_any_skew(behind_ms: int) -> None:
    """With a clock ahead, offsets were hidden for that time."""
    seen = snapshot(behind_ms=behind_ms)
    assert pending_holds(seen, (), now_ms=LATER_MS - 1) == ()
    found = pending_holds(seen, (), now_ms=LATER_MS)
    assert [(one.group, one.since_ms) for one in found] == [("audit", NOW_MS), ("billing", NOW_MS)]
    assert found[1].times_out_ms == NOW_MS + 60_000


def test_pending_offset_of_unknown_age_is_shown() -> None:
    assert len(pending_holds(snapshot(behind_ms=None), (), now_ms=NOW_MS)) == 2


def test_commit_in_progress_is_not_reported() -> None:
    assert pending_holds(snapshot(), (), now_ms=NOW_MS + NOT_WORTH_A_WORD_MS - 1) == ()
