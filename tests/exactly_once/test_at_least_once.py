"""at_least_once: no offset before its outputs, and no endless wait for a commit."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, TopicPartition

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.core.wire.heartbeat import EventKind
from app.edges.embedded.kafka import KafkaCluster
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.waiting import wait_for
from workers.loop.control import TaskEnd
from workers.loop.producing.idempotent_producer import IdempotentProducer
from workers.loop.records.polled import Records
from workers.loop.slices import CallPatience

real_commit = IdempotentProducer.commit


def freeze_at_next_commit(monkeypatch: pytest.MonkeyPatch, kafka: KafkaCluster) -> list[bool]:
    """The broker stops just before the next commit of offsets: all outputs are delivered by then."""
    frozen: list[bool] = []

    def commit(self: IdempotentProducer, *, patience: CallPatience, confirmed: Callable[[], None]) -> None:
        if not frozen:
            kafka.broker(1).pause()
            frozen.append(True)
        real_commit(self, patience=patience, confirmed=confirmed)

    monkeypatch.setattr(IdempotentProducer, "commit", commit)
    return frozen


def primed(make_pipeline: MakePipeline, protocol: GroupProtocol = GroupProtocol.CLASSIC) -> TestPipeline:
    return make_pipeline(
        processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE, group_protocol=protocol, transaction_timeout_ms=4_000
    )


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_commit_that_a_frozen_broker_does_not_answer_is_abandoned_and_nothing_is_lost(
    kafka: KafkaCluster, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol
) -> None:
    pipeline = primed(make_pipeline, protocol)
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(20)
        try:
            freeze_at_next_commit(monkeypatch, kafka)
            pipeline.feed(100)
            if protocol is GroupProtocol.CLASSIC:
                # Polls are served meanwhile: this client's session ends, and the callback says so.
                task.wait_for_event(EventKind.LOST)
            else:
                seen = len(task.control.snapshots)
                wait_for(lambda: len(task.control.snapshots) > seen + 8, 25, "turns of the loop")
        finally:
            kafka.broker(1).resume()
        task.wait_until(
            lambda seen: len(seen.partitions) == 2 and all(p.committed == 110 for p in seen.partitions),
            "everything committed",
        )
        task.drain()
    audit = pipeline.audit()
    assert not audit.lost
    assert not audit.unexpected


def test_drain_does_not_wait_for_a_commit_that_is_not_answered(
    kafka: KafkaCluster, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = primed(make_pipeline)
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(20)
        try:
            frozen = freeze_at_next_commit(monkeypatch, kafka)
            pipeline.feed(100)
            wait_for(lambda: frozen, 25, "the broker to stop")
            began_at = time.monotonic()
            assert task.drain().end is TaskEnd.DRAINED
            took_s = time.monotonic() - began_at
        finally:
            kafka.broker(1).resume()
    assert took_s < 10, took_s
    # The thread that waits for the answer closes the consumer then.
    wait_for(
        lambda: verifier.group_members(pipeline.bootstrap_servers, pipeline.definition.group_id) == 0,
        25,
        "the member to leave",
    )
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_until(
            lambda seen: len(seen.partitions) == 2 and all(p.committed == 110 for p in seen.partitions),
            "everything committed",
        )
        task.drain()
    assert not pipeline.audit().lost


def test_refused_commit_is_received_without_another_one_and_its_records_are_read_again(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = primed(make_pipeline)
    refused: list[bool] = []
    real_send = IdempotentProducer.send_offsets

    def send_too_much(
        self: IdempotentProducer, offsets: list[TopicPartition], consumer: Consumer, *, patience: CallPatience
    ) -> None:
        if not refused:
            refused.append(True)
            # More than the broker's offset.metadata.max.bytes.
            offsets = [TopicPartition(at.topic, at.partition, at.offset, metadata="x" * 5_000) for at in offsets]
        real_send(self, offsets, consumer, patience=patience)

    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(20)
        monkeypatch.setattr(IdempotentProducer, "send_offsets", send_too_much)
        pipeline.feed(10)
        wait_for(
            lambda: (
                verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
                == {(pipeline.source, 0): 20, (pipeline.source, 1): 20}
            ),
            25,
            "everything committed although one commit was refused",
        )
        task.drain()
    audit = pipeline.audit()
    assert refused
    # A refused commit counts when it is repeated, and only once.
    assert task.control.last.counters.records_in == 40
    assert audit.duplicated
    assert not audit.lost


def test_outputs_that_a_frozen_broker_does_not_take_cost_time_and_no_record(
    kafka: KafkaCluster, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that was not delivered in time says nothing against the attempt."""
    pipeline = primed(make_pipeline)
    frozen: list[bool] = []
    real_write = IdempotentProducer.write_records

    def write(self: IdempotentProducer, messages: Records, *, topic: str, keep_partition: bool) -> None:
        if not frozen:
            kafka.broker(1).pause()
            frozen.append(True)
        real_write(self, messages, topic=topic, keep_partition=keep_partition)

    with running(pipeline.specification(producer_overrides={"message.timeout.ms": "1500"})) as task:
        pipeline.feed(10)
        task.wait_for_records(20)
        try:
            monkeypatch.setattr(IdempotentProducer, "write_records", write)
            pipeline.feed(100)
            task.wait_for_event(EventKind.ABORTED)
        finally:
            kafka.broker(1).resume()
        task.wait_until(
            lambda seen: len(seen.partitions) == 2 and all(p.committed == 110 for p in seen.partitions),
            "everything committed",
        )
        task.drain()
    assert any("Message timed out" in event.message for event in task.control.events)
    assert not pipeline.audit().lost
