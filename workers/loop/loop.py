"""The loop of one task: poll, process, commit, and recover from their errors."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaError

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import DesiredTaskState, EventKind, TaskState
from workers.loop.control import Control
from workers.loop.errors import LoopError, TaskFailedError, error_of
from workers.loop.garbage import GarbageCollector
from workers.loop.group.membership import Hold, Membership
from workers.loop.group.source_topics import SourceTopics
from workers.loop.group.starting import Starting
from workers.loop.lane import Lane
from workers.loop.lanes import Batch, Lanes
from workers.loop.pace import Pace
from workers.loop.partitions import partition_of
from workers.loop.producing.output_topics import OutputTopics
from workers.loop.records.batching import BatchSize
from workers.loop.records.polled import Records
from workers.loop.records.processing import Processing
from workers.loop.records.trials import UNLIMITED
from workers.loop.recovery import VISIBLE_WAIT_S
from workers.loop.telling.idle_look import IdleLook
from workers.loop.telling.progress import ProgressReporter
from workers.loop.vetting import Vetting

_LONGEST_POLL_S = 0.2
_SETTLING_POLL_S = 0.02
_REJOINS_WITHIN_S = 5.0


class TaskLoop:
    """Runs until a drain is wanted (`run` returns), or until the attempt may not continue (`run` raises).

    One turn:
      1. read the desired state   pause or run; drain ends the turns
      2. poll                     rebalance callbacks run in here, and end open checkpoints themselves
      3. recover and process      no records are processed in a lane that must recover
      4. commit                   when the interval is over; what was polled ahead of the commit is processed after it

    Consumer, checkpoints and producers are used from this thread only, or while it waits for those that use them.
    """

    def __init__(
        self,
        *,
        membership: Membership,
        lanes: Lanes,
        starting: Starting,
        source_topics: SourceTopics,
        output_topics: OutputTopics,
        processing: Processing,
        batch_size: BatchSize,
        control: Control,
        commit_interval_s: float,
        drain_bound_s: float,
        progress: ProgressReporter,
        after_commits: Callable[[Callable[[], None], bool], None] | None = None,
        most_polled: Callable[[], int] = lambda: sys.maxsize,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        Args:
            after_commits: called outside of callbacks when a commit is possible since the last call. Its arguments are
                a function that it calls while it takes long, and True for the last call.
            most_polled: how many records one poll may return, independent of the size of the batches.
        """
        self._after_commits = after_commits
        self._most_polled = most_polled
        self._membership = membership
        self._lanes = lanes
        self._starting = starting
        self._source_topics = source_topics
        self._output_topics = output_topics
        self._processing = processing
        self._batch_size = batch_size
        self._control = control
        self._drain_bound_s = drain_bound_s
        self._progress = progress
        self._clock = clock
        self._sleep = sleep
        self._positions: dict[Partition, tuple[int, int]] = {}
        self._numbers: dict[Partition, int] = {}
        self._changes_seen = 0
        self._idle_look = IdleLook(membership, lanes=lanes, progress=progress, clock=clock)
        self._vetting = Vetting(
            membership,
            lanes=lanes,
            progress=progress,
            try_out=processing.try_out,
            tell=partial(control.event, EventKind.ERROR),
            sleep=sleep,
        )
        self._garbage = GarbageCollector(clock=clock)
        self._pace = Pace(interval_s=commit_interval_s, batch_size=batch_size, clock=clock)
        self._client_errors_told: set[tuple[int, str]] = set()
        self._may_have_left_open = False
        self._member_at = float("-inf")

    @property
    def may_have_left_open(self) -> bool:
        """True if, after `run`, a transaction may be open that could be neither committed nor aborted."""
        return self._may_have_left_open

    def run(self, topics: Sequence[str]) -> None:
        """Init, subscribe, and turn until drained.

        The init of a task's own id comes before the subscription and ends what a predecessor of this id left open. So
        no partition is assigned whose offsets are still pending under our own id.

        Raises:
            SupersededError: another attempt owns the id.
            TaskFailedError, PipelineStopError: this attempt cannot go on.
        """
        error = error_of(lambda: self._turn_until_drained(topics), BaseException)
        # Before the consumer is closed: its last revoke callback would commit what is open, half a batch included.
        self._may_have_left_open = self._lanes.close()
        if error is not None:
            raise error

    def _turn_until_drained(self, topics: Sequence[str]) -> None:
        self._lanes.prepare()
        while not self._lanes.is_ready and not self._is_drain_wanted():
            self._settle()
            self._publish_if_due()
            # Not a member yet: there is nothing to poll for.
            self._sleep(min(self._settling_wait_s(), _LONGEST_POLL_S))
        if not self._is_drain_wanted():
            self._subscribe(topics)
        while not self._is_drain_wanted():
            self._lanes.guarded(self._turn)
        self._progress.enter(TaskState.DRAINING, now=self._clock(), opened_at=self._transaction_opened_at())
        self._drain()
        self._look_after_commits(is_last=True)

    def _look_after_commits(self, *, is_last: bool = False) -> None:
        if self._after_commits is not None:
            self._after_commits(self._publish_if_due, is_last)

    def _subscribe(self, topics: Sequence[str]) -> None:
        try:
            self._membership.subscribe(topics)
        except LoopError as error:
            raise TaskFailedError(str(error)) from error

    def _is_drain_wanted(self) -> bool:
        return self._control.desired() is DesiredTaskState.DRAIN

    def _turn(self) -> None:
        self._heed_desired()
        records, errors = self._poll()
        self._note_changes()
        trouble = self._membership.take_trouble()
        if trouble is not None:
            # Records that came with it follow some that are not committed: they are all read again.
            for lane in self._lanes.each:
                lane.settling.require_rewind()
            raise trouble
        self._source_topics.look()
        self._output_topics.look()
        self._tell_obstacle()
        for error in errors:
            self._heed_client_error(error)
        if self._pace.is_ahead:
            self._commit_due()
        was_blocked = self._lanes.is_blocked
        if self._is_settling():
            records = self._lanes.leave_out(records)
            self._settle()
        if records:
            self._process(records)
        if not was_blocked and (self._lanes.are_many or not records) and self._idle_look.is_due():
            self._look_idly()
        self._commit_due()
        self._look_after_commits()
        self._lanes.begin_again()
        if self._starting.is_due and self._startable():
            self._start()
        if self._progress.is_due(self._clock()):
            self._lanes.identify()
            self._progress.look(self._membership)
            self._progress.publish(now=self._clock(), opened_at=self._transaction_opened_at())

    def _heed_desired(self) -> None:
        if self._lanes.is_blocked:
            return
        if self._control.desired() is DesiredTaskState.PAUSE:
            if self._progress.state is not TaskState.PAUSED:
                self._lanes.commit(self._lanes.each)
                if self._lanes.is_blocked:
                    return
                for lane in self._lanes.each:
                    lane.size.retain(())
                self._membership.hold(Hold.PAUSED)
                self._progress.enter(TaskState.PAUSED, now=self._clock())
        else:
            self._membership.release(Hold.PAUSED)
            self._progress.enter(TaskState.RUNNING if self._is_member() else TaskState.STARTING, now=self._clock())

    def _is_member(self) -> bool:
        """True if the group has given it a generation, now or a moment ago: a rebalance is no absence."""
        now = self._clock()
        if (self._membership.generation() or 0) > 0:
            self._member_at = now
        return now - self._member_at < _REJOINS_WITHIN_S

    def _poll(self) -> tuple[Records, list[KafkaError]]:
        if self._lanes.is_blocked:
            wait_s = min(_LONGEST_POLL_S, max(_SETTLING_POLL_S, self._settling_wait_s()))
            polled = self._membership.consume(1, wait_s)
        else:
            poll = self._pace.next_poll(self._opened_at(), limit=self._limit(), most=self._most_polled())
            polled = self._membership.consume(poll.records, poll.wait_s)
            self._pace.polled(len(polled[0]))
        self._lanes.polled()
        return polled

    def _limit(self) -> int:
        """The most records that a checkpoint may hold now, in the lane with the lowest limit."""
        return min((lane.limit for lane in self._lanes.each if lane.limit != UNLIMITED), default=UNLIMITED)

    def _opened_at(self) -> float | None:
        """The opening time of the oldest open checkpoint; None: none is open."""
        opened = [lane.current.opened_at for lane in self._lanes.each if lane.current]
        return min(opened, default=None)

    def _transaction_opened_at(self) -> float | None:
        """The time since which the brokers have the oldest transaction open; None: none is open."""
        opened = (lane.transaction_opened_at for lane in self._lanes.each)
        return min((at for at in opened if at is not None), default=None)

    def _commit_due(self) -> None:
        """Commit all open checkpoints together when the oldest is due, and a full one by itself."""
        opened_at = self._opened_at()
        if opened_at is not None:
            is_over = self._pace.is_due(opened_at)
            due = [lane for lane in self._lanes.each if lane.current is not None and (is_over or lane.is_full)]
            if due:
                self._lanes.commit(due)
                self._pace.committed()
        if self._opened_at() is None:
            self._garbage.collect_if_due()

    def _startable(self) -> frozenset[Partition]:
        """Stopped partitions that may start: their lanes need no recovery."""
        lanes = ((name, self._lanes.lane_of(name)) for name in self._membership.stopped)
        return frozenset(name for name, lane in lanes if lane is not None and not lane.settling.is_needed)

    def _start(self) -> None:
        """Start partitions that have no position yet, or one that their log does not hold any more."""
        self._lanes.commit(self._lanes.each)
        ready = self._startable()
        if ready:
            self._starting.step(ready)

    def _note_changes(self) -> None:
        """After callbacks: forget the state of partitions that are gone, or were gone and are back."""
        ownership = self._membership.ownership
        if ownership.changes == self._changes_seen:
            return
        self._changes_seen = ownership.changes
        gone = ownership.changed_among(self._numbers)
        self._numbers = {partition: ownership.number(partition) for partition in ownership.owned}
        for lane in self._lanes.each:
            lane.suspicion.forget(gone)
            checkpoint = lane.current
            if checkpoint is not None:
                # It must end with the loss of one of its partitions, however long it would stay open.
                lane.recovery.guarded(checkpoint.require_ownership)
            lane.size.retain(ownership.owned)
        self._progress.forget(gone)
        self._processing.look_up_again()

    def _process(self, records: Records) -> None:
        batches = self._vetting.vetted(self._lanes.divide(records, self._moved()))
        bytes_before = sum(batch.lane.tally.open.bytes_in for batch in batches)
        began_at = self._clock()
        for batch in batches:
            batch.lane.recovery.guarded(partial(self._run, batch))
        if not any(batch.lane.settling.is_needed for batch in batches):
            self._batch_size.processed(
                records=sum(len(batch.records) for batch in batches),
                size_bytes=sum(batch.lane.tally.open.bytes_in for batch in batches) - bytes_before,
                seconds=self._clock() - began_at,
            )

    def _run(self, batch: Batch) -> None:
        lane, records, moved = batch
        condemned = lane.suspicion.condemned(partition_of(records[0])) if len(records) == 1 else None
        if condemned is not None:
            # Alone: if its dead letter is refused too, no other record can be the cause.
            self._lanes.commit([lane])
            if lane.settling.is_needed:
                lane.settling.require_rewind()
                return
        self._add(lane, moved, records=len(records), span=records.span)
        self._processing.run(records, lane.live_producer, lane.tally.open, lane.bad_records, condemned=condemned)
        self._progress.has_survived |= condemned is None

    def _look_idly(self) -> None:
        """Commit also offsets that moved without a record, past transaction markers and aborted records."""
        for lane, moved in self._lanes.divide_positions(self._moved()):
            committable = self._idle_look.committable(lane, moved)
            if committable:
                lane.recovery.guarded(partial(self._add, lane, committable, records=0))
        self._idle_look.learn()

    def _moved(self) -> dict[Partition, int]:
        """The positions that polling has changed since they were last added to a checkpoint."""
        known, number = self._positions, self._membership.ownership.number
        found = self._membership.positions()
        return {name: offset for name, offset in found.items() if known.get(name) != (number(name), offset)}

    def _add(
        self, lane: Lane, positions: Mapping[Partition, int], *, records: int, span: tuple[int, int] | None = None
    ) -> None:
        lane.add(positions, records=records, span=span)
        number = self._membership.ownership.number
        self._positions.update({name: (number(name), offset) for name, offset in positions.items()})

    def _is_settling(self) -> bool:
        return any(lane.settling.is_needed for lane in self._lanes.each)

    def _settling_wait_s(self) -> float:
        return min((lane.settling.wait_s for lane in self._lanes.each if lane.settling.is_needed), default=0.0)

    def _settle(self) -> None:
        before = [lane for lane in self._lanes.each if lane.settling.is_needed]
        self._lanes.settle()
        self._tell_obstacle()
        lasts_s = max((lane.settling.lasts_s for lane in self._lanes.each), default=0.0)
        is_working = self._progress.state in (TaskState.RUNNING, TaskState.PAUSED)
        if self._lanes.is_blocked and lasts_s >= VISIBLE_WAIT_S and is_working:
            self._progress.enter(TaskState.BACKING_OFF, now=self._clock())
        for lane in before:
            if not lane.settling.is_needed:
                self._processing.look_up_again()
                for partition in [lane.partition] if lane.partition else list(self._positions):
                    self._positions.pop(partition, None)

    def _tell_obstacle(self) -> None:
        obstacles = (obstacle for lane in self._lanes.each if (obstacle := lane.obstacle) is not None)
        self._progress.obstacle = next(obstacles, self._source_topics.obstacle)

    def _heed_client_error(self, error: KafkaError) -> None:
        self._progress.last_error = f"{error.name()}: {error.str()}"
        # Its text names the topic; the text of other errors changes with every attempt (addresses, durations).
        told = error.code(), error.str() if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED else ""
        # A topic that is missing is reported by SourceTopics, in both group protocols.
        if told not in self._client_errors_told and error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            self._client_errors_told.add(told)
            self._control.event(EventKind.ERROR, self._progress.last_error)

    def _publish_if_due(self) -> None:
        now = self._clock()
        if self._progress.is_due(now):
            self._progress.publish(now=now, opened_at=self._transaction_opened_at())

    def _drain(self) -> None:
        """Commit open checkpoints; those that cannot be committed within the bound are aborted, for the next attempt.

        An unknown outcome is decided by an init, if this attempt may still do that; a superseded attempt just leaves.
        """
        deadline = self._clock() + self._drain_bound_s
        while self._clock() < deadline:
            # First: a lane with an unknown outcome for long does not delay the commits of the others.
            if self._opened_at() is not None:
                self._lanes.commit(self._lanes.each)
            elif any(lane.settling.is_undecided for lane in self._lanes.each):
                self._lanes.guarded(self._settling_turn)
            else:
                return

    def _settling_turn(self) -> None:
        """Recover, with polls to serve rebalances and not to spin: membership lasts until the loop is closed."""
        self._poll()
        trouble = self._membership.take_trouble()
        if trouble is not None:
            raise trouble
        self._settle()
        self._publish_if_due()
