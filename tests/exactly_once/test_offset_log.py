"""Loops that lose or repeat records, on a real broker: the offset log finds them. Others are beside what they break:
no going back (test_going_back.py), a commit of what was taken away (test_ownership.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from app.core.clusters.partition import Partition
from app.products.offset_log.verdict import ContradictionKind
from tests.exactly_once.conftest import MakePipeline
from tests.exactly_once.test_going_back import run_with_aborts
from tests.support.offset_log import Recorders
from tests.support.tasks import running
from workers.loop.group.membership import Membership
from workers.loop.records.polled import PolledMessages, Records

Consumed = tuple[Records, list[KafkaError]]


def kinds(recorders: Recorders) -> set[ContradictionKind]:
    return {one.kind for verdict in recorders.verdicts().values() for one in verdict.contradictions}


def dropping_the_first_batch(consume: Callable[..., Consumed]) -> Callable[..., Consumed]:
    """The first records after an assignment are dropped."""
    seen: dict[int, int] = {}

    def wrapped(self: Membership, *arguments: Any) -> Consumed:
        messages, errors = consume(self, *arguments)
        if messages and seen.get(id(self)) != self.ownership.changes:
            seen[id(self)] = self.ownership.changes
            return PolledMessages(), errors
        return messages, errors

    return wrapped


def test_first_batch_after_an_assignment_that_is_dropped_is_a_gap(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, recorders: Recorders
) -> None:
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(10)
    with running(pipeline.specification()) as task:
        task.wait_for_records(10)
        task.drain()
    pipeline.feed(200)
    monkeypatch.setattr(Membership, "consume", dropping_the_first_batch(Membership.consume))
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_for_position(210)
        pipeline.feed(10)
        task.wait_for_records(10)
        task.drain()
    assert pipeline.audit().lost
    assert kinds(recorders) == {ContradictionKind.GAP}


@pytest.mark.core
def test_rewind_behind_the_committed_offset_is_an_overlap(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, recorders: Recorders
) -> None:
    seek = Membership.seek

    def too_far(self: Membership, partition: Partition, offset: int) -> bool:
        return seek(self, partition, max(0, offset - 5))

    monkeypatch.setattr(Membership, "seek", too_far)
    pipeline = make_pipeline()
    assert run_with_aborts(pipeline, monkeypatch) > 0
    assert pipeline.audit().duplicated
    assert ContradictionKind.OVERLAP in kinds(recorders)
