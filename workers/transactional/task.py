"""One attempt of one endless task: clients made, the loop run, everything closed."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.domain.pipelines.pipeline import ProcessingGuarantee
from app.wire.heartbeat import EventKind, TaskState
from workers.transactional.checkpoints import Bounds, Checkpoints
from workers.transactional.claim.inquiry import Inquiry
from workers.transactional.claim.journal import IdJournal
from workers.transactional.client_config import (
    admin_config,
    consumer_config,
    idempotent_producer_config,
    reader_config,
    transactional_producer_config,
)
from workers.transactional.control import Control, TaskEnd, TaskResult, TaskSpecification
from workers.transactional.errors import SupersededError, TaskFailedError, error_of
from workers.transactional.garbage import quiet_garbage_collector
from workers.transactional.group.confirmed import Confirmed
from workers.transactional.group.membership import Membership
from workers.transactional.group.offset_commits import OffsetCommits
from workers.transactional.group.ownership import Ownership
from workers.transactional.group.source_topics import SourceTopics, TopicClient
from workers.transactional.group.starting import Starting
from workers.transactional.loop import TaskLoop
from workers.transactional.producing.idempotent_producer import IdempotentProducer
from workers.transactional.producing.producers import TaskProducer
from workers.transactional.producing.transactional_producer import TransactionalProducer
from workers.transactional.records.batching import BatchSize
from workers.transactional.records.failures import BadRecords
from workers.transactional.records.processing import Processing
from workers.transactional.records.suspicion import Suspicion
from workers.transactional.recovery import Recovery
from workers.transactional.settling import Settling
from workers.transactional.telling.offset_recorder import OffsetRecorder
from workers.transactional.telling.progress import Progress
from workers.transactional.telling.tally import Tally
from workers.transforms import Transform

_DEFAULT_MAX_POLL_INTERVAL_MS = 300_000


def run_task(specification: TaskSpecification, control: Control, *, transform: Transform) -> TaskResult:
    """Run one attempt until it is drained or superseded.

    Nothing is left behind: no open transaction (unless the broker cannot be reached, then the coordinator ends it), no
    member in the group, no client.

    Raises:
        PipelineStopError: a person must look: a record that the policy does not let pass, or too many bad ones.
        TaskFailedError: this attempt cannot go on; another may.
        TransformError and whatever else a transform raises that is not a record's fault.
    """
    tally = Tally()
    progress = Progress(control, tally)
    with quiet_garbage_collector():
        attempt = Attempt(specification, control, transform=transform, tally=tally, progress=progress)
        error = error_of(lambda: attempt.loop.run(specification.definition.source_topics), BaseException)
        is_superseded = isinstance(error, SupersededError)
        if is_superseded:
            control.event(EventKind.SUPERSEDED, str(error))
        elif error is not None:
            # What was done since the last snapshot counts too; whoever hears of the error adds what it means.
            progress.last_error, progress.obstacle = str(error), None
            progress.enter(TaskState.FAILED, now=time.monotonic())
        attempt.source_topics.close()
        has_left = attempt.commits.close()
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
    """What is known of how it was drained, and no more."""
    if may_be_open:
        return "drained, but a transaction may be open: its coordinator did not answer, and ends it at its timeout"
    if not has_left:
        return (
            "drained, but the group's coordinator did not answer: the last records may be processed again, and the "
            "partitions are free when the session is over"
        )
    return "drained: nothing is open, the group is left"


class Attempt:
    """The parts of one attempt, put together."""

    def __init__(
        self,
        specification: TaskSpecification,
        control: Control,
        *,
        transform: Transform,
        tally: Tally,
        progress: Progress,
    ) -> None:
        definition = specification.definition
        guarantee = definition.processing_guarantee
        transaction_timeout_s = definition.transaction_timeout_ms / 1000
        consuming = consumer_config(specification)
        max_poll_ms = consuming.get("max.poll.interval.ms", _DEFAULT_MAX_POLL_INTERVAL_MS)
        commit_interval_s = definition.commit_interval_ms / 1000
        batch_size = BatchSize(target_s=commit_interval_s)
        ownership = Ownership()
        recorder = OffsetRecorder(ownership, is_on=guarantee is not ProcessingGuarantee.AT_LEAST_ONCE)
        if recorder.is_on:
            control.tell_offsets(recorder)
        suspicion = Suspicion(ownership)
        bad_records = BadRecords(definition.errors, announce=control.event)
        self.commits = OffsetCommits(consuming, trouble=lambda error: self.membership.keep_trouble(error))
        self.membership = Membership(
            self.commits.consumer,
            ownership=ownership,
            confirmed=None if guarantee is ProcessingGuarantee.AT_LEAST_ONCE else Confirmed(ownership),
            end_checkpoint=lambda: self.checkpoints.end_for_revoke(),
            announce=control.event,
            recorder=recorder,
        )
        self.checkpoints = Checkpoints(
            membership=self.membership,
            suspicion=suspicion,
            bad_records=bad_records,
            tally=tally,
            progress=progress,
            bounds=Bounds(transaction_timeout_s=transaction_timeout_s, max_poll_interval_s=int(max_poll_ms) / 1000),
        )
        topic_client = TopicClient(admin_config(specification))
        self.source_topics = SourceTopics(
            definition.source_topics,
            ask=topic_client.ask,
            let_go=topic_client.close,
            ownership=ownership,
            announce=control.event,
        )
        settling = Settling(
            self.membership,
            producer_maker(specification, self.commits),
            inquiry_of(specification, control),
            announce=control.event,
            learn=progress.learned,
        )
        self.loop = TaskLoop(
            membership=self.membership,
            checkpoints=self.checkpoints,
            suspicion=suspicion,
            starting=Starting(
                self.membership,
                start_position=definition.start_position,
                source_topics=definition.source_topics,
                commit_starts=self.checkpoints.commit_starts,
                announce=control.event,
            ),
            source_topics=self.source_topics,
            processing=Processing(
                transform,
                source_topics=definition.source_topics,
                sink_topic=definition.sink_topic,
                bad_records=bad_records,
            ),
            settling=settling,
            recovery=Recovery(
                checkpoints=self.checkpoints,
                settling=settling,
                suspicion=suspicion,
                batch_size=batch_size,
                announce=control.event,
                tally=tally,
                progress=progress,
            ),
            batch_size=batch_size,
            control=control,
            commit_interval_s=commit_interval_s,
            drain_bound_s=2 * transaction_timeout_s,
            tally=tally,
            progress=progress,
        )


def producer_maker(specification: TaskSpecification, commits: OffsetCommits) -> Callable[[int | None], TaskProducer]:
    """Makes the kind of producer that the guarantee asks for; `exactly_once` is refused."""
    match specification.definition.processing_guarantee:
        case ProcessingGuarantee.EXACTLY_ONCE_V2:
            return lambda batch_size: TransactionalProducer(
                transactional_producer_config(specification, batch_size=batch_size)
            )
        case ProcessingGuarantee.AT_LEAST_ONCE:
            return lambda batch_size: IdempotentProducer(
                idempotent_producer_config(specification, batch_size=batch_size), commits
            )
        case ProcessingGuarantee.EXACTLY_ONCE:
            raise TaskFailedError("exactly_once (a producer for each partition) is not there yet: use exactly_once_v2")


def inquiry_of(specification: TaskSpecification, control: Control) -> Inquiry | None:
    """How the attempt asks for its id; None where it has none."""
    transactional_id = specification.transactional_id
    if specification.definition.processing_guarantee is ProcessingGuarantee.AT_LEAST_ONCE or transactional_id is None:
        return None
    return Inquiry(
        ask_server=lambda timeout_s: control.ask_is_current(timeout_s=timeout_s),
        open_journal=lambda: IdJournal(transactional_id, reader_config(specification)),
    )
