"""Read one cluster's journals for the lifetime of the server, in a thread of its own.

CONNECTING ─▶ following: every leader's answers applied and published ─▶ (no broker answers) LOST ─▶ CONNECTING
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import msgspec

from app.core.clocks.broker_clocks import ClockSample
from app.core.clusters.cluster import Cluster
from app.core.clusters.service import refuse_other_cluster
from app.core.journals import group_records, transaction_state
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.journals import FetchOutcome, FoldStore, Journals, LogAnswer, Tail
from app.core.observing.live_cluster import JOURNALS, LiveCluster
from app.core.observing.loops.coordinator_poll import CoordinatorPoll
from app.core.observing.snapshot import ReadingPhase, Snapshot
from app.kit.back_off import BackOff
from app.kit.errors import FencelineError

log = logging.getLogger(__name__)

_CONNECT_WITHIN_S = 5.0
_LOOK_S = 0.25
# Changes in between are published together.
_PUBLISH_EVERY_S = 0.05
_ABSENT_AGAIN_S = 1.0
_REFUSED_AGAIN_S = 10.0
# The journal of groups is usually read by then: a request for all groups is expensive and would be useless.
_ASK_FOR_GROUPS_AFTER_S = 2.0
BACK_OFF = BackOff(0.5, 10.0)
_WHO_TELLS_INSTEAD = {
    transaction_state.TOPIC: "its coordinators are asked instead, which have no history",
    group_records.TOPIC: "its coordinators are asked instead, which have no history, no generation of a classic group, "
    "and no producer of a pending offset",
}


class ClusterObserver:
    """`start` and `stop` are for the server's thread; everything else runs in its own.

    Args:
        publish: takes each snapshot, from the observer's thread.
        on_steps: takes the ids with a new step (a new producer id or epoch that is not routine). It gets each at least
            once, as soon as it is applied. Steps of a journal's history are included, and at every start the kept ones.
        is_wanted: chooses the groups to keep.
        now_ms: the clock of this process.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        journals: Journals,
        store: FoldStore,
        publish: Callable[[Snapshot], None],
        on_steps: Callable[[Sequence[LiveTransaction]], None] = lambda _: None,
        is_wanted: Callable[[str], bool],
        now_ms: Callable[[], int],
        save_every_s: float,
    ) -> None:
        self.cluster = cluster
        self._journals = journals
        self._store = store
        self._publish = publish
        self._on_steps = on_steps
        self._is_wanted = is_wanted
        self._now_ms = now_ms
        self._save_every_s = save_every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"observer of {cluster.name}", daemon=True)
        self._retry_at: dict[str, float] = {}
        self._polls: dict[str, CoordinatorPoll[LiveTransaction] | CoordinatorPoll[LiveGroup]] = {}
        self._published_at = 0.0
        self._saved_at = 0.0
        self._note = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, timeout_s: float = 10.0) -> bool:
        """Save and end; blocks. False if it has not ended in time, as with a frozen broker."""
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        folds, self._note = self._store.load(self.cluster.kafka_cluster_id)
        live = LiveCluster(self.cluster.name, folds, is_wanted=self._is_wanted, now_ms=self._now_ms())
        self._saved_at = time.monotonic()
        self._tell(live)
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                with self._journals.open(self.cluster.connection(), timeout_s=_CONNECT_WITHIN_S) as tail:
                    refuse_other_cluster(self.cluster, tail.kafka_cluster_id)
                    self._follow(tail, live)
            except FencelineError as error:
                self._lost(live, error.message)
            except Exception as error:
                # A bug here must not leave the pages with old answers without a report.
                log.exception("the observer of %s failed", self.cluster.name)
                self._lost(live, f"the observer failed: {type(error).__name__}: {error}")
            failures = 0 if time.monotonic() - began > BACK_OFF.longest_s else failures + 1
            self._stopping.wait(BACK_OFF.wait_s(failures + 1))
        self._save(live)

    def _lost(self, live: LiveCluster, problem: str) -> None:
        for topic in JOURNALS:
            live.enter(topic, ReadingPhase.LOST, problem=problem, now_ms=self._now_ms())
        log.warning("the observer of %s: %s", self.cluster.name, problem)
        self._tell(live)

    def _follow(self, tail: Tail, live: LiveCluster) -> None:
        """Follow the journals until the server stops, or an error."""
        self._retry_at = dict.fromkeys(JOURNALS, 0.0)
        self._polls = {
            transaction_state.TOPIC: CoordinatorPoll(
                live.transactions, lambda phase: tail.ask_coordinators(is_only_open=phase is not ReadingPhase.REFUSED)
            ),
            group_records.TOPIC: CoordinatorPoll(
                live.groups,
                lambda _: tail.ask_group_coordinators(is_wanted=self._is_wanted),
                first_after_s=_ASK_FOR_GROUPS_AFTER_S,
            ),
        }
        # A frozen coordinator must not delay the answers of the others.
        asker = ThreadPoolExecutor(len(self._polls), thread_name_prefix="asking coordinators")
        try:
            self._follow_on(tail, live, asker)
        finally:
            # Its requests end with the connection.
            asker.shutdown(wait=False, cancel_futures=True)

    def _follow_on(self, tail: Tail, live: LiveCluster, asker: Executor) -> None:
        is_untold = False
        while not self._stopping.is_set():
            for topic in JOURNALS:
                self._look_for(topic, tail, live)
            for poll in self._polls.values():
                poll.turn(asker, now_ms=self._now_ms())
            answers = tail.poll(timeout_s=self._until_told_s() if is_untold else _LOOK_S)
            for answer in answers:
                self._take(answer, tail, live)
            is_untold = is_untold or bool(answers)
            if self._until_told_s() == 0.0:
                self._tell(live)
                is_untold = False
            if time.monotonic() - self._saved_at >= self._save_every_s:
                self._save(live)

    def _until_told_s(self) -> float:
        """Return the time until the next publication."""
        return max(0.0, self._published_at + _PUBLISH_EVERY_S - time.monotonic())

    def _look_for(self, topic: str, tail: Tail, live: LiveCluster) -> None:
        """Start to follow a journal as soon as it exists and may be read."""
        now = time.monotonic()
        if now < self._retry_at.get(topic, now + 1):
            return
        look = tail.look_up(topic)
        if look.partitions:
            del self._retry_at[topic]
            journal = live.journal(topic)
            journal.progress.expect(look.partitions, now_ms=self._now_ms())
            for partition in look.partitions:
                tail.follow(topic, partition, journal.next_offset(partition))
        elif look.refusal:
            self._refused(topic, look.refusal, tail, live)
        else:
            self._retry_at[topic] = now + _ABSENT_AGAIN_S
            live.enter(topic, ReadingPhase.ABSENT, now_ms=self._now_ms())

    def _refused(self, topic: str, refusal: str, tail: Tail, live: LiveCluster) -> None:
        tail.leave(topic)
        self._retry_at[topic] = time.monotonic() + _REFUSED_AGAIN_S
        problem = (
            f"{topic} may not be read ({refusal}), so {_WHO_TELLS_INSTEAD[topic]}; grant the permission READ on {topic}"
        )
        if live.journal(topic).progress.phase is not ReadingPhase.REFUSED:
            self._polls[topic].hurry()
        live.enter(topic, ReadingPhase.REFUSED, problem=problem, now_ms=self._now_ms())

    def _take(self, answer: LogAnswer, tail: Tail, live: LiveCluster) -> None:
        journal = live.journal(answer.topic)
        if answer.heard is FetchOutcome.REFUSED:
            self._refused(answer.topic, answer.refusal, tail, live)
        elif answer.heard is FetchOutcome.GONE:
            log.warning(
                "%s: partition %d of %s no longer has offset %d; it is read again from %d",
                self.cluster.name,
                answer.partition,
                answer.topic,
                journal.next_offset(answer.partition),
                answer.next_offset,
            )
            journal.restart(answer.partition)
            # Until it is read, its coordinator is asked, as at the start.
            live.enter(answer.topic, ReadingPhase.CATCHING_UP, now_ms=self._now_ms())
        else:
            self._note_clock(answer, live)
            journal.read(
                answer.partition,
                answer.batches,
                next_offset=answer.next_offset,
                end=answer.end,
                now_ms=self._now_ms(),
            )
            phase = ReadingPhase.LIVE if journal.progress.is_caught_up_everywhere else ReadingPhase.CATCHING_UP
            live.enter(answer.topic, phase, now_ms=self._now_ms())

    def _note_clock(self, answer: LogAnswer, live: LiveCluster) -> None:
        if answer.broker_id >= 0:
            live.clocks.lead(answer.topic, answer.partition, answer.broker_id)
        if answer.stamp is not None:
            now_ms, now_s = self._now_ms(), time.monotonic()
            after_ms, heard_ms = (
                now_ms - int((now_s - at_s) * 1000) for at_s in (answer.stamp.after_s, answer.stamp.heard_s)
            )
            live.clocks.note(ClockSample(answer.broker_id, answer.stamp.stamped_ms, after_ms, heard_ms))

    def _tell(self, live: LiveCluster) -> None:
        snapshot = live.snapshot(now_ms=self._now_ms())
        self._publish(msgspec.structs.replace(snapshot, note=self._note) if self._note else snapshot)
        if stepped := live.take_stepped():
            self._on_steps(stepped)
        self._published_at = time.monotonic()

    def _save(self, live: LiveCluster) -> None:
        try:
            self._store.save(self.cluster.kafka_cluster_id, live.folds)
        except FencelineError as error:
            if error.message != self._note:
                log.warning("%s", error.message)
            self._note = error.message
        self._saved_at = time.monotonic()
