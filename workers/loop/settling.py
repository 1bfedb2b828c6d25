"""Getting whole again after a checkpoint that was not committed: nothing is read, and the member stays one."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from confluent_kafka import OFFSET_INVALID

from app.core.wire.heartbeat import EventKind
from app.kit.back_off import BackOff
from workers.loop.claim.inquiry import Inquiry, Standing
from workers.loop.client_config import Batches
from workers.loop.control import ProducerIdentity
from workers.loop.errors import AbortableError, FatalError, RetriableError, SupersededError
from workers.loop.group.membership import Announce, Hold, Membership
from workers.loop.group.ownership import Partition
from workers.loop.lane_state import LaneEvent, LaneState, LaneStep
from workers.loop.producing.producers import TaskProducer
from workers.loop.slices import SLICE_S

BACK_OFF = BackOff(0.05, 5.0)
_TRY_AGAIN_S = 0.2
BETWEEN_LOOKS = BackOff(0.05, 2.0)
_BATCH_SIZE = 1_000_000
_SHRINK = 8
_SMALLEST_BATCH_SIZE = 1_000
_COMPRESSION = "zstd"
"""Of those that all brokers know, the one that makes records smallest."""

MakeProducer = Callable[[Batches], TaskProducer]
"""Makes a producer whose records are put together so."""
Learn = Callable[[Partition, int | None], None]
"""Told what the group has committed for a partition, as the broker says."""


class Settling:
    """Does what the lane's state asks for (lane_state.py), in steps of about a second, until records may be read again.

    Between steps the loop polls for `wait_s`, so that rebalances are served; held partitions deliver nothing.

    Args:
        inquiry: None where producers share no id, and nobody can be fenced.
        only: the one partition that the producer is for, and that is held and read again; None: all that is owned.
        batches: of its producers, until `shrink_batches` or `compress`.
        may_compress: whether nobody has chosen otherwise.
    """

    def __init__(
        self,
        membership: Membership,
        make_producer: MakeProducer,
        inquiry: Inquiry | None,
        *,
        announce: Announce,
        learn: Learn,
        batches: Batches | None = None,
        may_compress: bool = False,
        only: Partition | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.obstacle: str | None = None
        self._learn = learn
        self._membership = membership
        self._make_producer = make_producer
        self._inquiry = inquiry
        self._announce = announce
        self._only = only
        self._batches = batches or Batches()
        self._may_compress = may_compress
        self._clock = clock
        self._state = LaneState()
        self._last_identity: ProducerIdentity | None = None
        self._may_have_bumped = False
        self._looks = 0
        self._failures_in_a_row = 0
        self._not_before = 0.0
        self._since: float | None = None
        self._fresh: TaskProducer | None = None

    @property
    def is_needed(self) -> bool:
        """Whether nothing may be read or processed in this lane."""
        return self._state.step is not LaneStep.READING

    @property
    def needs_producer(self) -> bool:
        return self._state.needs_producer

    @property
    def lasts_s(self) -> float:
        """For how long something has been needed; 0 when nothing is."""
        return 0.0 if self._since is None else self._clock() - self._since

    @property
    def is_undecided(self) -> bool:
        """True while a transaction of ours may be open that only an init would end."""
        state = self._state
        # A partition's id that was fenced is somebody else's now, and with it what was open.
        is_ended = state.is_fenced and self._only is not None
        return state.needs_producer and state.has_held_id and self._inquiry is not None and not is_ended

    @property
    def wait_s(self) -> float:
        """How long `step` will do nothing."""
        return max(0.0, self._not_before - self._clock())

    def require_producer(self, *, is_fenced: bool = False) -> None:
        """Ask for a new one; from here on nothing is read until `step` has brought it."""
        self._require(LaneEvent.FENCED if is_fenced else LaneEvent.PRODUCER_LOST)

    def require_leave(self) -> None:
        """Ask also before the first init: this attempt may have been replaced while it was away."""
        self._state = msgspec.structs.replace(self._state, was_away=True)

    def require_rewind(self) -> None:
        """Ask to go back to the committed offsets; from here on nothing is read until `step` has done it."""
        self._require(LaneEvent.REWIND)

    def require_restart(self) -> None:
        """Ask to begin again as if it had just been assigned: the client has looked for its committed offset too early.

        Only where the producer is for one partition. `step` does it once there is a producer; see `is_to_restart`.
        """
        self._require(LaneEvent.RESTART)

    @property
    def is_to_restart(self) -> bool:
        """True while the next step begins the partition again, for which nothing may be open in any lane.

        Outside of a rebalance callback the client takes that for the answer to one that is still queued (librdkafka's
        rdkafka_cgrp.c, incremental unassign and assign): the group may go on before the callback has run.
        """
        return self._state.step is LaneStep.RESTARTING

    def remember(self, identity: ProducerIdentity | None, *, may_have_bumped: bool) -> None:
        """Who the producer was that is let go of: the journal is judged by it."""
        self._last_identity, self._may_have_bumped = identity, may_have_bumped

    def back_off(self) -> float:
        """Wait before the next try, longer each time until `succeeded`; returns for how long."""
        self._failures_in_a_row += 1
        wait_s = BACK_OFF.wait_s(self._failures_in_a_row)
        self._not_before = self._clock() + wait_s
        return wait_s

    def succeeded(self) -> None:
        """A checkpoint was committed."""
        self._failures_in_a_row = 0

    def shrink_batches(self) -> None:
        """The broker refuses the batches of this producer though it takes each record: make the next ones smaller."""
        smaller = max(_SMALLEST_BATCH_SIZE, (self._batches.size_bytes or _BATCH_SIZE) // _SHRINK)
        self._batches = self._batches._replace(size_bytes=smaller)

    def compress(self) -> bool:
        """From the next producer on; False: that is so already, or somebody has chosen otherwise."""
        if not self._may_compress or self._batches.compression is not None:
            return False
        self._batches = self._batches._replace(compression=_COMPRESSION)
        return True

    def step(self) -> TaskProducer | None:
        """Do the next step; returns the new producer when there is one. Call it until `is_needed` is False.

        Raises:
            SupersededError: this attempt may not have its id again.
            FencedError, FatalError: as the init says.
        """
        if self.needs_producer:
            fresh = self.next_init()
            return None if fresh is None else self.after_init(init_error(fresh, SLICE_S))
        if self.wait_s > 0:
            return None
        try:
            self._take(self._rewind())
        except (RetriableError, AbortableError) as error:
            self._try_again(str(error), _TRY_AGAIN_S)
        return None

    def next_init(self) -> TaskProducer | None:
        """The producer that is to be initialised now; None if none is, or it may not be yet.

        Its `init` may be called on any thread; what became of it is for `after_init`.

        Raises:
            SupersededError: this attempt may not have its id again.
        """
        if not self.needs_producer or self.wait_s > 0 or not self._is_allowed():
            return None
        if self._fresh is None:
            self._fresh = self._make_producer(self._batches)
        return self._fresh

    def after_init(self, error: BaseException | None) -> TaskProducer | None:
        """What the init of `next_init` answered; the producer if it is ready. Raises what is not to be repeated."""
        if isinstance(error, RetriableError):
            self._try_again(str(error), _TRY_AGAIN_S)
            return None
        if error is not None:
            self.give_up()
            raise error
        fresh, self._fresh = self._fresh, None
        self._take(LaneEvent.INITIALISED)
        return fresh

    def give_up(self) -> None:
        """Let go of a producer whose init has not been answered, and of a question that has not."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.discard()
        if self._inquiry is not None:
            self._inquiry.give_up()

    def _is_allowed(self) -> bool:
        """Ask, where an answer is needed. An answer holds until an init is answered, or this lane is fenced."""
        state = self._state
        if state.step is LaneStep.INITIALISING:
            return True
        if self._inquiry is None or not state.must_ask:
            self._take(LaneEvent.ALLOWED)
            return True
        answer = self._inquiry.ask(
            Standing(
                has_held=state.has_held_id,
                identity=self._last_identity,
                may_have_bumped=self._may_have_bumped,
                is_fenced=state.is_fenced,
            )
        )
        if answer.may is None:
            self._try_again(answer.reason, BETWEEN_LOOKS.wait_s(self._looks + 1))
            self._looks += 1
            return False
        if not answer.may:
            raise SupersededError(answer.reason)
        self._looks = 0
        self._take(LaneEvent.ALLOWED)
        if state.is_fenced:
            self._announce(EventKind.REBUILT, answer.reason)
        return True

    def _require(self, event: LaneEvent) -> None:
        """Something is to be done: nothing is read until then."""
        self._state = self._state.after(event)
        self._since = self._clock() if self._since is None else self._since
        if self._only is None:
            self._membership.hold(Hold.SETTLING)
        else:
            self._membership.hold_back(self._only)

    def _take(self, event: LaneEvent) -> None:
        """Something is done: go on where that leads."""
        self._state = self._state.after(event)
        if self.is_needed:
            return
        self.obstacle = self._since = None
        if self._only is None:
            self._membership.release(Hold.SETTLING)
        else:
            self._membership.let_go(self._only)

    def _try_again(self, obstacle: str, wait_s: float) -> None:
        """Later: an error that comes at once must not come as fast as it can."""
        self.obstacle = obstacle
        self._not_before = self._clock() + wait_s

    def _rewind(self) -> LaneEvent:
        """Seek what has been read from to what is committed, or assign the partition anew; what came of it.

        Where all share the producer, a partition not read from yet starts there by itself. Where it is for one, what
        the client has found may be of before the init; the answer here is of after it, and is compared with what was
        confirmed. Only where there is none, or the client does not seek yet, it is begun again.
        """
        if self._only is not None and self._state.step is LaneStep.RESTARTING:
            self._membership.restart([self._only])
            return LaneEvent.RESTARTED
        event = LaneEvent.REWOUND
        read_from = self._membership.positions()
        wanted = read_from if self._only is None else [self._only]
        if not wanted:
            return event
        committed = self._membership.committed(wanted, timeout_s=SLICE_S)
        for partition, found in committed.items():
            if found.offset is None and partition not in read_from:
                event = LaneEvent.UNCOMMITTED
                continue
            # Nothing committed for what has been read: the topic was made anew. The client stops there and says so.
            offset = OFFSET_INVALID if found.offset is None else found.offset
            if partition in read_from:
                self._membership.seek(partition, offset)
            elif not self._is_sought(partition, offset):
                event = LaneEvent.UNCOMMITTED
                continue
            self._learn(partition, found.offset)
            if found.offset is not None:
                self._membership.recorder.positioned(partition, found.offset)
        return event

    def _is_sought(self, partition: Partition, offset: int) -> bool:
        """Whether the client seeks where nothing has been delivered; where it has just been assigned, it may refuse."""
        try:
            return self._membership.seek(partition, offset)
        except FatalError:
            return False


def init_error(producer: TaskProducer, timeout_s: float) -> BaseException | None:
    """Initialise it; what went wrong, for `after_init`."""
    try:
        producer.init(timeout_s)
    except BaseException as error:  # noqa: BLE001 - raised again where it is heard
        return error
    return None
