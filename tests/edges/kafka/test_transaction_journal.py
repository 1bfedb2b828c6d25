"""The journal reader against a task's own reports."""

import pytest

from app.core.ids.transaction_counts import count_transactions
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.transaction_journal import JournalUnreadableError, read_transaction_journal
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running


@pytest.mark.core
def test_journal_counts_what_the_task_committed(kafka: KafkaCluster) -> None:
    pipeline = TestPipeline.create(kafka.bootstrap_servers, partitions=2)
    with running(pipeline.specification()) as task:
        for wave in range(1, 4):
            pipeline.feed(50)
            task.wait_for_records(wave * 100)
        task.drain()
    prefixes = (pipeline.transactional_id(0),)
    records = list(read_transaction_journal({"bootstrap.servers": kafka.bootstrap_servers}, prefixes=prefixes))
    counts = count_transactions(records, prefixes=prefixes)
    counters = task.control.last.counters
    assert counts.committed == counters.transactions_committed >= 3
    assert (counts.aborted, counts.fencings, counts.inits) == (0, 0, 1)
    assert len({record.partition for record in records}) == 1


def test_unreachable_broker_is_a_clear_error() -> None:
    with pytest.raises(JournalUnreadableError, match="__transaction_state cannot be read"):
        list(read_transaction_journal({"bootstrap.servers": "127.0.0.1:9", "log_level": "0"}, timeout_s=1.0))
