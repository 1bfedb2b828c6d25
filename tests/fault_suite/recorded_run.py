"""The logs of a pipeline that failed (tests/mutations/recording.py), judged as a run's are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from app.core.journals import group_records, transaction_state
from app.core.journals.record_batch import BatchRecord, RecordBatch, read_records, split_batches
from tests.fault_suite.consumed import GroupJournal
from tests.fault_suite.coordinated import CoordinatorJournal
from tests.fault_suite.decided import DecidedLog
from tests.fault_suite.first_wrong import Topics
from tests.fault_suite.judging import Judge, Verdict, identity_of

RECORDED = Path(__file__).parent / "recorded"


def topics() -> Topics:
    """As TestPipeline names them."""
    (source,) = (path.name.rpartition("-")[0] for path in RECORDED.glob("p-*.in-0.log"))
    name = source.removesuffix(".in")
    return Topics(source, f"{name}.out", f"{name}.group")


def logs(topic: str) -> Iterator[tuple[int, RecordBatch]]:
    for path in sorted(RECORDED.glob(f"{topic}-*.log")):
        for batch in split_batches(path.read_bytes()):
            assert isinstance(batch, RecordBatch)
            yield int(path.stem.rpartition("-")[2]), batch


def verdict() -> Verdict:
    judge, of = Judge(), topics()
    for _, batch in logs(of.source):
        for record in records(batch):
            identity = identity_of(record.value)
            assert identity is not None
            judge.input(identity, record.offset, record.value or b"")
    decided: defaultdict[int, DecidedLog] = defaultdict(DecidedLog)
    for partition, batch in logs(of.sink):
        decided[partition].batch(batch)
    for partition, batch in logs(of.sink):
        for record in records(batch):
            if decided[partition].committed_at(record.offset) is not None:
                judge.output(partition, record.offset, record.value, decided[partition])
    journal, coordinator = GroupJournal(of.group, of.source), CoordinatorJournal(of.sink)
    for _, batch in logs(group_records.TOPIC):
        journal.batch(batch)
    for _, batch in logs(transaction_state.TOPIC):
        coordinator.batch(batch)
    return judge.verdict(journal.consumed, coordinator.committed(), aborted=journal.aborted)


def records(batch: RecordBatch) -> list[BatchRecord]:
    found = [] if batch.is_control else read_records(batch)
    assert isinstance(found, list)
    return found
