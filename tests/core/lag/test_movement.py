"""Each state of lag, and what must not change it: rare commits, resets, clocks, and a server that was away."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from app.core.blocked.facts import Refused
from app.core.clusters.partition import Partition
from app.core.hanging.search import StableEnd
from app.core.journals.group_values.classic import ClassicGroup, ClassicMember
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, LiveGroup
from app.core.lag.book import LagBook
from app.core.lag.movement import WORST, LagState
from app.core.lag.report import GroupLag, PartitionLag, folded

AT = Partition("orders", 0)
PERIOD_MS = 15_000
START_MS = 1_800_000_000_000


def group_of(committed: int | dict[Partition, int], *, members: int = 1) -> LiveGroup:
    positions = committed if isinstance(committed, dict) else {AT: committed}
    joined = tuple(ClassicMember(f"m{n}", client_id="c", client_host="/h") for n in range(members))
    return LiveGroup(
        "readers",
        classic=ClassicGroup("consumer", 1, "range", "m0", START_MS, joined),
        offsets={
            (at.topic, at.partition): CommittedOffset(OffsetCommit(offset), 0) for at, offset in positions.items()
        },
    )


class Watched:
    """One group, sampled every 15 s."""

    def __init__(self) -> None:
        self.book = LagBook()
        self.now_ms = START_MS
        self.states: list[LagState] = []

    @property
    def newest(self) -> GroupLag:
        return self.book.groups["readers"]

    def see(
        self,
        committed: int,
        end: int,
        *,
        lso: int | None = None,
        members: int = 1,
        paused: str | None = None,
        refused: str = "",
        after_ms: int = PERIOD_MS,
    ) -> GroupLag:
        self.now_ms += after_ms
        answer = StableEnd(end if lso is None else lso, end)
        self.book.note(
            [group_of(committed, members=members)],
            {AT: Refused("ListOffsets of orders-0", refused) if refused else answer},
            at_ms=self.now_ms,
            period_ms=PERIOD_MS,
            paused={} if paused is None else {"readers": paused},
        )
        self.states.append(self.newest.state)
        return self.newest

    def row(self, committed: int, *, members: int = 1) -> PartitionLag:
        (found,) = self.book.lags(group_of(committed, members=members), now_ms=self.now_ms, period_ms=PERIOD_MS)
        return found


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_consumer_that_keeps_up_is_healthy_with_seconds_behind(watched: Watched) -> None:
    for at in range(20):
        watched.see(1_000 * at, 1_000 * at + 10)
    found = watched.newest
    assert set(watched.states[1:]) == {LagState.HEALTHY}
    assert (found.lag_records, found.blocked, found.known) == (10, 0, 1)
    assert found.lag_ms is not None
    assert 0 < found.lag_ms < PERIOD_MS
    assert found.rate == pytest.approx(1_000 / 15, rel=0.01)


def test_first_sample_with_lag_is_not_judged_and_without_lag_it_is(watched: Watched) -> None:
    assert watched.see(5, 10).state is LagState.UNKNOWN
    assert Watched().see(10, 10).state is LagState.HEALTHY


def test_lag_that_grows_although_the_group_commits_is_slow(watched: Watched) -> None:
    for at in range(40):
        watched.see(500 * at, 1_000 * at)
    found = watched.newest
    assert found.state is LagState.SLOW
    assert found.growing_ms is not None
    assert watched.states.index(LagState.SLOW) <= 20, "5 minutes at most"
    first = watched.states.index(LagState.SLOW)
    assert set(watched.states[first:]) == {LagState.SLOW}, "it does not blink"


def test_slow_group_that_catches_up_is_healthy_again(watched: Watched) -> None:
    for at in range(40):
        watched.see(500 * at, 1_000 * at)
    for at in range(12):
        watched.see(20_000 + 1_400 * at, 40_000 + 1_000 * at)
    found = watched.newest
    assert (found.state, found.growing_ms) == (LagState.HEALTHY, None)


def test_great_lag_that_does_not_grow_is_healthy_and_says_how_old_it_is(watched: Watched) -> None:
    for at in range(60):
        watched.see(1_000 * at, 1_000 * at + 20_000)
    found = watched.newest
    assert found.state is LagState.HEALTHY
    assert found.lag_ms == pytest.approx(20 * PERIOD_MS, rel=0.2)
    assert not found.is_bound


@pytest.mark.parametrize("minutes", [1, 2, 4])
def test_job_that_commits_every_few_minutes_does_not_blink(watched: Watched, minutes: int) -> None:
    every = minutes * 4
    for at in range(every * 12):
        watched.see(1_000 * every * (at // every), 1_000 * (at + 1))
    assert set(watched.states[1:]) == {LagState.HEALTHY}


def test_rare_jobs_that_commit_every_half_hour_are_learned(watched: Watched) -> None:
    every = 120
    for at in range(every * 6):
        watched.see(1_000 * every * (at // every), 1_000 * (at + 1))
    assert LagState.NOT_READING in watched.states[: every * 2], (
        "5 minutes of patience are over before its first commits"
    )
    assert set(watched.states[every * 3 :]) == {LagState.HEALTHY}


def test_members_that_stop_committing_are_not_reading_after_a_minute(watched: Watched) -> None:
    for at in range(10):
        watched.see(1_000 * at, 1_000 * at)
    for at in range(6):
        watched.see(9_000, 9_100 + at)
    found = watched.newest
    assert found.state is LagState.NOT_READING
    assert watched.states[10:13] == [LagState.HEALTHY] * 3
    assert watched.row(9_000).since_ms == START_MS + 10 * PERIOD_MS


def test_group_that_was_behind_at_the_first_sample_gets_five_minutes(watched: Watched) -> None:
    for _ in range(21):
        watched.see(5, 100)
    found = watched.newest
    assert LagState.NOT_READING not in watched.states
    assert (found.is_bound, found.lag_ms) == (True, 20 * PERIOD_MS)
    assert watched.see(5, 100).state is LagState.NOT_READING


def test_idle_topic_has_no_patience_to_lose(watched: Watched) -> None:
    """Hours without a record, then one: the time before it does not count."""
    for _ in range(500):
        watched.see(10, 10)
    assert watched.see(10, 11).state is LagState.HEALTHY
    assert watched.see(11, 11).state is LagState.HEALTHY
    watched.see(11, 12)
    for _ in range(6):
        watched.see(11, 12)
    found = watched.newest
    assert found.state is LagState.NOT_READING, "one record waits for more than a minute: the group is not reading it"


def test_group_at_a_standing_lso_with_records_behind_it_is_blocked(watched: Watched) -> None:
    for at in range(5):
        watched.see(100 * at, 100 * at)
    assert watched.see(400, 450, lso=400).state is LagState.HEALTHY, "seen once: a short transaction"
    found = watched.see(400, 500, lso=400)
    assert (found.state, found.blocked, found.lag_records) == (LagState.BLOCKED, 100, 100)
    assert watched.see(450, 500, lso=450).state is LagState.HEALTHY, "the next transaction"
    assert watched.see(500, 500).state is LagState.HEALTHY


def test_group_behind_a_standing_lso_is_blocked_only_when_it_gets_there(watched: Watched) -> None:
    watched.see(0, 500, lso=400)
    for at in range(1, 4):
        assert watched.see(100 * at, 500, lso=400).state is LagState.HEALTHY
    assert watched.see(400, 500, lso=400).state is LagState.BLOCKED


def test_consumer_of_uncommitted_records_is_never_blocked(watched: Watched) -> None:
    for at in range(8):
        watched.see(400 + 10 * at, 410 + 10 * at, lso=300)
    found = watched.newest
    assert found.state is LagState.HEALTHY


def test_group_without_members_that_stopped_has_no_members(watched: Watched) -> None:
    for at in range(10):
        watched.see(100 * at, 100 * at)
    for _ in range(6):
        watched.see(900, 950, members=0)
    found = watched.newest
    assert (found.state, found.lag_records, found.growing_ms) == (LagState.NO_MEMBERS, 50, None)


def test_group_without_members_and_lag_has_no_members(watched: Watched) -> None:
    for _ in range(25):
        watched.see(900, 900, members=0)
    found = watched.newest
    assert (found.state, found.lag_records) == (LagState.NO_MEMBERS, 0)


def test_client_that_assigns_partitions_itself_is_judged_by_movement(watched: Watched) -> None:
    for at in range(10):
        watched.see(100 * at, 100 * at + 5, members=0)
    found = watched.newest
    assert found.state is LagState.HEALTHY


def test_group_of_a_paused_pipeline_is_paused_with_its_lag(watched: Watched) -> None:
    for at in range(10):
        watched.see(100 * at, 100 * at)
    for at in range(30):
        watched.see(900, 1_000 + 100 * at, paused="flights")
    found = watched.newest
    assert (found.state, found.pipeline, found.lag_records, found.growing_ms) == (
        LagState.PAUSED,
        "flights",
        3_000,
        None,
    )


def test_only_markers_are_no_lag_until_a_record_comes(watched: Watched) -> None:
    watched.see(99, 100)
    watched.see(99, 100)
    assert watched.book.unclear([group_of(99)], 20) == {AT: (99, 100)}
    watched.book.note_content({AT: (99, 100)}, {AT: True})
    found = watched.see(99, 100)
    assert (found.state, found.lag_records, found.lag_ms) == (LagState.HEALTHY, 0, 0)
    assert watched.row(99).is_only_markers
    assert watched.book.unclear([group_of(99)], 20) == {}, "each is read once"
    assert watched.see(99, 102).lag_records == 3


def test_only_markers_before_the_lso_and_records_behind_it_are_blocked(watched: Watched) -> None:
    for _ in range(3):
        watched.see(99, 150, lso=100)
    watched.book.note_content({AT: (99, 100)}, {AT: True})
    assert watched.see(99, 150, lso=100).state is LagState.BLOCKED


def test_stretch_with_records_is_not_read_again(watched: Watched) -> None:
    for _ in range(2):
        watched.see(99, 100)
    watched.book.note_content({AT: (99, 100)}, {AT: False})
    watched.see(99, 100)
    assert watched.book.unclear([group_of(99)], 20) == {}
    assert watched.row(99).lag_records == 1


def test_long_and_moving_stretches_are_not_read(watched: Watched) -> None:
    for _ in range(3):
        watched.see(0, 5_000)
    assert watched.book.unclear([group_of(0)], 20) == {}
    for at in range(3):
        watched.see(5_000, 5_010 + at)
    assert watched.book.unclear([group_of(5_000)], 20) == {}


def test_offsets_that_are_reset_to_earlier_ones_begin_anew(watched: Watched) -> None:
    for at in range(10):
        watched.see(1_000 * at, 1_000 * at)
    assert watched.see(0, 10_000).state is LagState.UNKNOWN
    for at in range(1, 10):
        watched.see(500 * at, 10_000)
    found = watched.newest
    assert found.state is LagState.HEALTHY
    assert watched.row(4_500).lag_records == 5_500


def test_recreated_topic_begins_anew(watched: Watched) -> None:
    for at in range(10):
        watched.see(1_000 * at, 1_000 * at)
    found = watched.see(9_000, 3)
    assert (found.state, found.lag_records) == (LagState.HEALTHY, 0)
    assert watched.book.ends[AT].history.ends.tolist() == [3]
    assert watched.see(2, 5).state in (LagState.HEALTHY, LagState.UNKNOWN)


def test_clock_that_goes_back_proves_nothing(watched: Watched) -> None:
    for at in range(10):
        watched.see(1_000 * at, 1_000 * at + 1)
    found = watched.see(9_000, 9_100, after_ms=-3_600_000)
    assert found.state is LagState.UNKNOWN
    assert watched.see(9_050, 9_100).state is LagState.HEALTHY


def test_server_that_was_away_learns_no_patience_from_it(watched: Watched) -> None:
    for at in range(20):
        watched.see(1_000 * at, 1_000 * at)
    watched.see(30_000, 30_000, after_ms=3 * 3_600_000)
    for at in range(8):
        watched.see(30_000 + at, 30_000 + at)
    for _ in range(6):
        watched.see(30_007, 30_100)
    found = watched.newest
    assert found.state is LagState.NOT_READING


def test_group_that_stood_still_while_the_server_was_away_is_not_reading(watched: Watched) -> None:
    for at in range(20):
        watched.see(1_000 * at, 1_000 * at + 1)
    watched.see(19_000, 30_000, after_ms=3 * 3_600_000)
    assert watched.see(19_000, 30_000).state is LagState.NOT_READING


def test_silent_leader_keeps_the_last_numbers_and_no_verdict(watched: Watched) -> None:
    for at in range(10):
        watched.see(1_000 * at, 1_000 * at + 7)
    found = watched.see(9_000, 0, refused="REQUEST_TIMED_OUT")
    assert (found.state, found.lag_records) == (LagState.UNKNOWN, 7)
    row = watched.row(9_000)
    assert row.problem == "ListOffsets of orders-0 was refused: REQUEST_TIMED_OUT"
    assert row.as_of_ms == START_MS + 10 * PERIOD_MS
    assert watched.see(20_000, 20_007).state in (LagState.HEALTHY, LagState.UNKNOWN)


def test_state_since_is_the_begin_of_the_state(watched: Watched) -> None:
    for at in range(10):
        watched.see(100 * at, 100 * at)
    found = watched.newest
    assert found.since_ms == START_MS + PERIOD_MS


def test_every_state_has_a_rank() -> None:
    assert sorted(WORST) == sorted(LagState)


def rows_of(states: Iterable[tuple[str, int, LagState, int]]) -> list[PartitionLag]:
    return [
        PartitionLag(at=Partition(topic, number), state=state, committed=1, lag_records=lag, lag_ms=lag)
        for topic, number, state, lag in states
    ]


def test_equal_partitions_are_one_row_and_the_worst_is_first() -> None:
    healthy, stuck = LagState.HEALTHY, LagState.NOT_READING
    found = folded(
        rows_of(
            [
                ("a", 0, healthy, 3),
                ("a", 1, healthy, 9),
                ("a", 2, stuck, 4),
                ("a", 3, stuck, 4),
                ("a", 4, stuck, 90),
                ("b", 0, healthy, 0),
            ]
        )
    )
    assert [[str(one.at) for one in rows] for rows in found] == [["a-4"], ["a-2", "a-3"], ["a-0", "a-1"], ["b-0"]]
