"""Read transactions from their coordinators by the admin calls of KIP-664 (brokers from 3.0 on).

Every broker lists the ids that it coordinates, and then describes each of them. The error of one id or broker costs its
own answer only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from kafka.protocol.admin.transactions import (  # pyright: ignore[reportMissingTypeStubs]
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)

from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.edges.kafka.raw_client import error_of, errors, reading_answers

_OPEN = [status.word for status in TransactionStatus if status.is_open]
_STATUS_OF = {status.word: status for status in TransactionStatus}
_IDS_IN_A_REQUEST = 500

ListMessage: Any = ListTransactionsRequest
DescribeMessage: Any = DescribeTransactionsRequest


class DescribedTransactions(NamedTuple):
    """states: by transactional id. missing: a sentence for each broker without an answer."""

    states: dict[str, TransactionState]
    missing: tuple[str, ...]


def describe_all(
    send: Callable[[Any, int], Any], broker_ids: Sequence[int], *, is_only_open: bool
) -> DescribedTransactions:
    """Read every id that this client may describe, or the open ones only.

    Args:
        send: returns a broker's answer to a request, or raises a KafkaError of the library's in bounded time.
    """
    states: dict[str, TransactionState] = {}
    missing: list[str] = []
    for broker_id in broker_ids:
        try:
            with reading_answers():
                request = ListMessage(
                    state_filters=_OPEN if is_only_open else [], producer_id_filters=[], max_version=0
                )
                listed = send(request, broker_id)
                if listed.error_code != 0:
                    raise error_of(listed.error_code, "ListTransactions")
                names = [one.transactional_id for one in listed.transaction_states]
                for some in _in_parts(names):
                    described = send(DescribeMessage(transactional_ids=some), broker_id)
                    # The next answer has an id that expired or whose coordinator moved meanwhile.
                    found = [one for one in described.transaction_states if one.error_code == 0]
                    states |= {
                        one.transactional_id: _state(one) for one in found if one.transaction_state in _STATUS_OF
                    }
        except errors.KafkaError as error:
            missing.append(f"broker {broker_id}: {str(error) or type(error).__name__}")
    return DescribedTransactions(states, tuple(missing))


def _in_parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _IDS_IN_A_REQUEST):
        yield names[start : start + _IDS_IN_A_REQUEST]


def _state(one: Any) -> TransactionState:
    return TransactionState(
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout_ms,
        _STATUS_OF[one.transaction_state],
        tuple(TopicPartitions(topic.topic, tuple(topic.partitions)) for topic in one.topics),
        start_ms=one.transaction_start_time_ms,
    )
