"""Topics of a test: fresh, with a unique name."""

import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, OffsetSpec  # pyright: ignore[reportPrivateImportUsage]
from confluent_kafka.cimpl import NewTopic

from tests.support.quiet import QUIET
from tests.support.waiting import wait_for

_TIMEOUT_S = 30.0
_NOT_YET = (
    # librdkafka's, before it has asked any leader: the metadata names none.
    KafkaError._NOENT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    # The controller has reported a leader to the client before it has informed the leader.
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
)


def unique_name(prefix: str = "t") -> str:
    """`prefix` and eight random characters, usable as topic, group or transactional id."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def create_topic(
    bootstrap_servers: str,
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = -1,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create the topic and wait until every partition is led (-1: the cluster's replication factor)."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=dict(config or {}))
    # Futures of the admin client have no type for their result, which is None here.
    admin.create_topics([topic])[name].result(_TIMEOUT_S)  # pyright: ignore[reportUnknownMemberType]
    _wait_until_led(admin, name, partitions)


def delete_records(bootstrap_servers: str, topic: str, partition: int = 0, *, before: int) -> None:
    """As retention does, at once."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
    at = TopicPartition(topic, partition, before)
    # The admin client's futures have no type for their result.
    admin.delete_records([at])[at].result(_TIMEOUT_S)  # pyright: ignore[reportUnknownMemberType]


def add_partition(bootstrap_servers: str, name: str) -> int:
    """One more, with a leader; says how many there are."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
    wanted = len(admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions) + 1
    admin.create_partitions([NewPartitions(name, wanted)])[name].result(_TIMEOUT_S)  # pyright: ignore[reportUnknownMemberType]
    _wait_until_led(admin, name, wanted)
    return wanted


def _wait_until_led(admin: Any, name: str, partitions: int) -> None:
    """Until the leader of every partition knows that it is."""
    wanted = {TopicPartition(name, number): OffsetSpec.latest() for number in range(partitions)}

    def answers() -> bool:
        # One broker's metadata is not enough: the others learn of a new topic each in its own time. But without it the
        # client uses its older metadata.
        if len(admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions) < partitions:
            return False
        for answer in admin.list_offsets(wanted).values():
            try:
                answer.result(_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].code() not in _NOT_YET:
                    raise
                return False
        return True

    wait_for(answers, _TIMEOUT_S, f"a leader for each of the {partitions} partitions of {name}")


def delete_topics(bootstrap_servers: str, names: list[str]) -> None:
    """Delete the topics; one that is gone already is fine."""
    if not names:
        return
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
    # A name that is there twice ends the process inside confluent-kafka 2.16.1: it reads a result for each of them.
    once = list(dict.fromkeys(names))
    futures = cast(dict[str, Future[None]], admin.delete_topics(once))  # pyright: ignore[reportUnknownMemberType]
    for deleted in futures.values():
        try:
            deleted.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
