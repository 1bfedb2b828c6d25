"""Rule 3 with an old answer: a group coordinator that was frozen, has been replaced, and does not know it yet.

On three brokers such a coordinator was observed, each time, to answer with the offsets from before its absence. It did
so until it learned of the change, for some milliseconds to some hundreds. That time cannot be predicted, so the client
gets such answers from the test here.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer, TopicPartition

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import EventKind, TaskState
from tests.exactly_once.conftest import MakePipeline
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from workers.loop.errors import AbortableError
from workers.loop.group import offset_commits
from workers.loop.group.confirmed import ConfirmedOffsets
from workers.loop.producing.transactional_producer import TransactionalProducer

OLD, OLD_ANSWERS = 10, 8


class AsksAnOldCoordinator(Consumer):
    """Its questions get the answer of long ago while `answers` are left."""

    answers = 0

    def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        found = super().committed(partitions, timeout)
        if AsksAnOldCoordinator.answers == 0:
            return found
        AsksAnOldCoordinator.answers -= 1
        return [TopicPartition(entry.topic, entry.partition, OLD) for entry in found]


def go_back_to_an_old_answer(pipeline: TestPipeline, monkeypatch: pytest.MonkeyPatch) -> list[TaskState]:
    """Commit, abort, and get an old answer; returns the states that the task reported."""
    monkeypatch.setattr(offset_commits, "Consumer", AsksAnOldCoordinator)
    send_offsets = TransactionalProducer.send_offsets

    def refused_once(*_arguments: object, **_named: object) -> None:
        AsksAnOldCoordinator.answers = OLD_ANSWERS
        monkeypatch.setattr(TransactionalProducer, "send_offsets", send_offsets)
        raise AbortableError("refused for the test")

    with running(pipeline.specification()) as task:
        for records in (OLD, 300):
            pipeline.feed(records)
            task.wait_for_records(len(pipeline.fed))
        monkeypatch.setattr(TransactionalProducer, "send_offsets", refused_once)
        pipeline.feed(10)
        task.wait_for_event(EventKind.ABORTED)
        task.wait_until(lambda seen: [p.committed for p in seen.partitions] == [len(pipeline.fed)], "all committed")
        task.drain()
    assert AsksAnOldCoordinator.answers == 0
    return [snapshot.state for snapshot in task.control.snapshots]


def test_no_task_rewinds_behind_its_own_confirmed_commit(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(partitions=1)
    # It waits, and says so.
    assert TaskState.BACKING_OFF in go_back_to_an_old_answer(pipeline, monkeypatch)
    pipeline.assert_whole()


def test_task_that_believes_an_old_answer_duplicates(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""

    def believe(_self: ConfirmedOffsets, _found: Mapping[Partition, int | None]) -> None:
        """In place of the comparison."""

    monkeypatch.setattr(ConfirmedOffsets, "refuse_older", believe)
    monkeypatch.setattr("tests.exactly_once.test_old_coordinator.OLD_ANSWERS", 1)
    pipeline = make_pipeline(partitions=1)
    go_back_to_an_old_answer(pipeline, monkeypatch)
    audit = pipeline.audit()
    assert audit.duplicated
    assert not audit.lost
