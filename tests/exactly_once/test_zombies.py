"""Rules 1 and 2 against processes that freeze, wake up late, or die between their outputs and their commit."""

from __future__ import annotations

import pytest

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.core.wire.offset_events import GivenUp, PartitionLeaving
from tests.exactly_once.conftest import MakePipeline, StartProcess
from tests.support import verifier
from tests.support.offset_log import Recorders
from tests.support.tasks import running
from tests.support.waiting import wait_for
from workers.loop.control import TaskEnd

HELD_OPEN = {"commit_interval_ms": 5_000, "transaction_timeout_ms": 20_000}


@pytest.mark.core
@pytest.mark.parametrize(
    ("guarantee", "is_exact"),
    [(ProcessingGuarantee.EXACTLY_ONCE_V2, True), (ProcessingGuarantee.AT_LEAST_ONCE, False)],
)
def test_death_between_outputs_and_commit_leaves_no_trace_of_the_outputs(
    make_pipeline: MakePipeline, start_process: StartProcess, guarantee: ProcessingGuarantee, is_exact: bool
) -> None:
    """Rule 1. `at_least_once` is its negative control: the same death, outputs that stay, and the input read again."""
    pipeline = make_pipeline(processing_guarantee=guarantee, partitions=1)
    pipeline.feed(10)
    with running(pipeline.specification()) as task:
        task.wait_for_records(10)
        task.drain()
    pipeline.feed(1_000)
    process = start_process(pipeline.specification(**HELD_OPEN | {"commit_interval_ms": 60_000}))
    sink_end = 1_010

    def has_written() -> bool:
        ends = verifier.end_offsets(pipeline.bootstrap_servers, pipeline.sink, verifier.READ_UNCOMMITTED)
        return ends[0] >= sink_end

    wait_for(has_written, 30, "the outputs in the sink's log, committed or not")
    process.kill()
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_for_records(1_000)
        task.drain()
    audit = pipeline.audit()
    assert not audit.lost
    assert (not audit.duplicated) is is_exact, str(audit)


@pytest.mark.core
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_frozen_zombie_cannot_commit_what_another_task_has_processed(
    make_pipeline: MakePipeline, start_process: StartProcess, protocol: GroupProtocol, recorders: Recorders
) -> None:
    """Frozen with an open checkpoint until the group has given its partitions away; thawed before its timeout."""
    pipeline = make_pipeline(group_protocol=protocol, session_timeout_ms=3_000, partitions=1)
    pipeline.feed(10)
    with running(pipeline.specification()) as task:
        task.wait_for_records(10)
        task.drain()
    zombie = start_process(pipeline.specification(**HELD_OPEN | {"transaction_timeout_ms": 60_000}))
    zombie.wait_until(lambda: len(zombie.last().partitions) == 1, "the assignment")
    pipeline.feed(500)
    zombie.wait_for_position(510)
    zombie.freeze()
    with running(pipeline.specification(task=1)) as taker:
        taker.wait_for_records(500)
        zombie.thaw()
        zombie.wait_until(lambda: zombie.last().counters.transactions_aborted > 0, "the zombie's abort")
        pipeline.feed(500)
        wait_for(
            lambda: (taker.control.last.counters.records_in + zombie.last().counters.records_in) >= 1_000,
            30,
            "the next records, by the present owner of the partition",
        )
        assert zombie.drain().end is TaskEnd.DRAINED
        taker.drain()
    pipeline.assert_whole()
    zombies = [offsets for report in zombie.reports() for offsets in report.offsets]
    assert {event.how for told in zombies for event in told.events if isinstance(event, GivenUp)} >= {
        PartitionLeaving.LOST
    }
    assert recorders.found(zombies) == []
