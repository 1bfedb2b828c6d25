"""Heartbeats and events of one task: sent once a second from a thread of their own, never in the way of the data."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from app.core.runs.recorded_offset import RecordedOffset
from app.core.wire import protocol
from app.core.wire.drill import DrillOrder
from app.core.wire.heartbeat import DesiredTaskState, EventKind, HeartbeatAnswer, TaskEvent, TaskHeartbeat, TaskState
from app.kit.storable import storable_text
from workers.loop.control import ProducerIdentity, TaskSnapshot
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.offset_teller import OffsetTeller
from workers.server_client import ServerAwayError, ServerClient, ServerRefusedError

log = logging.getLogger(__name__)

HEARTBEAT_PATH = "/workers/v1/heartbeat"
SOONEST_AGAIN_S = 0.1
"""A state change is reported at once, but two of them no closer than this."""
SILENT_AFTER_S = 10.0
"""The loop publishes twice a second and between the slices of every Kafka call. After so long without it is stuck."""
ATTEMPT_OVER = frozenset({TaskState.DRAINED, TaskState.SUPERSEDED, TaskState.FAILED})
_TURNING = frozenset({TaskState.RUNNING, TaskState.PAUSED, TaskState.DRAINING})


class TaskPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one attempt, which every heartbeat repeats."""

    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    host: str
    pid: int
    transactional_id: str | None
    database_epoch: str
    commits_every_ms: int | None = None
    uploads_within_ms: int | None = None

    def of_each_heartbeat(self) -> dict[str, Any]:
        fields = msgspec.structs.asdict(self)
        del fields["database_epoch"]
        return fields


class Said(NamedTuple):
    """A snapshot, and the time when the loop published it (monotonic)."""

    snapshot: TaskSnapshot
    at: float

    def silent_s(self) -> float:
        """The time for which the loop has published nothing although it should turn; 0 while that is not too long."""
        silent_s = time.monotonic() - self.at
        return silent_s if self.snapshot.state in _TURNING and silent_s >= SILENT_AFTER_S else 0.0


