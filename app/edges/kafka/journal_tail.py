"""Follow journals as they are written: one long poll at each leader, independent of each other.

A frozen or dead leader delays its own partitions only. The library's thread sends and receives; the polling thread
decodes.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from app.core.clusters.partition import Partition
from app.core.ids.transactional_id import transaction_log_partition
from app.core.journals import group_records, transaction_state
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.record_batch import RecordBatch, UnreadableBatch, split_batches
from app.core.observing.journals import AdminAnswers, FetchOutcome, LogAnswer, Stamp, Tail, TopicLook
from app.edges.kafka import coordinated_groups, open_transactions
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.connections import ANYWHERE, BOOTSTRAP, ClusterConnector
from app.edges.kafka.fetch_session import FetchSession, SessionRequest
from app.edges.kafka.raw_client import error_of, errors, failure, reading_answers
from app.edges.kafka.raw_fetch import EARLIEST, FetchIsolation, RawFetcher, offset_after
from app.kit.errors import UnavailableError
from app.kit.words import duration_s

# The time for which a broker waits with an answer while nothing is written. Its other answers wait as long.
_LONG_POLL_MS = 300
# The shortest interval of requests to a leader, for fewer and fuller answers: it grows with each answer in a row that
# has records. So the first record after a pause is read at once, and a steady flow costs ten answers a second.
_PACE_S = 0.02
_LONGEST_PACE_S = 0.1
# A leader names only partitions with something new; for the others, its answers count as often as this.
_TELL_ALL_S = 0.5
_AFTER_FAILURE_S = 0.2
_ASK_FOR_LEADERS_S = 0.2
_LOOK_FOR_LEADERS_MS = 100
_LOOK_FOR_ABSENT_MS = 1_000
_NOBODY_ANSWERS_S = 10.0
_OFFSET_OUT_OF_RANGE = 1
_NOT_ALLOWED = frozenset({29, 31})


def pace_after(before_s: float, *, took_s: float, has_records: bool) -> float:
    """Return the shortest time between two requests to a leader.

    before_s: as it was until now. took_s: the time until the answer. A leader without new records waits with it.
    """
    if not has_records:
        return 0.0
    return _PACE_S if took_s >= _LONGEST_PACE_S else min(before_s + _PACE_S, _LONGEST_PACE_S)


class _LeaderAnswer(NamedTuple):
    """The result from one leader: the message or an error."""

    broker_id: int
    positions: dict[Partition, int]
    sent_at: float
    heard_at: float
    message: Any
    error: Exception | None


class KafkaJournals(ClusterConnector):
    """Implements app/core/observing/journals.py."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        secrets_dir: Path | None,
        topics: Collection[str],
        allowed_addresses: Collection[str] = ANYWHERE,
    ) -> None:
        super().__init__(environment=environment, secrets_dir=secrets_dir, allowed_addresses=allowed_addresses)
        self._topics = frozenset(topics)

    def open(self, connection: Mapping[str, str], *, timeout_s: float) -> AbstractContextManager[Tail]:
        resolved = self._resolve(connection)
        attempt = ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)
        try:
            return JournalTail(resolved, attempt, self._topics, timeout_s=timeout_s)
        except errors.KafkaError as error:
            raise failure(attempt, "serve their journals", error) from error


