"""A producer that does not come back from sending offsets is replaced, however often, and can do no harm later."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition

from app.core.wire.heartbeat import EventKind
from tests.exactly_once.conftest import MakePipeline
from tests.exactly_once.test_fencing import inits
from tests.support.tasks import running
from tests.support.waiting import wait_for
from workers.loop.errors import ErrorSeverity, severity
from workers.loop.producing import transactional_producer

TIMES = 2


class GetsStuck(Producer):
    """Sends its offsets when `released`, long after the loop waited for it; the first few of them do."""

    stuck: list[Producer]
    late: list[str]
    released: threading.Event

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: object, timeout: float = -1
    ) -> None:
        if not positions[0].offset or len(GetsStuck.stuck) == TIMES:
            return super().send_offsets_to_transaction(positions, group_metadata, timeout)
        GetsStuck.stuck.append(self)
        GetsStuck.released.wait(60)
        try:
            super().send_offsets_to_transaction(positions, group_metadata, 20)
            super().commit_transaction(20)
            GetsStuck.late.append("committed")
        except KafkaException as exception:
            GetsStuck.late.append(severity(exception.args[0]))
        return None


def test_producer_that_gets_stuck_again_and_again_costs_time_and_no_record(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional_producer, "_OVERDUE_S", 0.1)
    monkeypatch.setattr(transactional_producer, "Producer", GetsStuck)
    GetsStuck.stuck, GetsStuck.late, GetsStuck.released = [], [], threading.Event()
    # A call may take as long as the transaction; meanwhile the coordinator ends it.
    pipeline = make_pipeline(partitions=1, transaction_timeout_ms=1_500)
    with running(pipeline.specification()) as task:
        pipeline.feed(300)
        task.wait_for_records(300)
        lost = [event for event in task.control.events if event.kind is EventKind.ABORTED]
        GetsStuck.released.set()
        wait_for(lambda: len(GetsStuck.late) == TIMES, 30, lambda: f"the late calls' ends; so far {GetsStuck.late}")
        pipeline.feed(300)
        task.wait_for_records(600)
        assert task.drain().counters.transactions_aborted == TIMES
    GetsStuck.stuck.clear()
    assert all("did not return from sending the input offsets" in event.message for event in lost)
    assert GetsStuck.late == [ErrorSeverity.FENCED] * TIMES
    assert inits(pipeline) == 1 + TIMES
    pipeline.assert_whole()
