"""Times that contradict each other, with librdkafka's own errors."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.core.pipelines.timing_checks import check
from app.kit.errors import Problem
from tests.support.definitions import a_definition


def problems(**changes: Any) -> list[Problem]:
    return list(check(a_definition(**changes)))


def only(**changes: Any) -> Problem:
    found = problems(**changes)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("field", "value", "bound"),
    [
        ("commit_interval_ms", 0, "between 1 and 3600000"),
        ("transaction_timeout_ms", 999, "between 1000 and 2147483647"),
        ("transaction_timeout_ms", 1 << 31, "between 1000 and 2147483647"),
        ("session_timeout_ms", 999, "between 1000 and 3600000"),
    ],
)
def test_each_time_has_bounds(field: str, value: int, bound: str) -> None:
    problem = only(**{field: value})
    assert problem.field == field
    assert bound in problem.message
    assert f"not {value}" in problem.message


def test_a_commit_interval_past_the_transaction_timeout_is_refused() -> None:
    problem = only(commit_interval_ms=10_000)
    assert problem.field == "commit_interval_ms"
    assert not problem.is_warning
    assert "timeout of 10000 ms" in problem.message


def test_a_commit_interval_near_the_transaction_timeout_is_a_warning() -> None:
    assert only(commit_interval_ms=5_001).is_warning
    assert problems(commit_interval_ms=5_000) == []


def test_without_transactions_their_timeout_does_not_matter() -> None:
    assert problems(commit_interval_ms=10_000, processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE) == []


# name and value of an override, and whether librdkafka refuses it beside a transaction timeout of 10 s
PRODUCER_CASES = [
    ("message.timeout.ms", "10001", True),
    ("message.timeout.ms", "10000", False),
    ("delivery.timeout.ms", "10001", True),
    ("socket.timeout.ms", "60000", True),
    ("socket.timeout.ms", "9000", False),
    ("reconnect.backoff.ms", "20000", True),
    ("reconnect.backoff.max.ms", "50", True),
    ("reconnect.backoff.max.ms", "500", False),
]


@pytest.mark.parametrize(("name", "value", "is_refused"), PRODUCER_CASES)
def test_values_that_librdkafka_refuses_in_a_producer_are_refused_before(
    name: str, value: str, is_refused: bool
) -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x", "transaction.timeout.ms": 10_000}
    try:
        Producer({**config, "log_level": 0, name: value})
    except KafkaException:
        librdkafka_refuses = True
    else:
        librdkafka_refuses = False
    assert librdkafka_refuses is is_refused
    found = problems(producer_overrides={name: value})
    assert bool(found) is is_refused
    assert all(problem.field.startswith("producer_overrides.") for problem in found)


CONSUMER_CASES: list[tuple[GroupProtocol, dict[str, str], bool]] = [
    (GroupProtocol.CLASSIC, {"max.poll.interval.ms": "5000"}, True),
    (GroupProtocol.CLASSIC, {"max.poll.interval.ms": "10000"}, False),
    (GroupProtocol.CONSUMER, {"group.remote.assignor": "uniform"}, False),
    (GroupProtocol.CLASSIC, {"reconnect.backoff.max.ms": "0"}, True),
]


@pytest.mark.parametrize(("protocol", "overrides", "is_refused"), CONSUMER_CASES)
def test_values_that_librdkafka_refuses_in_a_consumer_are_refused_before(
    protocol: GroupProtocol, overrides: dict[str, str], is_refused: bool
) -> None:
    config: dict[str, str | int] = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.protocol": protocol}
    if protocol is GroupProtocol.CLASSIC:
        config["session.timeout.ms"] = 10_000
    try:
        Consumer({**config, "log_level": 0, **overrides}).close()
    except KafkaException:
        librdkafka_refuses = True
    else:
        librdkafka_refuses = False
    assert librdkafka_refuses is is_refused
    assert bool(problems(group_protocol=protocol, consumer_overrides=overrides)) is is_refused


def test_a_message_timeout_past_the_transaction_names_both_times() -> None:
    problem = only(producer_overrides={"message.timeout.ms": "20000"})
    assert problem.field == "producer_overrides.message.timeout.ms"
    assert "20000" in problem.message
    assert "10000" in problem.message


@pytest.mark.parametrize("overrides", [{"linger.ms": "10000"}, {"linger.ms": "500", "message.timeout.ms": "500"}])
def test_records_do_not_linger_longer_than_they_are_tried(overrides: dict[str, str]) -> None:
    for guarantee in (ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE):
        problem = only(producer_overrides=overrides, processing_guarantee=guarantee)
        assert problem.field == "producer_overrides.linger.ms"


def test_a_commit_interval_past_max_poll_is_refused() -> None:
    found = problems(
        commit_interval_ms=20_000,
        transaction_timeout_ms=60_000,
        consumer_overrides={"max.poll.interval.ms": "20000"},
    )
    assert [(problem.field, problem.is_warning) for problem in found] == [("commit_interval_ms", False)]
    assert "max.poll.interval.ms, 20000" in found[0].message


def test_a_session_longer_than_max_poll_is_refused() -> None:
    problem = only(session_timeout_ms=20_000, consumer_overrides={"max.poll.interval.ms": "15000"})
    assert problem.field == "session_timeout_ms"
    assert "the session timeout must not be longer" in problem.message


def test_a_changed_session_timeout_under_kip_848_is_a_warning_as_the_session_belongs_to_the_broker() -> None:
    problem = only(group_protocol=GroupProtocol.CONSUMER, session_timeout_ms=6_000)
    assert problem.field == "session_timeout_ms"
    assert problem.is_warning
    assert "group.consumer.session.timeout.ms" in problem.message
    assert problems(group_protocol=GroupProtocol.CONSUMER) == []


def test_a_remote_assignor_needs_kip_848() -> None:
    problem = only(consumer_overrides={"group.remote.assignor": "uniform"})
    assert problem.field == "consumer_overrides.group.remote.assignor"


@pytest.mark.parametrize("value", ["", "abc", "nan", "-5"])
def test_text_that_is_not_a_number_is_left_to_the_check_of_options(value: str) -> None:
    assert problems(producer_overrides={"linger.ms": value}, consumer_overrides={"max.poll.interval.ms": value}) == []
