"""Brokers' clocks from the records that they write: late ones change nothing, and a changed clock is noticed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.core.clocks.broker_clocks import BrokerClocks, ClockSample, MeasuredClocks
from app.core.journals.group_records import TOPIC as GROUPS
from app.core.journals.transaction_state import TOPIC
from app.core.observing.transaction_list import TransactionQuery, TransactionSort, counted, select
from tests.support.observing import NOW_MS, cluster, hear, offset_batch, set_clock, state_of, transaction_batch

MINUTE_MS = 60_000


def sample(*, written_ms: int, behind_ms: int, took_ms: int = 20, polled_ms: int = 300) -> ClockSample:
    """Return the sample of a record written at a time of this clock, by a broker with another clock."""
    return ClockSample(1, written_ms - behind_ms, written_ms - polled_ms, written_ms + took_ms)


def measured(*samples: ClockSample) -> BrokerClocks:
    made = MeasuredClocks()
    made.lead(TOPIC, 0, 1)
    for one in samples:
        made.note(one)
    return made.frozen(now_ms=samples[-1].heard_ms)


@given(
    behind_ms=st.integers(-(10**7), 10**7),
    took=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 600), st.integers(1, 90_000)), min_size=1),
)
def test_bounds_hold_with_any_delay_of_records(behind_ms: int, took: list[tuple[int, int, int]]) -> None:
    samples, at_ms = list[ClockSample](), NOW_MS
    for took_ms, polled_ms, later_ms in took:
        at_ms += later_ms
        samples.append(sample(written_ms=at_ms, behind_ms=behind_ms, took_ms=took_ms, polled_ms=polled_ms))
    offset = measured(*samples).offsets[1]
    assert offset.least_ms <= behind_ms <= offset.most_ms


def test_clock_that_is_set_back_is_believed_at_once() -> None:
    """The earlier measurement would make every age five minutes more."""
    found = measured(
        sample(written_ms=NOW_MS, behind_ms=0), sample(written_ms=NOW_MS + 1_000, behind_ms=300_000)
    ).offsets[1]
    assert found.least_ms <= 300_000 <= found.most_ms


def test_clock_that_is_set_forward_is_believed_at_once() -> None:
    found = measured(
        sample(written_ms=NOW_MS, behind_ms=300_000), sample(written_ms=NOW_MS + 1_000, behind_ms=0)
    ).offsets[1]
    assert found.least_ms <= 0 <= found.most_ms


def test_clock_that_drifts_is_followed() -> None:
    drifting = [sample(written_ms=NOW_MS + n * MINUTE_MS, behind_ms=n * 50) for n in range(60)]
    found = measured(*drifting).offsets[1]
    assert abs(found.middle_ms - 59 * 50) < 500


def test_old_measurement_is_not_used_any_more() -> None:
    made = MeasuredClocks()
    made.lead(TOPIC, 0, 1)
    made.note(sample(written_ms=NOW_MS, behind_ms=0))
    assert made.frozen(now_ms=NOW_MS + 59 * MINUTE_MS).offset_at(TOPIC, 0) is not None
    late = made.frozen(now_ms=NOW_MS + 61 * MINUTE_MS)
    assert late.offset_at(TOPIC, 0) is None
    assert late.age_at(TOPIC, 0, NOW_MS, now_ms=NOW_MS) is None
    assert late.ours_ms(TOPIC, 0, 17) == 17


def test_lists_are_ordered_and_narrowed_by_one_clock() -> None:
    """One coordinator is five minutes behind: what it began just now is not the oldest, and not open for long."""
    live = cluster(partitions=(0, 1))
    set_clock(live, behind_ms=300_000)
    live.clocks.lead(TOPIC, 1, 2)
    live.clocks.note(ClockSample(2, NOW_MS, NOW_MS, NOW_MS))
    hear(live, transaction_batch("young", state_of(start_ms=NOW_MS - 300_500), at=0))
    hear(live, transaction_batch("old", state_of(start_ms=NOW_MS - 90_000, producer_id=8), at=0), partition=1)
    seen = live.snapshot(now_ms=NOW_MS)
    ids = counted(seen.transactions, seen.clocks.shifts(TOPIC))
    assert ids.tally.oldest is not None
    assert ids.tally.oldest.transactional_id == "old"

    def names(**wanted: object) -> list[str]:
        query = TransactionQuery(**wanted)  # type: ignore[arg-type]
        page = select(ids, query, ours=(), now_ms=NOW_MS, after=None, limit=10)
        return [one.transactional_id for one in page.items]

    assert names(min_open_ms=60_000) == ["old"]
    assert names(sort=TransactionSort.OLDEST) == ["old", "young"]
    assert names(sort=TransactionSort.LONG_OPEN) == ["old", "young"]
    young = seen.clocks.ours(seen.transactions["young"])
    assert young.times_out_at_ms == NOW_MS - 500 + 60_000


def test_every_time_of_an_id_and_a_group_is_by_our_clock() -> None:
    """Its steps and its commits, too: the controls are the same as their broker has stamped them."""
    live = cluster()
    set_clock(live, behind_ms=300_000)
    stamped_ms = NOW_MS - 301_000
    for at in range(2):
        state = state_of(start_ms=stamped_ms, changed_ms=stamped_ms, epoch=at)
        hear(live, transaction_batch("one", state, at=at, at_ms=stamped_ms))
    hear(live, offset_batch("readers", 5, at=0, committed_ms=stamped_ms), topic=GROUPS)
    seen = live.snapshot(now_ms=NOW_MS)
    one, group = seen.transactions["one"], seen.groups["readers"]
    assert [step.at_ms for step in one.steps] == [stamped_ms] * 2
    ours = seen.clocks.ours(one)
    assert [step.at_ms for step in ours.steps] == [NOW_MS - 1_000] * 2
    assert (ours.timestamp_ms, ours.state.start_ms) == (NOW_MS - 1_000, NOW_MS - 1_000)
    assert group.offsets["orders", 0].commit.commit_ms == stamped_ms
    assert seen.clocks.group_ours(group).offsets["orders", 0].commit.commit_ms == NOW_MS - 1_000
    assert seen.groups["readers"] is group