class EventStore:
    """Events that the server has not stored yet, oldest first; beyond `kept` the oldest are dropped and counted.

    Thread-safe: the loop adds, the heartbeat thread delivers.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._events: OrderedDict[str, TaskEvent] = OrderedDict()
        self._dropped = 0
        self._lock = threading.Lock()

    @property
    def dropped(self) -> int:
        return self._dropped

    def add(self, event: TaskEvent) -> None:
        with self._lock:
            self._events[event.event_id] = event
            while len(self._events) > self._kept:
                self._events.popitem(last=False)
                self._dropped += 1

    def oldest(self, count: int) -> tuple[TaskEvent, ...]:
        with self._lock:
            return tuple(event for _, event in zip(range(count), self._events.values(), strict=False))

    def forget(self, event_ids: tuple[str, ...]) -> None:
        with self._lock:
            for event_id in event_ids:
                self._events.pop(event_id, None)

    def __len__(self) -> int:
        return len(self._events)


class HeartbeatReporter:
    """The Control of a task that runs under a server (workers/loop/control.py).

    The desired state comes from three sides: the server's answers, the driver (`hear`), a signal (`drain`). DRAIN from
    any of them is final. Between RUN and PAUSE the last *change* counts: the driver repeats its older state every
    0.3 s, which must not undo the server's newer one.

    `is_superseded` becomes true when the server or the driver reports another attempt or lease as current. The task
    then drains, because an idle fenced task would notice nothing and keep its partitions.
    """

    def __init__(
        self,
        place: TaskPlace,
        client: ServerClient,
        *,
        ask_client: ServerClient,
        initial: DesiredTaskState = DesiredTaskState.RUN,
        interval_s: float = 1.0,
        events_kept: int = 1000,
        events_per_heartbeat: int = 100,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        drilled: Callable[[DrillOrder], object] = lambda _: None,
    ) -> None:
        """`client` belongs to the heartbeat thread, `ask_client` to the thread of the loop.

        drilled: called with each order of a drill, repeated ones included; it must return at once.
        """
        self._place = place
        self._client = client
        self._ask_client = ask_client
        self._interval_s = interval_s
        self._events_per_heartbeat = events_per_heartbeat
        self._now_ms = now_ms
        self._drilled = drilled
        self._events = EventStore(events_kept)
        self._offsets = OffsetTeller(events_per_heartbeat=events_per_heartbeat)
        self._said = Said(TaskSnapshot(state=TaskState.STARTING), time.monotonic())
        self._is_silent = False
        self._wanted = initial
        self._heard_from_server: DesiredTaskState = initial
        self._heard_from_driver: DesiredTaskState = initial
        self._drains = initial is DesiredTaskState.DRAIN
        self._superseded_by_server = False
        self._superseded_by_driver = False
        self._sequence = 0
        self._sequence_lock = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._failing = False
        self._broken_since: float | None = None
        self._broken_by = ""
        self._thread = threading.Thread(target=self._beat, name="fenceline-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to report; without a configured server nothing is sent."""
        if self._client.is_configured:
            self._thread.start()

    def close(self, *, timeout_s: float = 2.0) -> None:
        """Send the last state and the events that are left, for at most `timeout_s`; then stop."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # Called by the loop

    def desired(self) -> DesiredTaskState:
        return DesiredTaskState.DRAIN if self._drains else self._wanted

    def publish(self, snapshot: TaskSnapshot) -> None:
        changed = snapshot.state is not self._said.snapshot.state
        self._said = Said(snapshot, time.monotonic())
        if changed:
            log.info("attempt %d of task %d is %s", self._place.attempt, self._place.task, snapshot.state)
            self._wake.set()

    def failed(self, message: str) -> None:
        """Record the end of the attempt and its error. The work done by then stays counted."""
        self.event(EventKind.ERROR, message)
        last = self._said.snapshot
        self.publish(
            msgspec.structs.replace(
                last, state=TaskState.FAILED, partitions=(), open_transaction_age_ms=None, last_error=message
            )
        )

    def event(
        self,
        kind: EventKind,
        message: str,
        *,
        partitions: tuple[str, ...] = (),
        generation: int | None = None,
        error: str | None = None,
        producer: ProducerIdentity | None = None,
    ) -> None:
        snapshot = self._said.snapshot
        self._events.add(
            TaskEvent(
                event_id=uuid.uuid4().hex,
                kind=kind,
                at_ms=self._now_ms(),
                message=storable_text(message),
                partitions=partitions,
                generation=generation,
                error=error,
                producer_id=snapshot.producer_id if producer is None else producer.producer_id,
                producer_epoch=snapshot.producer_epoch if producer is None else producer.epoch,
                transactional_id=None if producer is None else producer.transactional_id,
            )
        )

    def tell_offsets(self, recorder: OffsetRecorder) -> None:
        self._offsets.recorder = recorder

    def ask_is_current(self, *, timeout_s: float) -> bool | None:
        if self.is_superseded:
            return False
        answer = self._ask("whether this attempt is the current one", timeout_s=timeout_s)
        return None if answer is None else self._is_current(answer)

    def ask_recorded(self, *, timeout_s: float) -> Sequence[RecordedOffset] | None:
        answer = self._ask("which offsets are recorded", timeout_s=timeout_s, asks_recorded=True)
        # A restored database knows an older past, which also shows that the group had begun.
        return None if answer is None else answer.recorded

    def _ask(self, what: str, *, timeout_s: float, asks_recorded: bool = False) -> HeartbeatAnswer | None:
        if not self._ask_client.is_configured:
            return None
        try:
            answer = self._send(self._ask_client, timeout_s=timeout_s, asks_recorded=asks_recorded)
        except (ServerAwayError, ServerRefusedError, protocol.UnsupportedProtocolError) as error:
            log.warning("cannot learn %s: %s", what, error)
            return None
        self._take(answer)
        return answer

    # Called by others

    @property
    def is_superseded(self) -> bool:
        return self._superseded_by_server or self._superseded_by_driver

    def drain(self) -> None:
        """Finish and leave, after a signal or the parent's death. Safe inside a signal handler."""
        self._drains = True

    def hear(self, desired: DesiredTaskState, *, is_current_attempt: bool) -> None:
        """Take the driver's answer: the desired state, and whether it knows of no later attempt of this task."""
        if not is_current_attempt and not self._superseded_by_driver:
            self._superseded_by_driver = True
            self.event(EventKind.SUPERSEDED, "the driver has begun a later attempt of this task")
            self.drain()
        if desired is DesiredTaskState.DRAIN:
            self.drain()
        elif desired is not self._heard_from_driver:
            self._wanted = desired
        self._heard_from_driver = desired

    # The heartbeat thread

    def _beat(self) -> None:
        while True:
            self._wake.clear()
            is_last = self._closing
            self._note_silence(self._said.silent_s())
            delivered = self._try_to_send()
            if is_last and (not delivered or not (len(self._events) or self._offsets.has_more)):
                self._client.close()
                return
            if not is_last and not (delivered and len(self._events) > self._events_per_heartbeat):
                self._wake.wait(self._interval_s)
            if not self._closing:
                time.sleep(SOONEST_AGAIN_S)

    def _note_silence(self, silent_s: float) -> None:
        """Report a stuck loop: it cannot do so itself, and its last snapshot would be repeated as the present state."""
        if bool(silent_s) is not self._is_silent:
            self._is_silent = bool(silent_s)
            self.event(EventKind.ERROR, _stuck(silent_s) if silent_s else "the loop turns again")

    def _try_to_send(self) -> bool:
        """Send one; True if the server received it. The thread survives any error, or the heartbeats would end."""
        try:
            answer = self._send(self._client, timeout_s=None)
            self._take(answer)
        except (ServerAwayError, ServerRefusedError, protocol.UnsupportedProtocolError) as error:
            if not self._failing:
                log.warning("heartbeats do not reach the server, the task continues without it: %s", error)
            self._failing = True
            return False
        except Exception as error:
            # A bug of Fenceline, or a machine without memory or threads: reported at the next success.
            if self._broken_since is None:
                log.exception("a heartbeat failed unexpectedly; the task continues, and the next heartbeats are tried")
                self._broken_since = time.monotonic()
            self._broken_by = f"{type(error).__name__}: {error}"
            return False
        if self._broken_since is not None:
            for_s = time.monotonic() - self._broken_since
            self._broken_since = None
            log.warning("heartbeats continue after %.0f s; they had failed with %s", for_s, self._broken_by)
            self.event(EventKind.ERROR, f"no heartbeat could be sent for {for_s:.0f} s: {self._broken_by}")
        if self._failing:
            log.warning("heartbeats reach the server again; %d events wait for delivery", len(self._events))
        self._failing = False
        return True

    def _take(self, answer: HeartbeatAnswer) -> None:
        self._events.forget(answer.accepted_events)
        if self._is_current(answer) is False and not self._superseded_by_server:
            self._superseded_by_server = True
            log.warning("the server reports another lease or attempt as current: this attempt drains")
            self.drain()
        if answer.desired is DesiredTaskState.DRAIN:
            self.drain()
        elif answer.desired is not self._heard_from_server:
            self._wanted = answer.desired
        self._heard_from_server = answer.desired
        if answer.drill is not None and not self.is_superseded:
            self._drilled(answer.drill)

    def _is_current(self, answer: HeartbeatAnswer) -> bool | None:
        """A restored database knows an older past: its "no" counts only under the epoch in which we were leased."""
        if answer.database_epoch != self._place.database_epoch and answer.is_current is False:
            return None
        return answer.is_current

    def _send(self, client: ServerClient, *, timeout_s: float | None, asks_recorded: bool = False) -> HeartbeatAnswer:
        heartbeat = self._heartbeat(tells_offsets=client is self._client, asks_recorded=asks_recorded)
        answer = client.post(HEARTBEAT_PATH, heartbeat, HeartbeatAnswer, timeout_s=timeout_s)
        self._offsets.answered(heartbeat.offsets, answer)
        return answer

    def _heartbeat(self, *, tells_offsets: bool, asks_recorded: bool = False) -> TaskHeartbeat:
        """tells_offsets: on one thread only. The server keeps the report with the higher sequence, and of two threads
        the one with the higher may have read first."""
        said = self._said
        snapshot, silent_s = said.snapshot, said.silent_s()
        state = snapshot.state
        if state is TaskState.DRAINED and self.is_superseded:
            state = TaskState.SUPERSEDED
        age_ms = snapshot.open_transaction_age_ms
        with self._sequence_lock:
            self._sequence += 1
            sequence = self._sequence
        counters = msgspec.structs.replace(
            snapshot.counters, events_dropped=snapshot.counters.events_dropped + self._events.dropped
        )
        now = msgspec.structs.replace(
            snapshot,
            state=state,
            counters=counters,
            open_transaction_age_ms=None if age_ms is None else age_ms + int(silent_s * 1000),
            last_error=_stuck(silent_s) if silent_s else snapshot.last_error,
        )
        return TaskHeartbeat(
            **msgspec.structs.asdict(now),
            **self._place.of_each_heartbeat(),
            sequence=sequence,
            sent_at_ms=self._now_ms(),
            events=self._events.oldest(self._events_per_heartbeat),
            offsets=self._offsets.report(is_over=snapshot.state in ATTEMPT_OVER) if tells_offsets else None,
            asks_recorded=asks_recorded,
        )


def _stuck(silent_s: float) -> str:
    return f"the loop has reported nothing for {silent_s:.0f} s: its transform, or a call of the Kafka client, is stuck"
