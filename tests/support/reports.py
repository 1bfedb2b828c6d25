"""The last report of a task, for tests that need no task."""

from __future__ import annotations

from app.core.runs.task import TaskReport, TaskState

REPORT = TaskReport(
    run_id="r",
    ordinal=0,
    lease=1,
    task=2,
    attempt=3,
    sequence=9,
    sent_at_ms=1,
    host="w1",
    pid=4711,
    state=TaskState.RUNNING,
    transactional_id="tx",
    producer_id=7,
    producer_epoch=4,
    member_id="member",
)
