"""Rule 2: membership is not ownership. Only what never left since its polls is committed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import GroupProtocol
from app.core.wire.heartbeat import DesiredTaskState, EventKind, TaskState
from app.products.offset_log.verdict import ContradictionKind
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.offset_log import Recorders
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.verifier import Audit
from workers.loop.group.confirmed import ConfirmedOffsets
from workers.loop.group.ownership import Ownership
from workers.loop.lane import Lane

HELD_OPEN = {"commit_interval_ms": 60_000, "transaction_timeout_ms": 90_000}


def keep_it(_self: Lane) -> None:
    """In place of the callback's commit: the checkpoint survives the callback."""


def let_pass(_self: ConfirmedOffsets, _found: Mapping[Partition, int | None]) -> None:
    """In place of the comparison with what was confirmed."""


def look_away(_self: Ownership, _partition: Partition, _number: int) -> bool:
    """In place of the ownership number."""
    return True


def primed(make_pipeline: MakePipeline, protocol: GroupProtocol) -> TestPipeline:
    """Two partitions with committed offsets: what follows begins in the middle, as it does in life."""
    pipeline = make_pipeline(group_protocol=protocol, partitions=2)
    pipeline.feed(10)
    with running(pipeline.specification()) as task:
        task.wait_for_records(20)
        task.drain()
    return pipeline


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_revoke_commits_the_whole_checkpoint_before_a_partition_goes(
    make_pipeline: MakePipeline, protocol: GroupProtocol, recorders: Recorders
) -> None:
    pipeline = primed(make_pipeline, protocol)
    pipeline.feed(200)
    with running(pipeline.specification(**HELD_OPEN)) as first:
        first.wait_for_position(420)
        assert first.control.last.counters.records_in == 0
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_partitions(1)
            first.wait_until(lambda seen: len(seen.partitions) == 1, "one partition released")
            # Kept and revoked partition alike: one producer, one transaction.
            assert first.control.last.counters.records_in == 400
            committed = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
            assert set(committed.values()) == {210}
            second.drain()
            assert second.control.last.counters.records_in == 0
        first.drain()
    assert first.control.last.counters.transactions_aborted == 0
    pipeline.assert_whole()
    assert recorders.found() == []


def partition_goes_and_comes_back(pipeline: TestPipeline) -> tuple[Audit, list[EventKind]]:
    """A checkpoint of two partitions stays open while one of them is taken, processed elsewhere, and given back."""
    pipeline.feed(200)
    with running(pipeline.specification(**HELD_OPEN)) as first:
        first.wait_for_position(420)
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_records(200)
            second.drain()
        first.wait_for_partitions(2)
        first.drain()
        kinds = first.control.kinds()
    with running(pipeline.specification(attempt=1)) as last:
        last.wait_for_partitions(2)
        last.wait_until(lambda seen: all(p.position == 210 for p in seen.partitions), "everything read")
        last.drain()
    return pipeline.audit(), kinds


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_checkpoint_whose_partition_went_and_came_back_is_aborted(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol, recorders: Recorders
) -> None:
    # The callback's commit would hide what the number protects from: without it the checkpoint survives the callback.
    monkeypatch.setattr(Lane, "end_for_revoke", keep_it)
    audit, kinds = partition_goes_and_comes_back(primed(make_pipeline, protocol))
    assert audit.is_exact, str(audit)
    assert EventKind.ABORTED in kinds
    assert recorders.found() == []


@pytest.mark.core
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_without_the_ownership_number_it_duplicates(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol, recorders: Recorders
) -> None:
    """The negative control: the broker takes the member's commit for a partition that another member has processed."""
    monkeypatch.setattr(Lane, "end_for_revoke", keep_it)
    monkeypatch.setattr(Ownership, "is_unchanged", look_away)
    # By its number it knows which of its confirmed commits still count: blind, it would wait for one that is long past.
    monkeypatch.setattr(ConfirmedOffsets, "refuse_older", let_pass)
    audit, kinds = partition_goes_and_comes_back(primed(make_pipeline, protocol))
    assert len(audit.duplicated) == 200, str(audit)
    assert not audit.lost
    assert EventKind.ABORTED not in kinds
    found = {one.kind for verdict in recorders.verdicts().values() for one in verdict.contradictions}
    assert {ContradictionKind.OVERLAP, ContradictionKind.WITHOUT_OWNERSHIP} <= found


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_partition_that_left_while_it_was_paused_is_read_when_it_comes_back(
    make_pipeline: MakePipeline, protocol: GroupProtocol, recorders: Recorders
) -> None:
    """The client remembers the pause of a partition that it no longer has."""
    pipeline = primed(make_pipeline, protocol)
    with running(pipeline.specification()) as first:
        first.wait_for_partitions(2)
        first.control.wanted = DesiredTaskState.PAUSE
        first.wait_until(lambda seen: seen.state is TaskState.PAUSED, "the pause")
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_partitions(1)
            first.wait_for_partitions(1)
            first.control.wanted = DesiredTaskState.RUN
            first.wait_until(lambda seen: seen.state is TaskState.RUNNING, "the resume")
            second.drain()
        first.wait_for_partitions(2)
        pipeline.feed(100)
        first.wait_for_records(200)
        first.drain()
    pipeline.assert_whole()
    assert recorders.found() == []


@pytest.mark.core
@pytest.mark.slow
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_tasks_that_come_and_go_under_load_keep_it_exact(
    make_pipeline: MakePipeline, protocol: GroupProtocol, recorders: Recorders
) -> None:
    pipeline = make_pipeline(group_protocol=protocol, partitions=6)
    pipeline.feed(3_000)
    with running(pipeline.specification()) as first:
        first.wait_for_records(1)
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_partitions(3)
            pipeline.feed(3_000)
            with running(pipeline.specification(task=2)) as third:
                third.wait_for_partitions(2)
                pipeline.feed(3_000)
                third.wait_for_records(1)
                second.drain()
                pipeline.feed(3_000)
                first.wait_for_partitions(3)
                third.drain()
        first.wait_for_partitions(6)
        first.wait_until(lambda seen: all(p.position == 12_000 for p in seen.partitions), "everything read")
        first.drain()
    pipeline.assert_whole()
    assert recorders.found() == []
