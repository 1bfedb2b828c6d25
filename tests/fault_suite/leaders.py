"""Moves the leaders of partitions to another replica, as an operator's reassignment does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]
from kafka.admin import KafkaAdminClient  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]
from kafka.structs import TopicPartition  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from tests.support.quiet import QUIET
from tests.support.waiting import wait_for

_PREFERRED = 0


class At(NamedTuple):
    topic: str
    partition: int


class Led(NamedTuple):
    leader: int
    replicas: Sequence[int]
    in_sync: Sequence[int]


def move_leaders(bootstrap_servers: str, partitions: Sequence[At], *, deadline_s: float) -> list[str]:
    """Make another replica that is in sync the preferred leader, and elect it; says from where to where.

    Raises AssertionError where no other one is in sync, or none is elected, in time.
    """
    asking = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET})
    deadline = time.monotonic() + deadline_s

    def led(at: At) -> Led:
        found = asking.list_topics(at.topic, timeout=deadline_s).topics[at.topic].partitions[at.partition]
        return Led(found.leader, found.replicas, found.isrs)

    def successor(at: At) -> int | None:
        found = led(at)
        others = [replica for replica in found.in_sync if replica != found.leader]
        return min(others) if others and found.leader >= 0 else None

    # The library does not declare its types.
    admin: Any = cast(Any, KafkaAdminClient)(bootstrap_servers=bootstrap_servers.split(","))
    try:
        moved: list[str] = []
        for at in partitions:
            to = wait_for(lambda at=at: successor(at), deadline - time.monotonic(), f"another replica of {at} in sync")
            before = led(at)
            order = [to, *(replica for replica in before.replicas if replica != to)]
            refused = admin.alter_partition_reassignments({cast(Any, TopicPartition)(*at): order})
            assert not any(refused.values()), refused
            admin.elect_leaders(_PREFERRED, {at.topic: [at.partition]})
            wait_for(
                lambda at=at, to=to: led(at).leader == to,
                deadline - time.monotonic(),
                lambda at=at, to=to: f"{to} as leader of {at}; it is {led(at)}",
            )
            moved.append(f"{at.topic}-{at.partition} led by {to}, before by {before.leader}")
        return moved
    finally:
        admin.close()
