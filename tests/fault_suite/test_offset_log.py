"""A run asks what its tasks recorded: a loop that skips is found, and who was killed raises no false alarm."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.wire.heartbeat import TaskState
from app.core.wire.offset_events import CheckpointOutcome, RecordedCheckpoint
from app.core.wire.offset_report import ReportedPartition
from app.edges.embedded.kafka import KafkaCluster
from tests.fault_suite.copier import Copier
from tests.fault_suite.freeze_points import FreezePoints
from tests.fault_suite.offset_log import Asked, Written, checked, written_in
from tests.mutations.switches import Switch, environment_of
from tests.support import verifier
from tests.support.offset_tellers import assigned, at, committed, given_up
from tests.support.pipelines import TestPipeline
from tests.support.tasks import Report, TaskProcess
from workers.loop.control import TaskEnd, TaskResult, TaskSnapshot
from workers.loop.telling.tally import WorkTally

DRAINED = Report(result=TaskResult(end=TaskEnd.DRAINED, message="", counters=WorkTally().counters()))


def told(*events: Any, partition: int = 0) -> Report:
    return Report(
        offsets=(
            ReportedPartition(topic="in", partition=partition, recorded=len(events), is_open=False, events=events),
        )
    )


FIRST = Written(0, 0, (told(assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3)), DRAINED))
BEHIND_A_GAP = Written(1, 0, (told(assigned(0, 4), at(1, 15), committed(2, 15, 30)), DRAINED))


def asked(*attempts: Written) -> int | None:
    return checked(attempts, group="g").contradictions


def test_gap_between_attempts_that_came_to_their_ends_fails_the_run() -> None:
    found = checked([FIRST, BEHIND_A_GAP], group="g")
    assert found.contradictions == 1
    assert "in-0: gap: offsets 10 to 14 were not committed" in (found.failure or "")


@pytest.mark.parametrize(
    "killed",
    [
        Written(2, 0, (told(assigned(0, 2)),)),
        Written(2, 0, (told(assigned(0, 2), partition=1),)),
        Written(2, 0, (Report(snapshot=TaskSnapshot(state=TaskState.STARTING)),)),
    ],
    ids=["told of it", "told of another one", "told of nothing"],
)
def test_gap_that_a_killed_attempt_may_have_filled_is_no_contradiction(killed: Written) -> None:
    assert asked(FIRST, BEHIND_A_GAP, killed) == 0
    at_its_end = killed._replace(reports=(*killed.reports, DRAINED))
    assert asked(FIRST, BEHIND_A_GAP, at_its_end) == 1


def test_process_that_was_killed_before_its_first_report_has_filled_nothing() -> None:
    assert asked(FIRST, BEHIND_A_GAP, Written(2, 0, ())) == 1


def test_nothing_recorded_is_nothing_asked() -> None:
    assert checked(
        [Written(0, 0, (Report(snapshot=TaskSnapshot(state=TaskState.STARTING)), DRAINED))], group="g"
    ) == Asked(None)


def test_a_line_that_was_cut_off_counts_as_never_reported(tmp_path: Path) -> None:
    folder = tmp_path / "task-1-attempt-12"
    folder.mkdir()
    line = msgspec.json.encode(DRAINED)
    (folder / "reports.jsonl").write_bytes(line + b"\n" + line[:-5])
    assert written_in(tmp_path) == [Written(1, 12, (DRAINED,))]


def finding(start: int) -> dict[str, Any]:
    return {"topic": "in", "partition": 0, "kind": "gap", "start": start, "message": f"from {start}"}


def test_a_contradiction_that_only_the_live_check_found_counts_too() -> None:
    now = {"standing": "contradicted", "partitions": [{"contradictions": 1, "findings": [finding(5)]}]}
    assert Asked.of_server(now, [finding(5), finding(9)]) == Asked(2, ("in-0: from 5", "in-0: found live: from 9"))
    calm: dict[str, Any] = {"standing": "consistent", "partitions": [{"contradictions": 0, "findings": []}]}
    assert Asked.of_server(calm, []) == Asked(0)
    assert Asked.of_server({"standing": None, "partitions": []}, []) == Asked(None)


def feed_until(pipeline: TestPipeline, task: TaskProcess, condition: Callable[[], bool]) -> None:
    """More and more, each time until all that was taken in is of transactions that have ended."""

    def has_ended_all() -> bool:
        seen = task.last()
        taken = sum(partition.position or 0 for partition in seen.partitions)
        return taken >= len(pipeline.fed) and seen.open_transaction_age_ms is None

    for _ in range(50):
        pipeline.feed(30)
        task.wait_until(has_ended_all, f"the ends of all transactions over {len(pipeline.fed)} records")
        if condition():
            return
    pytest.fail(f"it did not come to that: {task.last().counters}")


def has_aborted_records(task: TaskProcess) -> bool:
    """Without records nothing is skipped that the offset log knows of: what was polled and left out is none's."""
    events = [event for report in task.reports() for told in report.offsets for event in told.events]
    return any(
        isinstance(one, RecordedCheckpoint) and one.outcome is CheckpointOutcome.ABORTED and one.records
        for one in events
    )


def at_the_ends(pipeline: TestPipeline) -> bool:
    """Is the group's committed offset of every partition behind the last record that was fed?"""
    ends = verifier.end_offsets(pipeline.bootstrap_servers, pipeline.source, verifier.READ_COMMITTED)
    committed = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    return committed == {(pipeline.source, number): end for number, end in ends.items()}


@pytest.mark.slow
@pytest.mark.parametrize("off", [(), (Switch.REWIND,)], ids=["as it is", "without going back"])
def test_a_process_whose_loop_continues_after_an_abort_is_found_by_its_report(
    kafka: KafkaCluster, tmp_path: Path, seed: int, off: tuple[Switch, ...]
) -> None:
    pipeline = TestPipeline.create(kafka.bootstrap_servers, partitions=2)
    copier = Copier(records=50, aborted=1 / 3, seed=seed, in_a_row=2)
    points = FreezePoints(tmp_path / "freeze")
    task = TaskProcess(
        pipeline.specification(),
        tmp_path / "task-0-attempt-0",
        environment=points.environment_of({**os.environ, **copier.environment(), **environment_of(off)}),
    )
    try:
        feed_until(pipeline, task, lambda: has_aborted_records(task))
        committed = task.last().counters.transactions_committed
        # An abort in the end would be a gap that no commit has skipped, or records that only the next task commits.
        feed_until(
            pipeline, task, lambda: task.last().counters.transactions_committed > committed and at_the_ends(pipeline)
        )
        task.drain()
    finally:
        task.close()
    found = checked(written_in(tmp_path), group=pipeline.definition.group_id)
    assert bool(found.contradictions) is bool(off), found
    assert bool(pipeline.audit().lost) is bool(off)
