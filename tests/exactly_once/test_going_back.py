"""Rule 3: after an abort the position is the committed offset. And rule 2: a callback that fails loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from app.core.wire.heartbeat import EventKind
from app.products.offset_log.verdict import ContradictionKind
from tests.exactly_once.conftest import MakePipeline
from tests.support.offset_log import Recorders
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.waiting import wait_for
from workers.loop.errors import AbortableError
from workers.loop.group.membership import Hold, Membership
from workers.loop.lane import Lane
from workers.loop.lane_state import LaneEvent
from workers.loop.pace import Pace
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.records.suspicion import Suspicion
from workers.loop.settling import Settling


def failing_every_third_time(method: Callable[..., None]) -> Callable[..., None]:
    """`method`, but each third call raises an abortable error instead."""
    calls = 0

    def sometimes(self: object, *args: Any, **kwargs: Any) -> None:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise AbortableError("refused for the test")
        method(self, *args, **kwargs)

    return sometimes


def run_with_aborts(pipeline: TestPipeline, monkeypatch: pytest.MonkeyPatch) -> int:
    """Process four waves of records while each third checkpoint fails at its offsets; returns the aborts."""
    with monkeypatch.context() as patch, running(pipeline.specification(commit_interval_ms=20)) as task:
        task.wait_for_partitions(2)
        patch.setattr(
            TransactionalProducer, "send_offsets", failing_every_third_time(TransactionalProducer.send_offsets)
        )
        for wave in range(1, 5):
            pipeline.feed(2_000)
            task.wait_until(
                lambda seen: all(p.position == len(pipeline.fed) // 2 for p in seen.partitions), f"wave {wave} read"
            )
        patch.undo()
        task.wait_until(lambda seen: seen.open_transaction_age_ms is None, "nothing open")
        task.drain()
        return task.control.last.counters.transactions_aborted


@pytest.mark.core
def test_aborted_checkpoints_are_read_again_from_the_committed_offset(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, recorders: Recorders
) -> None:
    pipeline = make_pipeline()
    assert run_with_aborts(pipeline, monkeypatch) > 0
    pipeline.assert_whole()
    assert recorders.found() == []


def run_behind_with_aborts(pipeline: TestPipeline, monkeypatch: pytest.MonkeyPatch) -> int:
    """Take a backlog while each third checkpoint fails at its offsets; how many of these had been polled ahead of."""
    failed_behind = 0

    def send_offsets(self: TransactionalProducer, *args: Any, **kwargs: Any) -> None:
        nonlocal failed_behind
        try:
            sometimes(self, *args, **kwargs)
        except AbortableError:
            failed_behind += is_ahead()
            raise

    paces: list[Pace] = []

    def is_ahead() -> bool:
        return paces[-1].is_ahead

    def remember(self: Pace, **settings: Any) -> None:
        paces.append(self)
        init(self, **settings)

    init, sometimes = Pace.__init__, failing_every_third_time(TransactionalProducer.send_offsets)
    with monkeypatch.context() as patch:
        patch.setattr(Pace, "__init__", remember)
        pipeline.feed(60_000)
        with running(pipeline.specification(commit_interval_ms=20)) as task:
            patch.setattr(TransactionalProducer, "send_offsets", send_offsets)
            task.wait_until(
                lambda seen: bool(seen.partitions) and all(p.position == 60_000 for p in seen.partitions), "all read"
            )
            patch.undo()
            task.wait_until(lambda seen: seen.open_transaction_age_ms is None, "nothing open")
            task.drain()
    return failed_behind


def test_records_polled_ahead_of_a_checkpoint_that_aborts_are_read_again(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, recorders: Recorders
) -> None:
    pipeline = make_pipeline()
    assert run_behind_with_aborts(pipeline, monkeypatch) > 0
    pipeline.assert_whole()
    assert recorders.found() == []


def stay(_self: Settling) -> LaneEvent:
    """In place of the rewind."""
    return LaneEvent.REWOUND


@pytest.mark.core
def test_without_going_back_an_abort_loses_records(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, recorders: Recorders
) -> None:
    """The negative control: the consumer's position has passed records that were never committed."""
    pipeline = make_pipeline()
    monkeypatch.setattr(Settling, "_rewind", stay)
    assert run_with_aborts(pipeline, monkeypatch) > 0
    audit = pipeline.audit()
    assert audit.lost
    assert not audit.duplicated
    found = {one.kind for verdict in recorders.verdicts().values() for one in verdict.contradictions}
    assert found == {ContradictionKind.GAP}


