"""One attempt of one endless task: make the clients, run the loop, close everything."""

from __future__ import annotations

import sys
import time

from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.wire.heartbeat import EventKind, TaskState
from workers.loop.client_config import admin_config, consumer_config
from workers.loop.control import Control, TaskEnd, TaskResult, TaskSpecification
from workers.loop.errors import SupersededError, error_of
from workers.loop.garbage import quiet_garbage_collector
from workers.loop.group.confirmed import ConfirmedOffsets
from workers.loop.group.membership import Membership
from workers.loop.group.offset_commits import OffsetCommits
from workers.loop.group.ownership import Ownership
from workers.loop.group.remembered import Remembered
from workers.loop.group.source_topics import SourceTopics, TopicClient
from workers.loop.group.starting import Starting
from workers.loop.lane_parts import lanes_of
from workers.loop.lanes import Lanes
from workers.loop.loop import TaskLoop
from workers.loop.producing.limits import Limits
from workers.loop.producing.output_topics import OutputTopics
from workers.loop.producing.task_files import TaskFiles
from workers.loop.records.batching import MAX_NATIVE_RECORDS, MAX_RECORDS, BatchSize
from workers.loop.records.filing import Filing
from workers.loop.records.processing import Processing
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.loop.telling.progress import ProgressReporter
from workers.loop.telling.tally import WorkTally
from workers.native.taking import source_for, why_objects
from workers.transforms import Transform

_DEFAULT_MAX_POLL_INTERVAL_MS = 300_000
_LONGEST_BATCH_S = 1.0
_ASK_RECORDED_S = 2.0


def run_task(specification: TaskSpecification, control: Control, *, transform: Transform) -> TaskResult:
    """Run one attempt until it is drained or superseded.

    Nothing is left behind: no open transaction (unless the broker cannot be reached; then the coordinator ends it), no
    member in the group, no client.

    Raises:
        PipelineStopError: a user must act: a record that the policy does not let pass, or too many bad ones.
        TaskFailedError: this attempt cannot continue; another may.
        TransformError and other errors of a transform that no record causes.
    """
    tally = WorkTally()
    progress = ProgressReporter(control, tally)
    with quiet_garbage_collector():
        attempt = Attempt(specification, control, transform=transform, tally=tally, progress=progress)
        error = error_of(lambda: attempt.loop.run(specification.definition.source_topics), BaseException)
        is_superseded = isinstance(error, SupersededError)
        if is_superseded:
            control.event(EventKind.SUPERSEDED, str(error))
        elif error is not None:
            # The work since the last snapshot counts too; the receiver of the error adds its meaning.
            progress.last_error, progress.obstacle = str(error), None
            progress.enter(TaskState.FAILED, now=time.monotonic())
        attempt.source_topics.close()
        # Before the consumer is closed, which releases all partitions.
        owned = attempt.membership.ownership.owned
        attempt.membership.source.close()
        has_left = attempt.commits.close()
        if has_left and not attempt.loop.may_have_left_open:
            attempt.membership.remembered.settle(owned)
        if attempt.files is not None:
            attempt.files.close()
        progress.leave()
        if is_superseded:
            end, message, state = TaskEnd.SUPERSEDED, str(error), TaskState.SUPERSEDED
        elif error is not None:
            raise error
        else:
            end, state = TaskEnd.DRAINED, TaskState.DRAINED
            message = _drained(may_be_open=attempt.loop.may_have_left_open, has_left=has_left)
        progress.enter(state, now=time.monotonic())
    return TaskResult(end=end, message=message, counters=tally.counters())


def _drained(*, may_be_open: bool, has_left: bool) -> str:
    """The result of the drain, as far as it is known."""
    if may_be_open:
        return "drained, but a transaction may be open: its coordinator did not answer, and ends it at its timeout"
    if not has_left:
        return (
            "drained, but the group's coordinator did not answer: the last records may be processed again, and the "
            "partitions are free after the session timeout"
        )
    return "drained: no transaction is open, the group is left"


class Attempt:
    """The parts of one attempt, put together."""

    def __init__(
        self,
        specification: TaskSpecification,
        control: Control,
        *,
        transform: Transform,
        tally: WorkTally,
        progress: ProgressReporter,
    ) -> None:
        definition = specification.definition
        is_exactly_once = definition.processing_guarantee is not ProcessingGuarantee.AT_LEAST_ONCE
        consuming = consumer_config(specification)
        self.files = None if definition.files is None else TaskFiles(specification, definition.files)
        commit_interval_s = (definition.commit_interval_ms if self.files is None else self.files.rotate_ms) / 1000
        is_native = why_objects(definition, may_be_native=specification.native_records) is None
        batch_size = BatchSize(
            target_s=min(commit_interval_s, _LONGEST_BATCH_S), most=MAX_NATIVE_RECORDS if is_native else MAX_RECORDS
        )
        ownership = Ownership()
        recorder = OffsetRecorder(ownership, is_on=is_exactly_once)
        if recorder.is_on:
            control.tell_offsets(recorder)
        remembered = Remembered(
            specification.recorded,
            ownership=ownership,
            ask=lambda: control.ask_recorded(timeout_s=_ASK_RECORDED_S),
        )
        self.commits = OffsetCommits(consuming, trouble=lambda error: self.membership.keep_trouble(error))
        self.membership = Membership(
            self.commits.consumer,
            ownership=ownership,
            confirmed=ConfirmedOffsets(ownership) if is_exactly_once else None,
            remembered=remembered,
            begin=lambda partitions: self.lanes.assigned(partitions),
            end_checkpoint=lambda partitions: self.lanes.end_for_revoke(partitions),
            lose=lambda partitions: self.lanes.lost(partitions),
            announce=control.event,
            recorder=recorder,
            source=source_for(self.commits.consumer, definition, may_be_native=specification.native_records),
        )
        topic_client = TopicClient(admin_config(specification))
        self.lanes: Lanes = lanes_of(
            specification,
            control,
            membership=self.membership,
            commits=self.commits,
            batch_size=batch_size,
            tally=tally,
            progress=progress,
            files=self.files,
            limits=Limits(topic_client),
            max_poll_interval_s=int(consuming.get("max.poll.interval.ms", _DEFAULT_MAX_POLL_INTERVAL_MS)) / 1000,
        )
        self.source_topics = SourceTopics(
            definition.source_topics,
            ask=topic_client.ask,
            let_go=topic_client.close,
            ownership=ownership,
            remembered=remembered,
            announce=control.event,
        )
        output_topics = OutputTopics(definition.sink_topic, ask=topic_client.ask)
        self.loop = TaskLoop(
            membership=self.membership,
            lanes=self.lanes,
            starting=Starting(
                self.membership,
                start_position=definition.start_position,
                source_topics=definition.source_topics,
                pipeline=specification.pipeline,
                group=definition.group_id,
                commit_starts=self.lanes.commit_starts,
                announce=control.event,
            ),
            source_topics=self.source_topics,
            output_topics=output_topics,
            processing=(Processing if self.files is None else Filing)(
                transform,
                source_topics=definition.source_topics,
                sink_topic=definition.sink_topic,
                topics=output_topics,
            ),
            batch_size=batch_size,
            control=control,
            commit_interval_s=commit_interval_s,
            after_commits=None if self.files is None else self.files.verify,
            most_polled=(lambda: sys.maxsize) if self.files is None else self.files.most_polled,
            drain_bound_s=2 * definition.transaction_timeout_ms / 1000
            + (0 if self.files is None else self.files.upload_timeout_s),
            progress=progress,
        )