class JournalTail(RawFetcher):
    """The Tail port; a context manager."""

    def __init__(
        self, resolved: Mapping[str, str], attempt: ConnectionAttempt, topics: Collection[str], *, timeout_s: float
    ) -> None:
        super().__init__(resolved, attempt)
        self._timeout_s = timeout_s
        self._positions: dict[Partition, int] = {}
        # The high watermark, and the leader that reported it, if the partition is read to it.
        self._ends: dict[Partition, int] = {}
        self._at_end: dict[Partition, int] = {}
        self._sessions: defaultdict[int, FetchSession] = defaultdict(FetchSession)
        # The time of each leader's newest request with an answer, and of the newest report of all its partitions.
        self._asked_at: dict[int, float] = {}
        self._told_at: dict[int, float] = {}
        self._in_flight: set[int] = set()
        self._not_before: dict[int, float] = {}
        self._paces: dict[int, float] = {}
        self._answered: SimpleQueue[_LeaderAnswer] = SimpleQueue()
        self._heard_at = time.monotonic()
        self._leaders_asked_at = self._heard_at
        self._cluster = self._manager.cluster
        self._wanted = frozenset(topics)
        self._topics |= self._wanted
        try:
            with reading_answers():
                self._manager.run(self._refresh)
        except BaseException:
            # No caller has it yet to close it; the caller tries again.
            self._client.close()
            raise

    @property
    def kafka_cluster_id(self) -> str:
        return str(self._cluster.cluster_id)

    def look_up(self, topic: str) -> TopicLook:
        is_any_absent = any(not self._cluster.partitions_for_topic(one) for one in self._wanted)
        # For a missing topic, the library refreshes its metadata by itself, up to ten times a second.
        self._cluster.config["retry_backoff_ms"] = _LOOK_FOR_ABSENT_MS if is_any_absent else _LOOK_FOR_LEADERS_MS
        found = self._cluster.partitions_for_topic(topic)
        if found:
            return TopicLook(frozenset(found))
        self._ask_for_leaders()
        refusal = "its description is not allowed" if topic in self._cluster.unauthorized_topics else ""
        return TopicLook(frozenset(), refusal)

    def follow(self, topic: str, partition: int, offset: int) -> None:
        self._positions[Partition(topic, partition)] = offset

    def leave(self, topic: str) -> None:
        for at in [at for at in self._positions if at.topic == topic]:
            del self._positions[at]
            self._ends.pop(at, None)

    def poll(self, *, timeout_s: float) -> list[LogAnswer]:
        until = time.monotonic() + timeout_s
        answers: list[LogAnswer] = []
        while not answers:
            self._send()
            now = time.monotonic()
            self._raise_if_nobody_answers(now)
            # Also woken when a leader may be polled again.
            next_send = min((at for at in self._not_before.values() if at > now), default=until)
            try:
                first = self._answered.get(timeout=max(0.0, min(until, next_send) - now))
            except Empty:
                if time.monotonic() >= until:
                    break
                continue
            for answer in [first, *self._others()]:
                answers += self._read(answer)
        # The next answers arrive while these are processed.
        self._send()
        return answers

    def _raise_if_nobody_answers(self, now: float) -> None:
        """Reconnect from the bootstrap addresses: all brokers may have new addresses by now."""
        # Without anything to follow, the brokers' metadata is requested instead.
        heard_at = max(self._heard_at, self._cluster._last_successful_refresh_ms / 1000)  # noqa: SLF001
        if now - heard_at > _NOBODY_ANSWERS_S:
            raise UnavailableError(
                f"no broker of {self._attempt.address} answered for {duration_s(now - heard_at)}; "
                f"last seen: {self.last_failure or 'nothing'}"
            )

    def ask_coordinators(self, *, is_only_open: bool) -> AdminAnswers[LiveTransaction]:
        described = open_transactions.describe_all(self._bounded, self.broker_ids(), is_only_open=is_only_open)
        found = {
            name: LiveTransaction(name, state, self._partition_of(name, transaction_state.TOPIC), -1)
            for name, state in described.states.items()
        }
        return AdminAnswers(found, described.missing)

    def ask_group_coordinators(self, *, is_wanted: Callable[[str], bool]) -> AdminAnswers[LiveGroup]:
        described = coordinated_groups.describe_all(self._bounded, self.broker_ids(), is_wanted=is_wanted)
        for name, group in described.groups.items():
            group.partition = self._partition_of(name, group_records.TOPIC)
        return AdminAnswers(described.groups, described.missing)

    def _partition_of(self, name: str, topic: str) -> int:
        """Return the partitions of the journal of this name; -1 while they are unknown."""
        partitions = len(self._cluster.partitions_for_topic(topic) or ())
        return transaction_log_partition(name, partitions) if partitions else -1

    def _bounded(self, request: Any, broker_id: int) -> Any:
        """Give each request its own time limit: a frozen broker does not use up that of the others."""

        async def sent() -> Any:
            return await self._sent_to(request, broker_id, self._timeout_s * 1000)

        return self._manager.run(sent)

    def _others(self) -> list[_LeaderAnswer]:
        found: list[_LeaderAnswer] = []
        while True:
            try:
                found.append(self._answered.get_nowait())
            except Empty:
                return found

    def _send(self) -> None:
        """Poll every leader without a pending request."""
        led: defaultdict[int, dict[Partition, int]] = defaultdict(dict)
        is_led = True
        for at, offset in self._positions.items():
            leader = self._cluster.leader_for_partition(at)
            if leader is None or leader < 0:
                is_led = False
            else:
                led[leader][at] = offset
        if not is_led:
            self._ask_for_leaders()
        now = time.monotonic()
        for broker_id, positions in led.items():
            if broker_id not in self._in_flight and self._not_before.get(broker_id, 0.0) <= now:
                self._in_flight.add(broker_id)
                self._manager.call_soon(self._ask, broker_id, positions, self._sessions[broker_id].request(positions))

    async def _ask(self, broker_id: int, positions: dict[Partition, int], session: SessionRequest) -> None:
        sent_at = time.monotonic()
        message, problem = None, None
        try:
            request = self._request(session.positions, _LONG_POLL_MS, FetchIsolation.READ_UNCOMMITTED, session=session)
            message = await self._sent_to(request, broker_id, _LONG_POLL_MS + self._timeout_s * 1000)
        except Exception as error:  # noqa: BLE001 - raised by the polling thread
            problem = error
        self._answered.put(_LeaderAnswer(broker_id, positions, sent_at, time.monotonic(), message, problem))

    def _read(self, answer: _LeaderAnswer) -> list[LogAnswer]:
        """Treat an unreadable answer like a failed connection: its broker misses a turn.

        Records of the partitions before the unreadable one stay: their positions have moved.
        """
        found: list[LogAnswer] = []
        try:
            with reading_answers():
                self._take(answer, found)
        except errors.KafkaProtocolError as error:
            self._sessions[answer.broker_id].failed()
            self._note_failure(answer.broker_id, str(error))
        return found

    def _take(self, answer: _LeaderAnswer, found: list[LogAnswer]) -> None:
        self._in_flight.discard(answer.broker_id)
        error = answer.error
        session = self._sessions[answer.broker_id]
        if error is None and answer.message.error_code != 0:
            error = error_of(answer.message.error_code, f"the fetch from broker {answer.broker_id}")
        if error is not None:
            session.failed()
            if not isinstance(error, errors.KafkaError):
                raise error
            if isinstance(error, (errors.AuthorizationError, errors.SaslAuthenticationFailedError)):
                raise failure(self._attempt, "serve their journals", error) from error
            self._note_failure(answer.broker_id, str(error) or type(error).__name__)
            return
        session.answered(int(answer.message.session_id))
        self._heard_at = time.monotonic()
        named: set[Partition] = set()
        for topic in answer.message.responses:
            for part in topic.partitions:
                at = Partition(topic.topic, part.partition_index)
                named.add(at)
                # A partition that was left or has moved meanwhile is not followed any more.
                if self._positions.get(at) == answer.positions.get(at):
                    found += self._heard(at, part, answer)
        pace_s = pace_after(
            self._paces.get(answer.broker_id, 0.0),
            took_s=answer.heard_at - answer.sent_at,
            has_records=bool(found),
        )
        self._paces[answer.broker_id] = pace_s
        self._not_before[answer.broker_id] = answer.sent_at + pace_s
        self._asked_at[answer.broker_id] = answer.sent_at
        found += self._unchanged(answer, named)

    def _unchanged(self, answer: _LeaderAnswer, named: Collection[Partition]) -> list[LogAnswer]:
        """Tell from time to time that the leader has answered for its other partitions, too."""
        if answer.heard_at - self._told_at.get(answer.broker_id, 0.0) < _TELL_ALL_S:
            return []
        self._told_at[answer.broker_id] = answer.heard_at
        return [
            LogAnswer(FetchOutcome.READ, at.topic, at.partition, (), offset, self._ends[at], "", answer.broker_id)
            for at, offset in answer.positions.items()
            if at not in named and at in self._ends and self._positions.get(at) == offset
        ]

    def _heard(self, at: Partition, part: Any, answer: _LeaderAnswer) -> list[LogAnswer]:
        code: int = part.error_code
        if code == 0:
            batches = tuple(split_batches(bytes(part.records or b"")))
            next_offset = offset_after(batches, answer.positions[at])
            end: int = part.high_watermark
            # After the last line that may find the answer unreadable.
            self._positions[at], self._ends[at] = next_offset, end
            stamp = self._stamp(at, batches, answer, is_at_end=next_offset >= end)
            return [
                LogAnswer(
                    FetchOutcome.READ, at.topic, at.partition, batches, next_offset, end, "", answer.broker_id, stamp
                )
            ]
        if code == _OFFSET_OUT_OF_RANGE:
            start = self._earliest(at)
            self._positions[at] = start
            self._ends.pop(at, None)
            return [LogAnswer(FetchOutcome.GONE, at.topic, at.partition, (), start, -1)]
        error = error_of(code, str(at))
        if code in _NOT_ALLOWED:
            return [LogAnswer(FetchOutcome.REFUSED, at.topic, at.partition, (), -1, -1, str(error))]
        # After a leader's move, or another error of one partition, the others continue.
        self._note_failure(answer.broker_id, str(error))
        return []

    def _stamp(
        self,
        at: Partition,
        batches: tuple[RecordBatch | UnreadableBatch, ...],
        answer: _LeaderAnswer,
        *,
        is_at_end: bool,
    ) -> Stamp | None:
        """Report a new record at a leader that had reported the end of its log before."""
        before = self._at_end.pop(at, None)
        if is_at_end:
            self._at_end[at] = answer.broker_id
        if before != answer.broker_id or answer.broker_id not in self._asked_at:
            return None
        stamps = [batch.max_timestamp_ms for batch in batches if isinstance(batch, RecordBatch)]
        return (
            Stamp(max(stamps), self._asked_at[answer.broker_id], answer.heard_at)
            if stamps and max(stamps) >= 0
            else None
        )

    def _earliest(self, at: Partition) -> int:
        self._attempt = ConnectionAttempt(self._attempt.address, self._timeout_s)
        try:
            return self.list_offsets([at], EARLIEST)[at]
        except errors.KafkaError as error:
            raise failure(self._attempt, f"return the first offset of {at}", error) from error

    def _note_failure(self, broker_id: int, reason: str) -> None:
        self.last_failure = reason
        self._not_before[broker_id] = time.monotonic() + _AFTER_FAILURE_S
        self._ask_for_leaders()

    def _ask_for_leaders(self) -> None:
        """Refresh in the background, at intervals: an election takes a moment."""
        now = time.monotonic()
        if now - self._leaders_asked_at >= _ASK_FOR_LEADERS_S:
            self._leaders_asked_at = now
            self._cluster.request_update()
