"""Topics of a test: fresh, with a name nobody else has."""

import uuid
from collections.abc import Mapping
from concurrent.futures import Future
from typing import cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions  # pyright: ignore[reportPrivateImportUsage]
from confluent_kafka.cimpl import NewTopic

from tests.support.waiting import wait_for

_TIMEOUT_S = 30.0


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
    """Create the topic and wait until a leader of every partition is known (-1: the cluster's replication factor)."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replication_factor, config=dict(config or {}))
    # Futures of the admin client have no type for their result, which is None here.
    admin.create_topics([topic])[name].result(_TIMEOUT_S)  # pyright: ignore[reportUnknownMemberType]

    def has_leaders() -> bool:
        found = admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions
        return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())

    wait_for(has_leaders, _TIMEOUT_S, f"a leader for each of the {partitions} partitions of {name}")


def add_partition(bootstrap_servers: str, name: str) -> int:
    """One more, with a leader; says how many there are."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    wanted = len(admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions) + 1
    admin.create_partitions([NewPartitions(name, wanted)])[name].result(_TIMEOUT_S)  # pyright: ignore[reportUnknownMemberType]

    def has_leaders() -> bool:
        found = admin.list_topics(name, timeout=_TIMEOUT_S).topics[name].partitions
        return len(found) == wanted and all(partition.leader >= 0 for partition in found.values())

    wait_for(has_leaders, _TIMEOUT_S, f"a leader for each of the {wanted} partitions of {name}")
    return wanted


def delete_topics(bootstrap_servers: str, names: list[str]) -> None:
    """Delete the topics; one that is gone already is fine."""
    if not names:
        return
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    # A name that is there twice ends the process inside confluent-kafka 2.16.1: it reads a result for each of them.
    once = list(dict.fromkeys(names))
    futures = cast(dict[str, Future[None]], admin.delete_topics(once))  # pyright: ignore[reportUnknownMemberType]
    for deleted in futures.values():
        try:
            deleted.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