def test_records_that_come_while_a_producer_is_replaced_are_read_again(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held partitions deliver nothing. Were one to deliver all the same, its record would be passed over."""
    pipeline = make_pipeline(partitions=1)
    verdicts: list[bool] = []

    def once(_self: Suspicion) -> bool:
        verdicts.append(not verdicts)
        return verdicts[-1]

    def hold_nothing(_self: Membership, _reason: Hold) -> None:
        """In place of the pause."""

    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(10)
        monkeypatch.setattr(Membership, "hold", hold_nothing)
        monkeypatch.setattr(Suspicion, "take_verdict_on_batches", once)
        pipeline.feed(50_000)
        task.wait_until(lambda seen: [p.committed for p in seen.partitions] == [50_010], "everything committed")
        monkeypatch.undo()
        task.drain()
    assert verdicts[0]
    pipeline.assert_whole()


def test_callback_that_fails_inside_consume_loses_nothing(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, recorders: Recorders
) -> None:
    pipeline = make_pipeline(partitions=4)

    def fail(_self: Lane) -> None:
        raise AbortableError("failed inside the callback, for the test")

    with running(pipeline.specification()) as first:
        pipeline.feed(2_000)
        first.wait_for_records(1)
        with monkeypatch.context() as patch:
            patch.setattr(Lane, "end_for_revoke", fail)
            with running(pipeline.specification(task=1)) as second:
                pipeline.feed(2_000)
                second.wait_for_partitions(2)
                pipeline.feed(2_000)
                first.wait_for_event(EventKind.REVOKED)
                patch.undo()
                second.wait_for_records(1)
                second.drain()
        first.wait_for_partitions(4)
        first.wait_until(lambda seen: all(p.position == 6_000 for p in seen.partitions), "everything read")
        first.drain()
    pipeline.assert_whole()
    assert recorders.found() == []


class InCallbackError(Exception):
    """Raised by a rebalance callback."""


def test_raw_callback_that_raises_inside_consume_loses_gathered_records(make_pipeline: MakePipeline) -> None:
    """The negative control, on the client itself: this is why our callbacks never raise."""
    pipeline = make_pipeline(partitions=2)
    settings = {
        "bootstrap.servers": pipeline.bootstrap_servers,
        "group.id": pipeline.definition.group_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": "cooperative-sticky",
        "fetch.wait.max.ms": 20,
    }

    raised: list[InCallbackError] = []

    def raise_once(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        if not raised:
            raised.append(InCallbackError())
            raise raised[0]

    first, second = Consumer(settings), Consumer(settings)
    delivered: list[Message] = []
    try:
        first.subscribe([pipeline.source], on_revoke=raise_once)
        wait_for(lambda: first.consume(1, 0.1) == [] and len(first.assignment()) == 2, 20, "the first assignment")
        second.subscribe([pipeline.source])

        def is_raised() -> bool:
            second.poll(0)
            # Fresh records for a call that asks for more than there is: they are gathered, then it is interrupted.
            pipeline.feed(100)
            try:
                delivered.extend(first.consume(10_000, 8.0))
            except InCallbackError:
                return True
            return False

        wait_for(is_raised, 20, "the callback's exception")
        wait_for(lambda: len(first.assignment()) == 1 or second.poll(0.1) or first.poll(0.1), 20, "the rebalance")
        kept = first.assignment()[0]
        position = first.position([kept])[0].offset
        seen = sum(message.partition() == kept.partition for message in delivered)
        assert position == len(pipeline.fed) // 2
        assert seen < position, "records that the position has passed were not delivered"
    finally:
        first.close()
        second.close()
