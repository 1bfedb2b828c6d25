"""What a task says of its producer is what the transaction journal says of its id."""

from __future__ import annotations

from app.domain.transaction_state import TransactionState
from app.kafka.transaction_journal import read_transaction_journal
from tests.exactly_once.conftest import MakePipeline
from tests.support.tasks import running


def test_a_task_tells_the_producer_id_and_epoch_that_the_coordinator_gave_it(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(10)
    for _ in range(2):
        specification = pipeline.specification()
        with running(specification) as task:
            task.wait_until(lambda seen: seen.producer_id is not None, "the producer's id and epoch")
            said = task.control.last
            assert specification.transactional_id is not None
            states = [
                record.state
                for record in read_transaction_journal(
                    {"bootstrap.servers": pipeline.bootstrap_servers}, prefixes=(specification.transactional_id,)
                )
                if isinstance(record.state, TransactionState)
            ]
            assert (said.producer_id, said.producer_epoch) == (states[-1].producer_id, states[-1].producer_epoch)
            task.drain()
