"""The classical zombie on a broker: two clients with different ids. With offsets for the group alone, 10 of 30 outputs
are duplicates, and the journal shows it; with the group's metadata (KIP-447) there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from app.edges.embedded.kafka import KafkaCluster
from app.kit.cli.errors import ExitCode
from tests.conftest import MakeTopic
from tests.support.kafka_clients import initialise, write
from tests.support.kafka_tools import run_tool
from tests.support.quiet import QUIET
from tests.support.serving import FENCELINE
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from workers.loop.group.group_alone import GroupAlone

Command = Callable[..., tuple[int, Any]]
Metadata = Callable[["Client"], Any]
RECORDS = 10
_TIMEOUT_S = 30.0


class Client:
    """A read-process-write application: its consumer in a group, and its producer with an id of its own."""

    def __init__(self, servers: str, group: str, source: str, sink: str, metadata: Metadata) -> None:
        self.group, self.id = group, unique_name("tx")
        self._source, self._sink, self._metadata = source, sink, metadata
        settings = {"bootstrap.servers": servers, **QUIET}
        self.consumer = Consumer(
            {
                **settings,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self.consumer.subscribe([source])
        self.producer = Producer({**settings, "transactional.id": self.id})
        initialise(self.producer)

    def process(self, records: int) -> None:
        """Read and write this many records in a transaction that stays open."""
        self.producer.begin_transaction()
        read: list[int] = []

        def is_read() -> bool:
            message = self.consumer.poll(0.2)
            if message is not None and message.error() is None:
                read.append(message.offset() or 0)
                self.producer.produce(self._sink, message.value())
            return len(read) >= records

        wait_for(is_read, _TIMEOUT_S, f"{records} records")
        self.producer.flush(_TIMEOUT_S)
        self._next = read[-1] + 1
        self._told = self._metadata(self)

    def commit(self) -> None:
        at = TopicPartition(self._source, 0, self._next)
        self.producer.send_offsets_to_transaction([at], self._told, _TIMEOUT_S)
        self.producer.commit_transaction(_TIMEOUT_S)


def alone(client: Client) -> Any:
    return GroupAlone(client.group).consumer_group_metadata()


def of_member(client: Client) -> Any:
    return client.consumer.consumer_group_metadata()


class Scene:
    def __init__(self, servers: str, source: str, sink: str) -> None:
        self.servers, self.source, self.sink = servers, source, sink
        self.group = unique_name("g")
        self._clients: list[Client] = []

    def client(self, metadata: Metadata) -> Client:
        self._clients.append(Client(self.servers, self.group, self.source, self.sink, metadata))
        return self._clients[-1]

    def feed(self) -> None:
        write({"bootstrap.servers": self.servers}, self.source, records=RECORDS)

    def outputs(self) -> int:
        """Return the number of committed records in the sink."""
        reader = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": unique_name("reader"),
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                **QUIET,
            }
        )
        reader.assign([TopicPartition(self.sink, 0, 0)])
        found = 0
        while (message := reader.poll(_TIMEOUT_S)) is not None and message.error() is None:
            found += 1
        reader.close()
        return found

    def close(self) -> None:
        for one in self._clients:
            one.consumer.close()


@pytest.fixture
def scene(kafka: KafkaCluster, make_topic: MakeTopic) -> Generator[Scene]:
    made = Scene(kafka.bootstrap_servers, make_topic(), make_topic())
    yield made
    made.close()


@pytest.fixture
def fenceline(kafka: KafkaCluster, tmp_path: Path) -> Command:
    """Return the exit code of a command, and its JSON."""

    def run(*arguments: str) -> tuple[int, Any]:
        ended = subprocess.run(
            [*FENCELINE, *arguments, "--json", "--bootstrap-server", kafka.bootstrap_servers],
            cwd=tmp_path,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.stdout, ended.stderr
        return ended.returncode, orjson.loads(ended.stdout)

    return run


def taken_over(scene: Scene, metadata: Metadata) -> tuple[Client, Client]:
    """The first client has ten records in an open transaction, has left the group, and the second one commits them."""
    zombie = scene.client(metadata)
    scene.feed()
    zombie.process(RECORDS)
    zombie.commit()
    scene.feed()
    zombie.process(RECORDS)
    zombie.consumer.close()
    owner = scene.client(metadata)
    owner.process(RECORDS)
    owner.commit()
    return zombie, owner


@pytest.mark.core
def test_zombie_with_offsets_for_the_group_alone_is_found(scene: Scene, fenceline: Command) -> None:
    zombie, owner = taken_over(scene, alone)
    zombie.commit()
    assert scene.outputs() == 3 * RECORDS
    code, found = fenceline("double-processing", scene.group)
    (one,) = found["items"]
    assert (one["pattern"], one["grade"]) == ("same_end", "likely")
    assert (one["topic"], one["from_offset"], one["to_offset"]) == (scene.source, RECORDS, 2 * RECORDS)
    assert [one["first"]["transactional_id"], one["second"]["transactional_id"]] == [owner.id, zombie.id]
    assert one["sentence"].endswith("Both probably processed offsets 10 to 19.")
    assert code == ExitCode.FAILED


@pytest.mark.core
def test_zombie_with_the_groups_metadata_is_refused_and_nothing_is_found(scene: Scene, fenceline: Command) -> None:
    """The negative control."""
    zombie, _ = taken_over(scene, of_member)
    with pytest.raises(KafkaException) as refused:
        zombie.commit()
    assert refused.value.args[0].txn_requires_abort()
    zombie.producer.abort_transaction(_TIMEOUT_S)
    assert scene.outputs() == 2 * RECORDS
    code, found = fenceline("double-processing", scene.group)
    assert (code, found["items"]) == (0, [])


def test_zombie_behind_the_new_owner_sets_the_offset_back_and_the_next_owner_repeats(
    scene: Scene, fenceline: Command
) -> None:
    zombie, owner = taken_over(scene, alone)
    scene.feed()
    owner.process(RECORDS)
    owner.commit()
    zombie.commit()
    code, found = fenceline("double-processing", scene.group)
    (one,) = found["items"]
    assert (code, one["pattern"], one["grade"]) == (ExitCode.FAILED, "rewound", "likely")
    assert (one["from_offset"], one["to_offset"]) == (2 * RECORDS, 3 * RECORDS)
    owner.consumer.close()
    following = scene.client(of_member)
    for _ in range(2):
        # Of two successive commits both ends are known, so the second one is the proof.
        following.process(RECORDS // 2)
        following.commit()
    code, found = fenceline("double-processing", scene.group)
    assert [(one["grade"], one["from_offset"], one["to_offset"]) for one in found["items"]] == [
        ("proved", 2 * RECORDS + RECORDS // 2, 3 * RECORDS)
    ]
    assert "their outputs are duplicates" in found["items"][0]["sentence"]


def test_reset_with_kafkas_own_tool_is_intended(scene: Scene, fenceline: Command) -> None:
    first = scene.client(of_member)
    scene.feed()
    first.process(RECORDS)
    first.commit()
    first.consumer.close()
    run_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", scene.servers, "--group", scene.group, "--topic", scene.source),
        *("--reset-offsets", "--to-earliest", "--execute"),
    )
    second = scene.client(of_member)
    for _ in range(2):
        second.process(RECORDS // 2)
        second.commit()
    code, found = fenceline("double-processing", scene.group)
    assert code == 0
    assert [(one["pattern"], one["grade"], one["from_offset"], one["to_offset"]) for one in found["items"]] == [
        ("reset", "intended", 0, RECORDS)
    ]
