"""The loop of one task: poll, process, commit; and what it does when one of these goes wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError, Message

from app.domain.offset_log.hearing import Init
from app.wire.heartbeat import DesiredTaskState, EventKind, TaskState
from workers.transactional.checkpoint import Checkpoint, CheckpointState
from workers.transactional.checkpoints import Checkpoints
from workers.transactional.control import Control
from workers.transactional.errors import FencedError, LoopError, TaskFailedError, error_of
from workers.transactional.garbage import Collector
from workers.transactional.group.membership import Hold, Membership
from workers.transactional.group.ownership import Partition
from workers.transactional.group.source_topics import SourceTopics
from workers.transactional.group.starting import Starting
from workers.transactional.records.batching import BatchSize
from workers.transactional.records.processing import Processing
from workers.transactional.records.suspicion import Suspicion
from workers.transactional.records.trials import MAX_CHECKPOINT_RECORDS
from workers.transactional.recovery import VISIBLE_WAIT_S, Recovery
from workers.transactional.settling import Settling
from workers.transactional.telling.idle_look import IdleLook
from workers.transactional.telling.progress import Progress
from workers.transactional.telling.tally import Tally

_IDLE_POLL_S = 0.1
_LONGEST_POLL_S = 0.2
_SETTLING_POLL_S = 0.02
_READ_COMMITTED_S = 5.0


class TaskLoop:
    """Runs until it is told to drain (`run` returns), or until it may not go on (`run` raises).

    One turn:
      1. hear what is wanted      pause or run; drain ends the turns
      2. poll                     rebalance callbacks run in here, and end the open checkpoint themselves
      3. settle or process        while something must be settled nothing is processed
      4. commit                   when the interval is over
    Consumer, checkpoint and producer are used from this thread only.
    """

    def __init__(
        self,
        *,
        membership: Membership,
        checkpoints: Checkpoints,
        suspicion: Suspicion,
        starting: Starting,
        source_topics: SourceTopics,
        processing: Processing,
        settling: Settling,
        recovery: Recovery,
        batch_size: BatchSize,
        control: Control,
        commit_interval_s: float,
        drain_bound_s: float,
        tally: Tally,
        progress: Progress,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._membership = membership
        self._checkpoints = checkpoints
        self._suspicion = suspicion
        self._starting = starting
        self._source_topics = source_topics
        self._processing = processing
        self._settling = settling
        self._recovery = recovery
        self._batch_size = batch_size
        self._control = control
        self._commit_interval_s = commit_interval_s
        self._drain_bound_s = drain_bound_s
        self._tally = tally
        self._progress = progress
        self._clock = clock
        self._sleep = sleep
        self._positions: dict[Partition, tuple[int, int]] = {}
        self._numbers: dict[Partition, int] = {}
        self._changes_seen = 0
        self._idle_look = IdleLook(membership, suspicion=suspicion, progress=progress, clock=clock)
        self._garbage = Collector(clock=clock)
        self._client_errors_told: set[tuple[int, str]] = set()
        self._may_have_left_open = False

    @property
    def may_have_left_open(self) -> bool:
        """Whether, after `run`, a transaction may be open that could be neither committed nor aborted."""
        return self._may_have_left_open

    def run(self, topics: Sequence[str]) -> None:
        """Init, subscribe, and turn until drained.

        The init comes before the subscription: it ends what a predecessor of this id left open, so that no partition
        is assigned whose offsets are still pending under our own id.

        Raises:
            SupersededError: another attempt owns the id.
            TaskFailedError, PipelineStopError: this attempt cannot go on.
        """
        error = error_of(lambda: self._turn_until_drained(topics), BaseException)
        # Before the consumer is closed: its last revoke callback would commit what is open, half a batch included.
        self._may_have_left_open = self._settling.is_undecided
        self._settling.give_up()
        self._end_what_is_open()
        if error is not None:
            raise error

    def _turn_until_drained(self, topics: Sequence[str]) -> None:
        self._settling.require_producer()
        while self._checkpoints.producer is None and not self._is_drain_wanted():
            self._recovery.guarded(self._settle)
            self._checkpoints.publish_if_due()
            # Nobody's member yet: there is nothing to poll for.
            self._sleep(min(self._settling.wait_s, _LONGEST_POLL_S))
        if not self._is_drain_wanted():
            self._subscribe(topics)
        while not self._is_drain_wanted():
            self._recovery.guarded(self._turn)
        self._progress.enter(TaskState.DRAINING, now=self._clock(), opened_at=self._checkpoints.opened_at)
        self._drain()

    def _subscribe(self, topics: Sequence[str]) -> None:
        try:
            self._membership.subscribe(topics)
        except LoopError as error:
            raise TaskFailedError(str(error)) from error

    def _is_drain_wanted(self) -> bool:
        return self._control.desired() is DesiredTaskState.DRAIN

    def _turn(self) -> None:
        self._heed_desired()
        messages, errors = self._poll()
        self._note_changes()
        trouble = self._membership.take_trouble()
        if trouble is not None:
            # Records that came with it follow on some that are not committed: they are all read again.
            self._settling.require_rewind()
            raise trouble
        self._source_topics.look()
        self._tell_obstacle()
        for error in errors:
            self._heed_client_error(error)
        if self._settling.is_needed:
            if messages:
                # Their partitions were to be held. They are not processed now, so they must be read again.
                self._settling.require_rewind()
            self._settle()
        elif messages:
            self._process(messages)
        elif self._idle_look.is_due():
            moved = self._idle_look.committable(self._moved())
            if moved:
                self._add(moved, records=0)
            self._idle_look.learn()
        if self._is_commit_due(self._checkpoints.current):
            self._commit()
        if self._starting.is_due and not self._settling.is_needed:
            self._start()
        if self._checkpoints.current is None:
            self._garbage.collect_if_due()
        if self._progress.is_due(self._clock()):
            self._progress.look(self._membership)
            producer = self._checkpoints.producer
            identity = None if producer is None else producer.identity(timeout_s=0)
            self._progress.identify(identity)
            if identity is not None:
                self._membership.recorder.initialised(Init(identity.producer_id, identity.epoch))
            self._checkpoints.publish_if_due()

    def _heed_desired(self) -> None:
        if self._settling.is_needed:
            return
        if self._control.desired() is DesiredTaskState.PAUSE:
            if self._progress.state is not TaskState.PAUSED:
                self._commit()
                self._membership.hold(Hold.PAUSED)
                self._progress.enter(TaskState.PAUSED, now=self._clock())
        else:
            self._membership.release(Hold.PAUSED)
            self._progress.enter(TaskState.RUNNING, now=self._clock())

    def _poll(self) -> tuple[list[Message], list[KafkaError]]:
        """While nothing is open, the first record is enough; then batches, until the commit is due."""
        checkpoint = self._checkpoints.current
        if self._settling.is_needed:
            wait_s = min(_LONGEST_POLL_S, max(_SETTLING_POLL_S, self._settling.wait_s))
            polled = self._membership.consume(1, wait_s)
        elif self._suspicion.is_active:
            wait_s = _IDLE_POLL_S if checkpoint is None else min(_IDLE_POLL_S, max(0.0, self._left_s(checkpoint)))
            polled = self._membership.consume(min(self._suspicion.limit, self._batch_size.count), wait_s)
        elif checkpoint is None:
            polled = self._membership.consume(1, _IDLE_POLL_S)
        else:
            left_s = self._left_s(checkpoint)
            polled = self._membership.consume(self._batch_size.count, min(_LONGEST_POLL_S, max(0.0, left_s)))
        self._checkpoints.polled()
        return polled

    def _left_s(self, checkpoint: Checkpoint) -> float:
        return checkpoint.opened_at + self._commit_interval_s - self._clock()

    def _is_commit_due(self, checkpoint: Checkpoint | None) -> bool:
        if checkpoint is None:
            return False
        is_full = self._suspicion.is_tried(checkpoint.positions) or checkpoint.records >= MAX_CHECKPOINT_RECORDS
        return is_full or self._left_s(checkpoint) <= 0

    def _commit(self) -> None:
        if self._checkpoints.current is None:
            return
        self._checkpoints.commit()
        self._settling.succeeded()
        if self._suspicion.take_verdict_on_batches():
            self._settling.shrink_batches()
            self._recovery.replace_producer()

    def _start(self) -> None:
        """Let partitions begin that have no position yet, or one that their log does not hold any more."""
        self._commit()
        if not self._settling.is_needed:
            self._starting.step()

    def _note_changes(self) -> None:
        """After callbacks: forget what was known of partitions that are gone, or were and are back."""
        ownership = self._membership.ownership
        if ownership.changes == self._changes_seen:
            return
        self._changes_seen = ownership.changes
        gone = ownership.changed_among(self._numbers)
        self._numbers = {partition: ownership.number(partition) for partition in ownership.owned}
        self._suspicion.forget(gone)
        self._progress.forget(gone)
        self._processing.look_up_again()

    def _process(self, messages: list[Message]) -> None:
        moved = self._moved()
        if not self._may_process(messages, moved):
            return
        condemned = self._suspicion.condemned(_partition_of(messages[0])) if len(messages) == 1 else None
        if condemned is not None:
            # Alone: if its dead letter is refused too, nothing else is to blame.
            self._commit()
        bytes_before = self._tally.open.bytes_in
        began_at = self._clock()
        self._add(moved, records=len(messages), span=(messages[0].offset() or 0, messages[-1].offset() or 0))
        self._processing.run(messages, self._checkpoints.live_producer, self._tally.open, condemned=condemned)
        self._batch_size.processed(
            records=len(messages),
            size_bytes=self._tally.open.bytes_in - bytes_before,
            seconds=self._clock() - began_at,
        )

    def _moved(self) -> dict[Partition, int]:
        """The positions that polling has changed since they were last made part of a checkpoint."""
        known, number = self._positions, self._membership.ownership.number
        found = self._membership.positions()
        return {name: offset for name, offset in found.items() if known.get(name) != (number(name), offset)}

    def _add(self, positions: Mapping[Partition, int], *, records: int, span: tuple[int, int] | None = None) -> None:
        self._checkpoints.add(positions, records=records, span=span)
        number = self._membership.ownership.number
        self._positions.update({name: (number(name), offset) for name, offset in positions.items()})

    def _may_process(self, messages: list[Message], moved: Mapping[Partition, int]) -> bool:
        """Commit the notes that must stand before this batch is processed (rule 7); False: poll it again, smaller."""
        is_first = bool(self._suspicion.unvetted(moved))
        if not is_first and not self._suspicion.is_active:
            return True
        starts = _first_offsets(messages)
        vetted: list[Partition] = []
        if is_first:
            unvetted = self._suspicion.unvetted(self._membership.ownership.owned)
            for partition, found in self._membership.committed(unvetted, timeout_s=_READ_COMMITTED_S).items():
                self._progress.learned(partition, found.offset)
                if found.offset is not None or partition in starts:
                    self._suspicion.vet(partition, found)
                    if found.offset is not None:
                        self._membership.recorder.begins(partition, found.offset)
                    vetted.append(partition)
                    starts.setdefault(partition, found.offset or 0)
        if self._suspicion.is_active and len(messages) > self._suspicion.limit:
            self._commit()
            self._settling.require_rewind()
            return False
        marks = self._suspicion.marks(moved)
        marked = {partition: starts[partition] for partition in marks if partition in starts}
        if marked:
            self._checkpoints.commit_marks(marked, marks)
        # Not before: where the marks could not be committed, they are still due.
        self._suspicion.vetted(vetted)
        return True

    def _settle(self) -> None:
        fresh = self._settling.step()
        if fresh is not None:
            self._checkpoints.producer = fresh
        self._tell_obstacle()
        if self._settling.lasts_s >= VISIBLE_WAIT_S and self._progress.state in (TaskState.RUNNING, TaskState.PAUSED):
            self._progress.enter(TaskState.BACKING_OFF, now=self._clock())
        if not self._settling.is_needed:
            self._positions.clear()

    def _tell_obstacle(self) -> None:
        self._progress.obstacle = self._settling.obstacle or self._source_topics.obstacle

    def _heed_client_error(self, error: KafkaError) -> None:
        self._progress.last_error = f"{error.name()}: {error.str()}"
        # Its words name the topic; what other errors say changes with every try (addresses, durations).
        told = error.code(), error.str() if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else ""
        # A topic that is missing is told by SourceTopics, whatever the group's protocol.
        if told not in self._client_errors_told and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            self._client_errors_told.add(told)
            self._control.event(EventKind.ERROR, self._progress.last_error)

    def _drain(self) -> None:
        """Commit what is open; what cannot be committed within the bound is aborted, and read again by the next one.

        What is undecided is decided by an init, if this attempt may still do that; a superseded one just leaves.
        """
        deadline = self._clock() + self._drain_bound_s
        while self._clock() < deadline:
            if self._settling.is_undecided:
                self._recovery.guarded(self._settling_turn)
            elif self._checkpoints.current is not None:
                self._recovery.guarded(self._checkpoints.commit)
            else:
                return

    def _settling_turn(self) -> None:
        """Polled, so that it does not spin and rebalances are served: it goes on being a member until it is closed."""
        self._poll()
        trouble = self._membership.take_trouble()
        if trouble is not None:
            raise trouble
        self._settle()
        self._checkpoints.publish_if_due()

    def _end_what_is_open(self) -> None:
        checkpoint = self._checkpoints.current
        is_unknown = checkpoint is not None and checkpoint.state is CheckpointState.UNKNOWN
        if not is_unknown:
            try:
                self._checkpoints.abort()
            except LoopError as error:
                self._progress.last_error = str(error)
                # Whoever is fenced has nothing open any more.
                self._may_have_left_open |= not isinstance(error, FencedError)
        self._may_have_left_open |= is_unknown
        self._checkpoints.abandon(outcome_unknown=is_unknown)


def _first_offsets(messages: Sequence[Message]) -> dict[Partition, int]:
    starts: dict[Partition, int] = {}
    for message in messages:
        starts.setdefault(_partition_of(message), message.offset() or 0)
    return starts


def _partition_of(message: Message) -> Partition:
    return message.topic() or "", message.partition() or 0
