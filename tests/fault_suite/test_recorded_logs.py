"""The judge on logs that real brokers wrote: Kafka's own exactly-once copier, with and without KIP-890's epochs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from app.core.journals.record_batch import RecordBatch, read_records, split_batches
from tests.fault_suite.consumed import GroupJournal
from tests.fault_suite.coordinated import CoordinatorJournal
from tests.fault_suite.decided import DecidedLog, UnreadableLogError, Writer
from tests.fault_suite.judging import Input, Judge
from tests.support.journal_recording import VERSIONS
from tests.support.recordings import recorded_bytes

_ORDER = re.compile(rb"order (\d+)")
pytestmark = pytest.mark.parametrize("version", [version.name for version in VERSIONS])


def batches(version: str, topic: str) -> Iterator[RecordBatch]:
    for batch in split_batches(recorded_bytes(version, topic)):
        assert isinstance(batch, RecordBatch)
        yield batch


def copies(version: str) -> tuple[DecidedLog, list[tuple[int, int]]]:
    """The log of the copier's topic, and the offset and number of each order in it."""
    log, found = DecidedLog(), list[tuple[int, int]]()
    for batch in batches(version, "orders.copied"):
        log.batch(batch)
        records = read_records(batch)
        assert isinstance(records, list)
        matches = ((record.offset, _ORDER.fullmatch(record.value or b"")) for record in records)
        # The copier reads one partition of two, which has every other order.
        found += [(offset, int(match[1]) // 2) for offset, match in matches if match]
    return log, found


def journal_of(version: str, group: str) -> GroupJournal:
    journal = GroupJournal(group, "orders")
    for batch in batches(version, "__consumer_offsets"):
        journal.batch(batch)
    return journal


def test_the_log_of_kafkas_copier_is_exact(version: str) -> None:
    judge, (log, found) = Judge(), copies(version)
    for number in range(10):
        judge.input(Input(0, number), number, str(Input(0, number)).encode())
    for offset, number in found:
        judge.output(0, offset, str(Input(0, number)).encode(), log)
    coordinator = CoordinatorJournal("orders.copied")
    for batch in batches(version, "__transaction_state"):
        coordinator.batch(batch)
    verdict = judge.verdict(journal_of(version, "copier").consumed, coordinator.committed())
    assert verdict.is_exact, str(verdict)
    assert (verdict.expected, verdict.found, verdict.transactions) == (10, 10, 3)


def test_a_transaction_that_is_left_open_is_seen_in_both_logs(version: str) -> None:
    log, _ = copies(version)
    assert log.open == journal_of(version, "waiting").open == [Writer(5, 0)]


def test_fenced_and_timed_out_transactions_are_not_committed(version: str) -> None:
    log, _ = copies(version)
    committed = [offset for offset in range(28) if log.committed_at(offset)]
    assert committed == [0, 4, 6, 8, 9, 10, 11, 13, 14, 15, 16, 18, 19, 23]


def test_a_consumer_that_commits_by_itself_counts_as_outside_of_a_transaction(version: str) -> None:
    journal = journal_of(version, "classic")
    assert (journal.consumed, len(journal.untransacted)) == ([], 2)


def test_offsets_that_were_deleted_are_refused(version: str) -> None:
    with pytest.raises(UnreadableLogError, match="deletes one of the group, and no fault did"):
        journal_of(version, "loop")
