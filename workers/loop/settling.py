"""Recovery after a checkpoint that was not committed: nothing is read, and the task stays a member."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from confluent_kafka import OFFSET_INVALID

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import EventKind
from app.kit.back_off import BackOff
from workers.loop.claim.inquiry import ClaimStanding, Inquiry
from workers.loop.client_config import Batches
from workers.loop.control import ProducerIdentity
from workers.loop.errors import AbortableError, FatalError, RetriableError, SupersededError
from workers.loop.group.membership import Announce, Hold, Membership
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
"""The compression that all brokers know and that makes records smallest."""

MakeProducer = Callable[[Batches], TaskProducer]
"""Makes a producer with this batching."""
Learn = Callable[[Partition, int | None], None]
"""Called with the group's committed offset of a partition, as the broker reported it."""


class Settling:
    """Does the work of the lane's state (lane_state.py), in steps of about a second, until records may be read again.

    Between steps the loop polls for `wait_s`, so that rebalances are served; paused partitions deliver nothing.

    Args:
        inquiry: None for producers without an id, which cannot be fenced.
        only: the one partition of the producer, which is paused and read again; None: all that are owned.
        batches: of its producers, until `shrink_batches` or `compress`.
        may_compress: True if no compression is configured.
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
        """True if nothing may be read or processed in this lane."""
        return self._state.step is not LaneStep.READING

    @property
    def needs_producer(self) -> bool:
        return self._state.needs_producer

    @property
    def lasts_s(self) -> float:
        """The time for which a recovery has been needed; 0 without one."""
        return 0.0 if self._since is None else self._clock() - self._since

    @property
    def is_undecided(self) -> bool:
        """True while a transaction of this attempt may be open that only an init would end."""
        state = self._state
        # The id of a partition that was fenced belongs to another client now, and with it the open transaction.
        is_ended = state.is_fenced and self._only is not None
        return state.needs_producer and state.has_held_id and self._inquiry is not None and not is_ended

    @property
    def wait_s(self) -> float:
        """The time until `step` does anything."""
        return max(0.0, self._not_before - self._clock())

    def require_producer(self, *, is_fenced: bool = False) -> None:
        """Request a new producer; from here on nothing is read until `step` has made it."""
        self._require(LaneEvent.FENCED if is_fenced else LaneEvent.PRODUCER_LOST)

    def require_ownership_check(self) -> None:
        """Require the ownership check before the first init too: this attempt may have been replaced while away."""
        self._state = msgspec.structs.replace(self._state, was_away=True)

    def require_rewind(self) -> None:
        """Request a rewind to the committed offsets; from here on nothing is read until `step` has done it."""
        self._require(LaneEvent.REWIND)

    def require_restart(self) -> None:
        """Request a restart of the partition: the client has requested its committed offset too early.

        Only where the producer is for one partition. `step` does it once there is a producer; see `is_to_restart`.
        """
        self._require(LaneEvent.RESTART)

    @property
    def is_to_restart(self) -> bool:
        """True while the next step restarts the partition, for which nothing may be open in any lane.

        Outside of a rebalance callback the client takes that for the answer to one that is still queued (librdkafka's
        rdkafka_cgrp.c, incremental unassign and assign). The group may then continue before the callback has run.
        """
        return self._state.step is LaneStep.RESTARTING

    def remember(self, identity: ProducerIdentity | None, *, may_have_bumped: bool) -> None:
        """Record the identity of the discarded producer: the journal is judged by it."""
        self._last_identity, self._may_have_bumped = identity, may_have_bumped

    def back_off(self) -> float:
        """Wait before the next attempt, longer each time until `succeeded`; returns the time."""
        self._failures_in_a_row += 1
        wait_s = BACK_OFF.wait_s(self._failures_in_a_row)
        self._not_before = self._clock() + wait_s
        return wait_s

    def succeeded(self) -> None:
        """Record that a checkpoint was committed."""
        self._failures_in_a_row = 0

    def shrink_batches(self) -> None:
        """The broker refuses the batches of this producer though it takes each record: make the next ones smaller."""
        smaller = max(_SMALLEST_BATCH_SIZE, (self._batches.size_bytes or _BATCH_SIZE) // _SHRINK)
        self._batches = self._batches._replace(size_bytes=smaller)

    def compress(self) -> bool:
        """Compress from the next producer on; False: it does so already, or a compression is configured."""
        if not self._may_compress or self._batches.compression is not None:
            return False
        self._batches = self._batches._replace(compression=_COMPRESSION)
        return True

    def step(self) -> TaskProducer | None:
        """Do the next step; returns the new producer when there is one. Call it until `is_needed` is False.

        Raises:
            SupersededError: this attempt may not have its id again.
            FencedError, FatalError: from the init.
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
        """The producer to initialise now; None if there is none, or it may not be initialised yet.

        Its `init` may be called on any thread; pass its result to `after_init`.

        Raises:
            SupersededError: this attempt may not have its id again.
        """
        if not self.needs_producer or self.wait_s > 0 or not self._is_allowed():
            return None
        if self._fresh is None:
            self._fresh = self._make_producer(self._batches)
        return self._fresh

    def after_init(self, error: BaseException | None) -> TaskProducer | None:
        """Take the result of the init of `next_init`; return the producer if it is ready. Raises permanent errors."""
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
        """Discard a producer whose init was not answered, and an ownership check without an answer."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.discard()
        if self._inquiry is not None:
            self._inquiry.give_up()

    def _is_allowed(self) -> bool:
        """Check the ownership, if required. An answer holds until an init is answered, or this lane is fenced."""
        state = self._state
        if state.step is LaneStep.INITIALISING:
            return True
        if self._inquiry is None or not state.must_ask:
            self._take(LaneEvent.ALLOWED)
            return True
        answer = self._inquiry.ask(
            ClaimStanding(
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
        """Start or extend a recovery: nothing is read until it is done."""
        self._state = self._state.after(event)
        self._since = self._clock() if self._since is None else self._since
        if self._only is None:
            self._membership.hold(Hold.SETTLING)
        else:
            self._membership.hold_back(self._only)

    def _take(self, event: LaneEvent) -> None:
        """Record that a step is done, and go to the next state."""
        self._state = self._state.after(event)
        if self.is_needed:
            return
        self.obstacle = self._since = None
        if self._only is None:
            self._membership.release(Hold.SETTLING)
        else:
            self._membership.unhold(self._only)

    def _try_again(self, obstacle: str, wait_s: float) -> None:
        """Repeat it later: an error that is returned at once must not be repeated without a pause."""
        self.obstacle = obstacle
        self._not_before = self._clock() + wait_s

    def _rewind(self) -> LaneEvent:
        """Seek the committed offsets where records were read, or restart the partition; return the event.

        Where all partitions share the producer, a partition not read from yet starts at its committed offset by itself.
        Where it is for one, the client may have found an offset from before the init. The answer here is from after it,
        and is compared with the confirmed commits. Only without an offset, or if the client does not seek yet, the
        partition is restarted.
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
            # Nothing committed for records that were read: the topic was recreated. The client stops and reports it.
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
        """True if the client seeks where nothing was delivered; just after an assignment it may refuse."""
        try:
            return self._membership.seek(partition, offset)
        except FatalError:
            return False


def init_error(producer: TaskProducer, timeout_s: float) -> BaseException | None:
    """Initialise the producer; return the error, for `after_init`."""
    try:
        producer.init(timeout_s)
    except BaseException as error:  # noqa: BLE001 - raised again by `after_init`
        return error
    return None
