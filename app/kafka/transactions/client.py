"""The questions of KIP-664 and ListOffsets at both isolation levels, each refusal kept at the item that it is about.

kafka-python has methods for some of them, which fail as a whole when one item does, and follow no coordinator that
moves. Here a partition or an id that is refused does not cost the others their answer.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from kafka.protocol.admin.transactions import (  # pyright: ignore[reportMissingTypeStubs]
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.metadata.find_coordinator import (  # pyright: ignore[reportMissingTypeStubs]
    FindCoordinatorRequest,
)
from kafka.protocol.metadata.metadata import MetadataRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.producer.transaction import (  # pyright: ignore[reportMissingTypeStubs]
    InitProducerIdRequest,
    WriteTxnMarkersRequest,
)

from app.domain.journals import transaction_state
from app.domain.stuck.facts import Coordinators, KnownTransaction, LogEnds, OpenTransaction, Refused
from app.kafka.group_client import GroupClient
from app.kafka.raw_client import error_of, errors, is_transient
from app.kafka.raw_fetch import EARLIEST, LATEST, Isolation, RawFetcher
from app.kafka.transactions.questions import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    METADATA,
    WRITE_MARKERS,
    Question,
    known_transaction,
    no_such_partition,
    open_transaction,
)
from app.ports.brokers import TopicPartition
from app.ports.transactions import FencedProducer

V = TypeVar("V")

_TRANSACTION = 1
_RETRY_S = 0.1
_IDS_AT_ONCE = 500
_TRANSACTIONAL_ID_NOT_FOUND = 105
# Names topics by name and not by id, and is spoken by every broker that knows the other questions.
_METADATA_VERSION = 9
# Says PRODUCER_FENCED for what it is; the next version promises that we speak TV_2.
_INIT_VERSION = 4
# As Kafka's own admin client does it: nothing is to be written under it.
_FENCING_TIMEOUT_MS = 1

_Describe: Any = DescribeTransactionsRequest
_List: Any = ListTransactionsRequest
_Producers: Any = DescribeProducersRequest
_Find: Any = FindCoordinatorRequest
_Metadata: Any = MetadataRequest
_Init: Any = InitProducerIdRequest
_Markers: Any = WriteTxnMarkersRequest

Parts = Collection[TopicPartition]
Row = tuple[TopicPartition, int, V]
"""A partition, its error code, and what was said of it."""


class TransactionClient(RawFetcher, GroupClient):
    """A connection to the cluster; leave it as a context manager does. Its methods block."""

    def partitions_of(self, topic: str) -> tuple[int, ...] | Refused:
        """The numbers of a topic's partitions."""
        leaders = self._leaders_by_topic([topic])[topic]
        return leaders if isinstance(leaders, Refused) else tuple(sorted(leaders))

    def leaders(self, partitions: Parts) -> dict[TopicPartition, int]:
        """Which broker leads each; without those that nobody leads or that may not be seen."""
        found = self._leaders_by_topic({at.topic for at in partitions})
        led = {at: of_topic.get(at.partition, -1) for at in partitions if isinstance(of_topic := found[at.topic], dict)}
        return {at: leader for at, leader in led.items() if leader >= 0}

    def ends(self, partitions: Parts) -> dict[TopicPartition, LogEnds | Refused]:
        """Where each begins and ends, for readers of committed data and for all."""
        # The stable end first: asked in this order it is never ahead of the other because of the time between them.
        stable = self._offsets(partitions, LATEST, Isolation.READ_COMMITTED)
        high = self._offsets(_told(stable), LATEST, Isolation.READ_UNCOMMITTED)
        first = self._offsets(_told(high), EARLIEST, Isolation.READ_UNCOMMITTED)
        found: dict[TopicPartition, LogEnds | Refused] = {}
        for at in partitions:
            # Who was refused one answer is not asked for the next.
            answers = [answered[at] for answered in (first, stable, high) if at in answered]
            refused = next((one for one in answers if isinstance(one, Refused)), None)
            numbers = [one for one in answers if isinstance(one, int)]
            found[at] = refused or LogEnds(*numbers)
        return found

    def open_transactions(self, partitions: Parts) -> dict[TopicPartition, tuple[OpenTransaction, ...] | Refused]:
        """What each partition's leader has open."""

        def request(led: Parts) -> Any:
            topic = _Producers.TopicRequest
            return _Producers(
                topics=[topic(name=name, partition_indexes=numbers) for name, numbers in _by_topic(led).items()]
            )

        def rows(answer: Any) -> Iterable[Row[tuple[OpenTransaction, ...]]]:
            for topic in answer.topics:
                for part in topic.partitions:
                    found = tuple(
                        open_transaction(row) for row in part.active_producers if row.current_txn_start_offset >= 0
                    )
                    yield TopicPartition(topic.name, part.partition_index), part.error_code, found

        with self._half_of_the_time():
            return self._of_leaders(DESCRIBE_PRODUCERS, partitions, request, rows)

    def coordinators(self, producer_ids: Collection[int], *, now_ms: Callable[[], int]) -> Coordinators:
        """Which transactional ids have these producer ids, and what their coordinators say of them."""
        if not producer_ids:
            return Coordinators(at_ms=now_ms())
        with self._half_of_the_time():
            listed, unanswered = self.transactional_ids(producer_ids)
        with self._half_of_the_time():
            described = self.describe_transactions(list(listed.values()))
        known: dict[int, KnownTransaction] = {}
        refused = [*unanswered, *self._without_coordinator()]
        for one in described.values():
            if isinstance(one, Refused):
                refused.append(one)
            elif one is not None:
                known[one.producer_id] = one
        return Coordinators({n: known[n] for n in producer_ids if n in known}, tuple(refused), at_ms=now_ms())

    def transactional_ids(self, producer_ids: Collection[int] = ()) -> tuple[dict[int, str], tuple[Refused, ...]]:
        """By producer id, all that may be seen if none are named; and who did not answer.

        A broker leaves out what the asker may not describe, without a word.
        """
        found: dict[int, str] = {}
        refused: list[Refused] = []
        missing = set(self._brokers())
        while missing:
            requests = {
                broker: _List(state_filters=[], producer_id_filters=list(producer_ids), min_version=0, max_version=0)
                for broker in missing
            }
            for broker, answer in self._from_each(requests).items():
                error = _error_of_answer(answer)
                if error is None:
                    missing.discard(broker)
                    found |= {row.producer_id: row.transactional_id for row in answer.transaction_states}
                elif not is_transient(error) or self._attempt.is_over:
                    missing.discard(broker)
                    refused.append(LIST_TRANSACTIONS.refused(f"broker {broker}", error))
            if missing:
                self._pause()
        return found, tuple(refused)

    def describe_transactions(self, ids: Collection[str]) -> dict[str, KnownTransaction | Refused | None]:
        """Each id as its coordinator has it; None for one that it does not know."""
        found: dict[str, KnownTransaction | Refused | None] = {}
        while missing := [name for name in ids if name not in found][:_IDS_AT_ONCE]:
            coordinators = self._transaction_coordinators(missing)
            by_broker: defaultdict[int, list[str]] = defaultdict(list)
            for name, coordinator in coordinators.items():
                if isinstance(coordinator, Exception):
                    self._settle(found, name, DESCRIBE_TRANSACTIONS, coordinator)
                else:
                    by_broker[coordinator].append(name)
            requests = {broker: _Describe(transactional_ids=names) for broker, names in by_broker.items()}
            for broker, answer in self._from_each(requests).items():
                if isinstance(answer, Exception):
                    for name in by_broker[broker]:
                        self._settle(found, name, DESCRIBE_TRANSACTIONS, answer)
                    continue
                for row in answer.transaction_states:
                    error = _error(row.error_code)
                    if error is None:
                        found[row.transactional_id] = known_transaction(row, broker)
                    elif row.error_code == _TRANSACTIONAL_ID_NOT_FOUND:
                        found[row.transactional_id] = None
                    else:
                        self._settle(found, row.transactional_id, DESCRIBE_TRANSACTIONS, error)
            if any(name not in found for name in missing):
                self._pause()
        return found

    def fence(self, transactional_id: str) -> FencedProducer | Refused:
        """Initialise the id in the place of whoever uses it. What it has open is aborted when this returns.

        The first answer to an id with an open transaction is "not yet" (CONCURRENT_TRANSACTIONS): its abort has begun.
        """
        while True:
            coordinator = self._transaction_coordinators([transactional_id])[transactional_id]
            error: Exception | None
            if isinstance(coordinator, Exception):
                error = coordinator
            else:
                request = _Init(
                    transactional_id=transactional_id,
                    transaction_timeout_ms=_FENCING_TIMEOUT_MS,
                    producer_id=-1,
                    producer_epoch=-1,
                    max_version=_INIT_VERSION,
                )
                answer = self._from_each({coordinator: request})[coordinator]
                error = _error_of_answer(answer)
                if error is None:
                    return FencedProducer(answer.producer_id, answer.producer_epoch)
            if not is_transient(error) or self._attempt.is_over:
                return INIT_PRODUCER_ID.refused(transactional_id, error)
            self._pause()

    def write_abort_marker(
        self, at: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int
    ) -> Refused | None:
        """End what this producer has open in one partition; None when its leader has taken the marker."""

        def request(led: Parts) -> Any:
            marker = _Markers.WritableTxnMarker
            topics = [
                marker.WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
                for name, numbers in _by_topic(led).items()
            ]
            return _Markers(
                markers=[
                    marker(
                        producer_id=producer_id,
                        producer_epoch=producer_epoch,
                        transaction_result=False,
                        topics=topics,
                        coordinator_epoch=coordinator_epoch,
                    )
                ],
                max_version=1,
            )

        def rows(answer: Any) -> Iterable[Row[None]]:
            for marker in answer.markers:
                for topic in marker.topics:
                    for part in topic.partitions:
                        yield TopicPartition(topic.name, part.partition_index), part.error_code, None

        return self._of_leaders(WRITE_MARKERS, [at], request, rows)[at]

    def _offsets(self, partitions: Parts, which: int, isolation: Isolation) -> dict[TopicPartition, int | Refused]:
        def rows(answer: Any) -> Iterable[Row[int]]:
            for topic in answer.topics:
                for part in topic.partitions:
                    yield TopicPartition(topic.name, part.partition_index), part.error_code, int(part.offset)

        with self._half_of_the_time():
            return self._of_leaders(
                LIST_OFFSETS, partitions, lambda led: self._list_request(led, which, isolation), rows
            )

    def _of_leaders(
        self,
        question: Question,
        partitions: Parts,
        request: Callable[[Parts], Any],
        rows: Callable[[Any], Iterable[Row[V]]],
    ) -> dict[TopicPartition, V | Refused]:
        """Ask the leader of each partition, again while leaders move; what is refused is so for its partition only."""
        found: dict[TopicPartition, V | Refused] = {}
        last: dict[TopicPartition, Exception] = {}
        while missing := [at for at in partitions if at not in found]:
            leaders = self._leaders_by_topic({at.topic for at in missing})
            led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
            for at in missing:
                of_topic = leaders[at.topic]
                if isinstance(of_topic, Refused):
                    found[at] = of_topic
                elif at.partition not in of_topic:
                    found[at] = no_such_partition(question, at.topic, at.partition, partitions=len(of_topic))
                elif of_topic[at.partition] >= 0:
                    led[of_topic[at.partition]].append(at)
                else:
                    last[at] = errors.LeaderNotAvailableError("it has no leader")
            for broker, answer in self._from_each({n: request(parts) for n, parts in led.items()}).items():
                if isinstance(answer, Exception):
                    last |= dict.fromkeys(led[broker], answer)
                    continue
                for at, code, said in rows(answer):
                    error = _error(code)
                    if error is None:
                        found[at] = said
                    else:
                        last[at] = error
            for at in missing:
                error = last.get(at)
                if at in found or (error is not None and is_transient(error) and not self._attempt.is_over):
                    continue
                if error is not None or self._attempt.is_over:
                    found[at] = question.refused(_name(at), error or errors.KafkaTimeoutError("no answer in time"))
            if len(found) < len(partitions):
                self._pause()
        return found

    def _leaders_by_topic(self, topics: Collection[str]) -> dict[str, dict[int, int] | Refused]:
        """The leader of each partition of each topic, -1 where there is none now. The answer is not kept."""
        answer = self._ask_any(
            _Metadata(
                topics=[_Metadata.MetadataRequestTopic(name=name) for name in topics],
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
                max_version=_METADATA_VERSION,
            )
        )
        found: dict[str, dict[int, int] | Refused] = {}
        for topic in answer.topics:
            error = _error(topic.error_code)
            if error is None or isinstance(error, errors.LeaderNotAvailableError):
                found[topic.name] = {part.partition_index: part.leader_id for part in topic.partitions}
            else:
                found[topic.name] = METADATA.refused(topic.name, error)
        return found

    def _brokers(self) -> list[int]:
        answer = self._ask_any(_Metadata(topics=[], allow_auto_topic_creation=False, max_version=_METADATA_VERSION))
        return [broker.node_id for broker in answer.brokers]

    def _without_coordinator(self) -> list[Refused]:
        """Partitions of the journal that nobody leads: their ids are known to no broker now, and are no less alive."""
        leaders = self._leaders_by_topic([transaction_state.TOPIC])[transaction_state.TOPIC]
        if isinstance(leaders, Refused):
            return []
        gone = sorted(number for number, leader in leaders.items() if leader < 0)
        numbers = ", ".join(str(number) for number in gone)
        return [Refused(LIST_TRANSACTIONS.name, f"{transaction_state.TOPIC} {numbers} has no leader")] if gone else []

    def _transaction_coordinators(self, ids: Collection[str]) -> dict[str, int | Exception]:
        answer = self._ask_any(_Find(key_type=_TRANSACTION, coordinator_keys=list(ids), min_version=4, max_version=4))
        return {row.key: _error(row.error_code) or int(row.node_id) for row in answer.coordinators}

    def _settle(
        self, found: dict[str, KnownTransaction | Refused | None], name: str, question: Question, error: Exception
    ) -> None:
        """Note what asking again does not mend."""
        if self._attempt.is_over or not is_transient(error):
            found[name] = question.refused(name, error)

    def _ask_any(self, request: Any) -> Any:
        """The answer of the first broker that gives one. Raises a KafkaError of the library's when none does."""
        while True:
            try:
                return self._manager.run(self._sent_to_any, request)
            except errors.KafkaError as error:
                if not is_transient(error) or self._attempt.is_over:
                    raise
            self._pause()

    async def _sent_to_any(self, request: Any) -> Any:
        return await self._manager.send(request, request_timeout_ms=self.left_ms / 2)

    def _from_each(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        """The answer of each broker, or why it gave none."""
        return self._manager.run(self._all_sent, requests) if requests else {}

    async def _all_sent(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        # Half of what is left: a broker that does not answer must not use up the other questions' time.
        timeout_ms = self.left_ms / 2
        sent = {broker: self._sent_to(request, broker, timeout_ms) for broker, request in requests.items()}
        answers: dict[int, Any] = {}
        for broker, future in sent.items():
            try:
                answers[broker] = await future
            except errors.KafkaError as error:
                answers[broker] = error
        return answers

    def _pause(self) -> None:
        """A coordinator or leader that moves takes a moment."""
        time.sleep(min(_RETRY_S, self.left_ms / 1000))


def _told(answers: Mapping[TopicPartition, int | Refused]) -> list[TopicPartition]:
    return [at for at, answer in answers.items() if isinstance(answer, int)]


def _by_topic(partitions: Parts) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at in partitions:
        found[at.topic].append(at.partition)
    return found


def _error_of_answer(answer: Any) -> Exception | None:
    """Why a broker gave none, or what it says of the question as a whole."""
    return answer if isinstance(answer, Exception) else _error(answer.error_code)


def _error(code: int) -> Exception | None:
    return None if code == 0 else error_of(code, None)


def _name(at: TopicPartition) -> str:
    return f"{at.topic}-{at.partition}"
