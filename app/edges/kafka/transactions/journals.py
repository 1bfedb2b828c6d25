"""Read both journals once, or from the last read position, without a server that follows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.core.blocked.facts import KnownTransaction, Refused
from app.core.clocks.broker_clocks import BrokerClocks
from app.core.journals import group_records, transaction_state
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.reading import JournalCounts
from app.core.journals.transaction_state import TransactionStatus
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.connections import BOOTSTRAP
from app.edges.kafka.coordinated_groups import DescribedGroups, describe_all
from app.edges.kafka.raw_client import RawClient, errors, failure, reading_answers
from app.edges.kafka.raw_fetch import read_logs
from app.edges.kafka.transactions.client import TransactionClient


def catch_up_transactions(live: LiveTransactions, resolved: Mapping[str, str], *, timeout_s: float) -> None:
    """Read `__transaction_state` to its present end. Raises the errors of app/edges/kafka/raw_fetch.py."""
    attempt = ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)
    for partition, batch in read_logs(resolved, attempt, transaction_state.TOPIC, since=_read_up_to(live.reading)):
        live.apply(partition, batch)


def catch_up_groups(
    live: LiveGroups, resolved: Mapping[str, str], *, timeout_s: float, is_wanted: Callable[[str], bool]
) -> None:
    """Read `__consumer_offsets` to its present end. Raises the errors of app/edges/kafka/raw_fetch.py."""
    attempt = ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)
    for partition, batch in read_logs(resolved, attempt, group_records.TOPIC, since=_read_up_to(live.reading)):
        live.apply(partition, batch, is_wanted=is_wanted)


def ask_coordinators(
    resolved: Mapping[str, str], *, timeout_s: float
) -> tuple[dict[str, KnownTransaction], tuple[Refused, ...]]:
    """Read every id from its coordinator, if the journal may not be read; with the refusals."""
    attempt = ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)
    try:
        with TransactionClient(resolved, attempt) as client, reading_answers():
            names, refused = client.transactional_ids()
            described = client.describe_transactions(sorted(names.values()))
    except errors.KafkaError as error:
        raise failure(attempt, "list transactions", error) from error
    known = {name: one for name, one in described.items() if isinstance(one, KnownTransaction)}
    return known, (*refused, *(one for one in described.values() if isinstance(one, Refused)))


def measure_clocks(resolved: Mapping[str, str], *, timeout_s: float, now_ms: Callable[[], int]) -> BrokerClocks:
    """Measure the clocks of the coordinators with an open transaction: others cannot be measured (ADR 0018).

    Raises the errors of reading a journal, never because a clock cannot be measured.
    """
    attempt = ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)
    try:
        with TransactionClient(resolved, attempt) as client, reading_answers():
            names, _ = client.transactional_ids(states=[TransactionStatus.ONGOING.word])
            offsets = client.coordinators_clocks(client.describe_transactions(sorted(names.values())), now_ms=now_ms)
            leaders = {
                (topic, partition): broker
                for topic in (transaction_state.TOPIC, group_records.TOPIC)
                for partition, broker in client.leaders_of(topic).items()
            }
    except errors.KafkaError as error:
        raise failure(attempt, "measure the brokers' clocks", error) from error
    return BrokerClocks(offsets, leaders)


def ask_group_coordinators(
    resolved: Mapping[str, str], *, timeout_s: float, is_wanted: Callable[[str], bool]
) -> DescribedGroups:
    """Read every group from its coordinator, with the brokers that did not answer."""
    attempt = ConnectionAttempt(resolved[BOOTSTRAP], timeout_s)
    try:
        with RawClient(resolved, attempt) as client, reading_answers():
            return describe_all(client.send_in_half_of_the_time, client.broker_ids(), is_wanted=is_wanted)
    except errors.KafkaError as error:
        raise failure(attempt, "list groups", error) from error


def _read_up_to(reading: JournalCounts) -> dict[int, int]:
    return {partition: position.next_offset for partition, position in reading.positions.items()}
