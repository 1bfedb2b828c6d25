"""Checkpoints that are too slow get smaller, and those that are quick grow again. Time is a number here."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from app.core.clusters.partition import Partition
from workers.loop.checkpoint_size import STILL_AFTER_TIMEOUTS, CheckpointSize
from workers.loop.records.trials import MAX_CHECKPOINT_RECORDS, UNLIMITED

TIMEOUT_S = 10.0
PARTITION = Partition("t", 0)


class Output:
    """An output side that takes so many records a second, and a loop that always has more of them."""

    def __init__(self, *, records_per_s: float) -> None:
        self.now = 0.0
        self.records_per_s = records_per_s
        self.sizes: list[int] = []
        self.size = CheckpointSize(timeout_s=TIMEOUT_S, bound_s=TIMEOUT_S, clock=lambda: self.now)

    def checkpoint(self) -> bool:
        """One, as large as it may be; whether it was committed."""
        records = min(self.size.limit or MAX_CHECKPOINT_RECORDS, MAX_CHECKPOINT_RECORDS)
        opened_at, needs_s = self.now, records / self.records_per_s
        self.sizes.append(records)
        if needs_s <= TIMEOUT_S:
            self.now += needs_s
            self.size.committed(seconds=needs_s)
            return True
        self.now += TIMEOUT_S
        self.size.failed([PARTITION], opened_at=opened_at)
        assert self.size.is_too_slow(None, transaction_opened_at=opened_at)
        self.size.shrink(records, delivered=TIMEOUT_S / needs_s)
        return False


@pytest.mark.parametrize("records_per_s", [0.11, 1.0, 100.0, 40_000.0])
def test_a_slow_output_side_is_written_to_at_its_speed(records_per_s: float) -> None:
    output = Output(records_per_s=records_per_s)
    for _ in range(12):
        output.checkpoint()
    assert all(output.checkpoint() for _ in range(50)), output.sizes


def test_it_gets_down_to_one_record_and_no_further() -> None:
    output = Output(records_per_s=0.01)
    for _ in range(12):
        assert not output.checkpoint()
    assert output.sizes[-3:] == [1, 1, 1]


def test_it_grows_until_it_is_as_large_as_ever_when_the_output_side_is_well() -> None:
    output = Output(records_per_s=0.11)
    for _ in range(12):
        output.checkpoint()
    assert output.size.limit == 1
    output.records_per_s = 1e9
    for _ in range(20):
        output.checkpoint()
    assert output.size.limit == UNLIMITED
    assert not output.size.is_full(MAX_CHECKPOINT_RECORDS)


def test_the_delivered_part_decides_how_much_smaller() -> None:
    size = CheckpointSize(timeout_s=TIMEOUT_S, bound_s=TIMEOUT_S)
    size.shrink(1_000, delivered=0.9)
    assert size.limit == 450
    size.shrink(1_000, delivered=0.0)
    assert size.limit == 125
    size.shrink(1_000, delivered=1.0)
    assert size.limit == 500


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._INCONSISTENT])
def test_an_error_that_says_so_is_about_time_however_early(code: int) -> None:
    size = CheckpointSize(timeout_s=TIMEOUT_S, bound_s=TIMEOUT_S)
    assert size.is_too_slow(code, transaction_opened_at=None)


def test_a_rebalance_right_after_it_was_opened_is_not_about_time() -> None:
    now = 0.0
    size = CheckpointSize(timeout_s=TIMEOUT_S, bound_s=TIMEOUT_S, clock=lambda: now)
    now = 1.0
    assert not size.is_too_slow(KafkaError.ILLEGAL_GENERATION, transaction_opened_at=0.0)


def test_missing_commits_are_reported_after_some_timeouts_and_until_the_next_commit() -> None:
    output = Output(records_per_s=0.01)
    for _ in range(STILL_AFTER_TIMEOUTS):
        assert output.size.still_s is None
        output.checkpoint()
    assert output.size.still_s == STILL_AFTER_TIMEOUTS * TIMEOUT_S
    output.records_per_s = 1e9
    assert output.checkpoint()
    assert output.size.still_s is None


def test_revoked_partitions_are_no_lack_of_progress() -> None:
    output = Output(records_per_s=0.01)
    for _ in range(STILL_AFTER_TIMEOUTS):
        output.checkpoint()
    output.size.retain({PARTITION, Partition("t", 1)})
    assert output.size.still_s is not None
    output.size.retain({Partition("t", 1)})
    assert output.size.still_s is None
    output.size.failed((), opened_at=0.0)
    assert output.size.still_s is None
