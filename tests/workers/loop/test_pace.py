"""The size of polls and the time of commits, by the clock alone."""

from __future__ import annotations

from workers.loop.pace import Pace, Poll
from workers.loop.records.batching import MAX_RECORDS, BatchSize
from workers.loop.records.trials import UNLIMITED


class Scene:
    """A pace with a commit each 100 ms, and batches that have grown as far as they can."""

    def __init__(self) -> None:
        self.now = 100.0
        self.batch_size = BatchSize(target_s=1.0)
        while self.batch_size.count < MAX_RECORDS:
            self.batch_size.processed(records=1_000, size_bytes=1_000, seconds=0.001)
        self.pace = Pace(interval_s=0.1, batch_size=self.batch_size, clock=lambda: self.now)

    def poll(self, opened_at: float | None, *, brings: int, limit: int = UNLIMITED) -> Poll:
        asked = self.pace.next_poll(opened_at, limit=limit)
        self.pace.polled(brings)
        return Poll(asked.records, round(asked.wait_s, 6), asked.is_ahead)


def test_idle_waits_for_one_record() -> None:
    assert Scene().poll(None, brings=0) == Poll(1, 0.1)


def test_who_keeps_up_commits_what_the_last_poll_brought() -> None:
    scene = Scene()
    assert scene.poll(100.0, brings=MAX_RECORDS - 1) == Poll(MAX_RECORDS, 0.1)
    assert not scene.pace.is_due(100.0)
    scene.now = 100.1
    assert scene.pace.is_due(100.0)


def test_who_is_behind_polls_once_more_before_the_commit_and_not_twice() -> None:
    scene = Scene()
    scene.poll(100.0, brings=MAX_RECORDS)
    scene.now = 100.1
    assert not scene.pace.is_due(100.0)
    ahead = scene.poll(100.0, brings=scene.batch_size.ahead)
    assert ahead == Poll(scene.batch_size.ahead, 0.0, is_ahead=True)
    assert ahead.records > MAX_RECORDS
    assert scene.pace.is_due(100.0)
    scene.pace.committed()
    assert not scene.pace.is_ahead
    assert not scene.pace.is_due(scene.now), "what was polled ahead begins an interval of its own"


def test_a_commit_is_made_even_if_nothing_more_was_there() -> None:
    scene = Scene()
    scene.poll(100.0, brings=MAX_RECORDS)
    scene.now = 100.2
    assert scene.poll(100.0, brings=0).is_ahead
    assert scene.pace.is_due(100.0)


def test_an_interval_that_began_with_gathering_does_not_shorten_the_next_one() -> None:
    scene = Scene()
    scene.pace.committed()
    assert scene.poll(None, brings=MAX_RECORDS) == Poll(MAX_RECORDS, 0.01)
    scene.now = 100.1
    assert scene.poll(100.0, brings=1).is_ahead
    assert scene.pace.is_due(100.0)
    scene.pace.committed()
    scene.now = 100.15
    assert not scene.pace.is_due(100.1)
    assert scene.poll(100.1, brings=1) == Poll(MAX_RECORDS, 0.05)


def test_where_checkpoints_are_small_nothing_is_polled_ahead() -> None:
    scene = Scene()
    scene.poll(100.0, brings=32, limit=32)
    scene.now = 100.1
    assert scene.poll(100.0, brings=32, limit=32) == Poll(32, 0.0)
    assert scene.pace.is_due(100.0)


def test_a_limit_above_a_batch_does_not_put_off_the_commit() -> None:
    scene = Scene()
    scene.now = 100.1
    assert scene.poll(100.0, brings=MAX_RECORDS, limit=MAX_RECORDS + 48) == Poll(MAX_RECORDS, 0.0)
    assert scene.pace.is_due(100.0)


def test_large_or_slow_records_are_not_polled_in_several_batches() -> None:
    scene = Scene()
    scene.batch_size.processed(records=100, size_bytes=100 * 1024 * 1024, seconds=0.001)
    assert scene.batch_size.ahead == scene.batch_size.count < MAX_RECORDS


def test_no_more_come_at_once_than_may_and_nobody_is_behind_for_that() -> None:
    scene = Scene()
    assert scene.pace.next_poll(100.0, limit=UNLIMITED, most=30).records == 30
    scene.pace.polled(30)
    scene.now = 100.2
    assert not scene.pace.next_poll(100.0, limit=UNLIMITED, most=30).is_ahead
    assert scene.pace.is_due(100.0)
