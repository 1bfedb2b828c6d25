"""The questions of KIP-664 to transaction coordinators, beside those to the leaders of partitions.

kafka-python has methods for some of them. They fail as a whole when one item does, and follow no moving coordinator.
Here a refused id does not cost the others their answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from kafka.protocol.admin.transactions import (  # pyright: ignore[reportMissingTypeStubs]
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.consumer.group import LeaveGroupRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.metadata.api_versions import ApiVersionsRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.metadata.find_coordinator import (  # pyright: ignore[reportMissingTypeStubs]
    FindCoordinatorRequest,
)
from kafka.protocol.metadata.metadata import MetadataRequest  # pyright: ignore[reportMissingTypeStubs]
from kafka.protocol.producer.transaction import (  # pyright: ignore[reportMissingTypeStubs]
    EndTxnRequest,
    InitProducerIdRequest,
)

from app.core.blocked.brokers import FencedProducer, NotEnded
from app.core.blocked.facts import Coordinators, KnownTransaction, Refused, with_age
from app.core.clocks.clock_offset import ClockOffset, search_offset
from app.core.journals import transaction_state
from app.edges.kafka.group_client import GroupClient
from app.edges.kafka.raw_client import errors, is_transient
from app.edges.kafka.transactions.asking import error_in, error_of_answer
from app.edges.kafka.transactions.leaders import METADATA_VERSION, LeaderClient
from app.edges.kafka.transactions.questions import (
    DESCRIBE_TRANSACTIONS,
    END_TRANSACTION,
    INIT_PRODUCER_ID,
    LEAVE_GROUP,
    LIST_TRANSACTIONS,
    known_transaction,
)

_TRANSACTION = 1
_IDS_AT_ONCE = 500
_TRANSACTIONAL_ID_NOT_FOUND = 105
# Returns PRODUCER_FENCED as such; the next version declares support of TV_2.
_INIT_VERSION = 4
# The version that raises the id's epoch: with earlier ones the producer of the ended transaction continues.
_FENCING_END_VERSION = 5
_FENCING_END_FEATURE, _FENCING_END_LEVEL = "transaction.version", 2
# Brokers of 2.5 have versions up to 1, those of 2.8 up to this.
_PLAIN_END_VERSION = 3
# As Kafka writes it where there is none.
_NOBODYS_PRODUCER_ID = -1
# Names members by their ids, several in a request (KIP-345); brokers from 2.4 on.
_LEAVE_VERSION = 3
_LONGEST_REASON = 255
# No transaction begins with it. It is also the time for which the coordinator waits until its replicas have the new
# epoch. After it the coordinator refuses, though its log has the epoch (KAFKA-16047; appendTransactionToLog in Kafka's
# TransactionStateManager, 2.5 to 4.3). It equals the caller's time limit.
_FENCING_TIMEOUT_MS = 10_000

_Describe: Any = DescribeTransactionsRequest
_List: Any = ListTransactionsRequest
_Find: Any = FindCoordinatorRequest
_Metadata: Any = MetadataRequest
_Init: Any = InitProducerIdRequest
_End: Any = EndTxnRequest
_ApiVersions: Any = ApiVersionsRequest
_Leave: Any = LeaveGroupRequest
_LIST_BY_DURATION_VERSION = 1
Described = Mapping[str, KnownTransaction | Refused | None]
"""By transactional id; None for an id that its coordinator does not know."""
_NO_LONGER_ITS = (
    errors.ProducerFencedError,
    errors.InvalidProducerEpochError,
    errors.InvalidProducerIdMappingError,
    errors.InvalidTxnStateError,
)
_NOT_A_MEMBER = (errors.UnknownMemberIdError, errors.GroupIdNotFoundError)


class TransactionClient(LeaderClient, GroupClient):
    """A connection to the cluster; a context manager. Its methods block."""

    def coordinators(self, producer_ids: Collection[int], *, now_ms: Callable[[], int]) -> Coordinators:
        """Find the transactional ids of these producer ids, with their coordinators' descriptions."""
        if not producer_ids:
            return Coordinators(at_ms=now_ms())
        with self._half_of_the_time():
            listed, unanswered = self.transactional_ids(producer_ids)
        with self._half_of_the_time():
            described = self.with_ages(self.describe_transactions(list(listed.values())), now_ms=now_ms)
        known: dict[int, KnownTransaction] = {}
        refused = [*unanswered, *self._without_coordinator()]
        for one in described.values():
            if isinstance(one, Refused):
                refused.append(one)
            elif one is not None:
                known[one.producer_id] = one
        return Coordinators({n: known[n] for n in producer_ids if n in known}, tuple(refused), at_ms=now_ms())

    def transactional_ids(
        self, producer_ids: Collection[int] = (), *, states: Collection[str] = ()
    ) -> tuple[dict[int, str], tuple[Refused, ...]]:
        """List by producer id, without any all permitted ones; states likewise; with the brokers that did not answer.

        A broker omits ids that the caller may not describe, without an error.
        """
        found: dict[int, str] = {}
        refused: list[Refused] = []
        missing = set(self._brokers())
        while missing:
            requests = {
                broker: _List(
                    state_filters=list(states), producer_id_filters=list(producer_ids), min_version=0, max_version=0
                )
                for broker in missing
            }
            for broker, answer in self._from_each(requests).items():
                error = error_of_answer(answer)
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
        """Describe each id as its coordinator has it; None for one that it does not know."""
        found: dict[str, KnownTransaction | Refused | None] = {}
        last: dict[str, Exception] = {}
        while missing := [name for name in ids if name not in found]:
            asked = missing[:_IDS_AT_ONCE]
            try:
                coordinators = self._transaction_coordinators(asked)
            except errors.KafkaError as silence:
                if not found and not last:
                    raise
                # As with leaders: answers are kept, and the others keep their own reasons.
                return found | {
                    name: DESCRIBE_TRANSACTIONS.refused(name, last.setdefault(name, silence)) for name in missing
                }
            by_broker: defaultdict[int, list[str]] = defaultdict(list)
            for name, coordinator in coordinators.items():
                if isinstance(coordinator, Exception):
                    last[name] = coordinator
                else:
                    by_broker[coordinator].append(name)
            requests = {broker: _Describe(transactional_ids=names) for broker, names in by_broker.items()}
            for broker, answer in self._from_each(requests).items():
                if isinstance(answer, Exception):
                    last |= dict.fromkeys(by_broker[broker], answer)
                    continue
                for row in answer.transaction_states:
                    error = error_in(row.error_code)
                    if error is None:
                        found[row.transactional_id] = known_transaction(row, broker)
                    elif row.error_code == _TRANSACTIONAL_ID_NOT_FOUND:
                        found[row.transactional_id] = None
                    else:
                        last[row.transactional_id] = error
            self._settle(found, asked, last, DESCRIBE_TRANSACTIONS.refused)
        return found

    def with_ages(self, described: Described, *, now_ms: Callable[[], int]) -> Described:
        """Describe each, with the time for which it is open; coordinators before 3.8 do not report that.

        A coordinator lists transactions open for longer than some milliseconds by its own clock (KIP-994). Applied to a
        transaction that it stamped itself, that measures its clock without waiting for a record.
        Source: Kafka, TransactionStateManager.listTransactionStates (3.8 to 4.3).
        """
        clocks = self.coordinators_clocks(described, now_ms=now_ms)
        return {
            name: with_age(one, clocks, now_ms=now_ms()) if isinstance(one, KnownTransaction) else one
            for name, one in described.items()
        }

    def coordinators_clocks(self, described: Described, *, now_ms: Callable[[], int]) -> dict[int, ClockOffset]:
        """Return by broker the clocks of those coordinators that have one of these transactions open."""
        measurable = [one for one in described.values() if isinstance(one, KnownTransaction) and one.has_timeout]
        oldest: dict[int, KnownTransaction] = {}
        for one in sorted(measurable, key=lambda known: -known.start_ms):
            oldest[one.coordinator_id] = one
        clocks: dict[int, ClockOffset] = {}
        for broker, one in oldest.items():
            offset = search_offset(partial(self._is_older_than, one), stamped_ms=one.start_ms, now_ms=now_ms)
            # If its id has begun another one meanwhile, the answers were about that.
            if offset is not None and self._is_as_it_was(one):
                clocks[broker] = offset
        return clocks

    def _is_older_than(self, known: KnownTransaction, duration_ms: int) -> bool | None:
        request = _List(
            state_filters=[],
            producer_id_filters=[known.producer_id],
            duration_filter=duration_ms,
            min_version=_LIST_BY_DURATION_VERSION,
            max_version=_LIST_BY_DURATION_VERSION,
        )
        answer = self._from_each({known.coordinator_id: request})[known.coordinator_id]
        if self._attempt.is_over or error_of_answer(answer) is not None:
            return None
        return any(row.producer_id == known.producer_id for row in answer.transaction_states)

    def _is_as_it_was(self, known: KnownTransaction) -> bool:
        now = self.describe_transactions([known.transactional_id])[known.transactional_id]
        return isinstance(now, KnownTransaction) and (now.state, now.start_ms) == (known.state, known.start_ms)

    def fence(self, transactional_id: str) -> FencedProducer | Refused:
        """Initialise the id in place of its producer. Its open transaction is aborted when this returns.

        The first answer for an id with an open transaction is CONCURRENT_TRANSACTIONS: its abort has begun.
        """
        answer = self._of_coordinator(
            transactional_id,
            lambda: _Init(
                transactional_id=transactional_id,
                transaction_timeout_ms=_FENCING_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
                max_version=_INIT_VERSION,
            ),
        )
        error = error_of_answer(answer)
        if error is not None:
            return INIT_PRODUCER_ID.refused(transactional_id, error)
        return FencedProducer(answer.producer_id, answer.producer_epoch)

    def fences_refused(self, ids: Collection[str]) -> dict[str, Refused]:
        """Return the missing permissions to describe these ids or to write under them.

        The permission to write is tested by an EndTxn with a producer id that no id can have. The broker checks the
        permission first (TRANSACTIONAL_ID_AUTHORIZATION_FAILED). Then its coordinator compares the producer id and
        refuses without a change (INVALID_PRODUCER_ID_MAPPING), also for an unknown id.
        Source: Kafka, KafkaApis.handleEndTxnRequest and TransactionCoordinator.endTransaction (2.5 to 4.3).
        """
        described = self.describe_transactions(ids)
        found = {name: one for name, one in described.items() if isinstance(one, Refused)}
        return found | {
            name: refused for name in ids if name not in found and (refused := self._write_refused(name)) is not None
        }

    def _write_refused(self, transactional_id: str) -> Refused | None:
        answer = self._of_coordinator(
            transactional_id,
            lambda: _End(
                transactional_id=transactional_id,
                producer_id=_NOBODYS_PRODUCER_ID,
                producer_epoch=0,
                committed=False,
                min_version=0,
                max_version=_PLAIN_END_VERSION,
            ),
        )
        error = error_of_answer(answer)
        if isinstance(error, errors.InvalidProducerIdMappingError):
            return None
        if error is None:
            return Refused(END_TRANSACTION.name, f"the coordinator of {transactional_id} compares no producer id")
        return END_TRANSACTION.refused(transactional_id, error)

    def end(
        self, transactional_id: str, *, producer_id: int, producer_epoch: int
    ) -> FencedProducer | NotEnded | Refused:
        """Abort this producer's open transaction and fence its epoch, unless the id has moved on.

        InitProducerId with producer id and epoch (KIP-360) is not enough. While a transaction is open, its coordinator
        compares the producer id alone, and would abort the transaction of a takeover. EndTxn always compares both, and
        from version 5 on (KIP-890) raises the epoch with the abort. Brokers of 4.x accept that version at any level of
        `transaction.version`. Below level 2 they fail in the middle, and no producer can initialise the id any more.
        Source: Kafka, TransactionCoordinator.prepareInitProducerIdTransit and .endTransaction (3.9 to 4.3).
        """
        if not self.can_end(transactional_id):
            return NotEnded.UNSUPPORTED
        answer = self._of_coordinator(
            transactional_id,
            lambda: _End(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                committed=False,
                min_version=_FENCING_END_VERSION,
                max_version=_FENCING_END_VERSION,
            ),
        )
        error = error_of_answer(answer)
        if error is None:
            return FencedProducer(answer.producer_id, answer.producer_epoch)
        if isinstance(error, _NO_LONGER_ITS):
            return NotEnded.MOVED_ON
        return END_TRANSACTION.refused(transactional_id, error)

    def can_end(self, transactional_id: str) -> bool:
        """Return whether its coordinator can `end`. Raises a KafkaError of the library's if that is unknown."""
        answer = self._of_coordinator(
            transactional_id,
            lambda: _ApiVersions(
                client_software_name="fenceline", client_software_version="1", min_version=3, max_version=3
            ),
        )
        error = error_of_answer(answer)
        if error is not None:
            raise error
        levels = {row.name: row.max_version_level for row in answer.finalized_features or ()}
        return levels.get(_FENCING_END_FEATURE, 0) >= _FENCING_END_LEVEL

    def remove_member(self, group: str, member_id: str, *, reason: str) -> bool | Refused:
        """Remove a dynamic member from its group; False if the group has no such member.

        LeaveGroup names any dynamic member by its id, in both group protocols, without its generation. An unknown one
        is refused without a change (UNKNOWN_MEMBER_ID).
        Source: Kafka, GroupMetadataManager.classicGroupLeave and .classicGroupLeaveToConsumerGroup (3.9 to 4.3).
        """
        member = _Leave.MemberIdentity(member_id=member_id, group_instance_id=None, reason=reason[:_LONGEST_REASON])
        while True:
            answer = self._left(group, _Leave(group_id=group, members=[member], min_version=_LEAVE_VERSION))
            error = error_of_answer(answer)
            if error is None:
                error = next((error_in(one.error_code) for one in answer.members), None)
            if error is None:
                return True
            if isinstance(error, _NOT_A_MEMBER):
                return False
            if not is_transient(error) or self._attempt.is_over:
                return LEAVE_GROUP.refused(group, error)
            self._pause()

    def _left(self, group: str, request: Any) -> Any:
        """Return the answer of the group's coordinator, or the reason for none."""
        try:
            coordinator = self._manager.run(self._coordinator, group)
        except errors.KafkaError as error:
            return error
        return self._from_each({coordinator: request})[coordinator]

    def _of_coordinator(self, transactional_id: str, request: Callable[[], Any]) -> Any:
        """Return the answer of the id's coordinator, or the reason for none; retried while it moves or loads."""
        while True:
            coordinator = self._transaction_coordinators([transactional_id])[transactional_id]
            answer = (
                coordinator
                if isinstance(coordinator, Exception)
                else self._from_each({coordinator: request()})[coordinator]
            )
            error = error_of_answer(answer)
            if error is None or not is_transient(error) or self._attempt.is_over:
                return answer
            self._pause()

    def _brokers(self) -> list[int]:
        answer = self._ask_any(_Metadata(topics=[], allow_auto_topic_creation=False, max_version=METADATA_VERSION))
        return [broker.node_id for broker in answer.brokers]

    def _without_coordinator(self) -> list[Refused]:
        """Report journal partitions without a leader: no broker knows their ids now, which may be in use."""
        leaders = self._leaders_by_topic([transaction_state.TOPIC])[transaction_state.TOPIC]
        if isinstance(leaders, Refused):
            return []
        gone = sorted(number for number, leader in leaders.items() if leader < 0)
        numbers = ", ".join(str(number) for number in gone)
        return [Refused(LIST_TRANSACTIONS.name, f"{transaction_state.TOPIC} {numbers} has no leader")] if gone else []

    def _transaction_coordinators(self, ids: Collection[str]) -> dict[str, int | Exception]:
        answer = self._ask_any(_Find(key_type=_TRANSACTION, coordinator_keys=list(ids), min_version=4, max_version=4))
        return {row.key: error_in(row.error_code) or int(row.node_id) for row in answer.coordinators}
