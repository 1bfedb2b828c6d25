"""Two workers of one group, without the loop: a record is read, offset and output are sent in one transaction.

`python -m tests.support.two_workers BOOTSTRAP` is the first one of several scenes at once. It reads them from its
standard input as one line of JSON. It stops in the middle of each transaction, prints `ready`, and continues at the
next line. The result of each is a line of JSON. While it waits it may be frozen, as a long garbage collection would do.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.kafka_clients import Protocol, initialise
from tests.support.quiet import QUIET
from tests.support.waiting import wait_for

SESSION_S = 3
_WITHIN_S = 60.0


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The common facts of the workers. One record lies in partition 0 of the source.

    ids: the transactional ids of the first and the second one. has_generation: whether offsets are sent with the
    member's generation, or for the group alone. is_offset_first: whether the first worker stops after its offset, or
    after its output. isolation: of the source's consumer.
    """

    name: str
    source: str
    sink: str
    group: str
    protocol: Protocol
    ids: tuple[str, str]
    has_generation: bool
    is_offset_first: bool
    isolation: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """error: Kafka's name of the first worker's error when it woke up; None: it could commit."""

    scene: str
    error: str | None
    is_fatal: bool = False
    generation: int | None = None


class Worker:
    def __init__(self, bootstrap_servers: str, scene: Scene, transactional_id: str) -> None:
        self._connection: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, **QUIET}
        self._scene = scene
        self._transactional_id = transactional_id
        settings: dict[str, Any] = {"group.id": scene.group, "group.protocol": scene.protocol}
        if scene.protocol == "classic":
            settings |= {"session.timeout.ms": SESSION_S * 1000, "heartbeat.interval.ms": 500}
        self._consumer = Consumer(
            {
                **self._connection,
                **settings,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": scene.isolation,
            }
        )
        self._producer: Producer | None = None
        self._record: Message | None = None

    def begin(self) -> None:
        """Get the partition, then a producer, then the record, and begin a transaction."""
        self._consumer.subscribe([self._scene.source])

        def is_assigned() -> bool:
            self._record = self._consumer.poll(0.05) or self._record
            return bool(self._consumer.assignment())

        wait_for(is_assigned, _WITHIN_S, f"the partition of {self._scene.name}")
        self._producer = Producer({**self._connection, "transactional.id": self._transactional_id, "linger.ms": 0})
        initialise(self._producer)

        def has_record() -> bool:
            self._record = self._record or self._consumer.poll(0.05)
            return self._record is not None

        wait_for(has_record, _WITHIN_S, f"the record of {self._scene.name}")
        assert self._record is not None
        assert self._record.error() is None, self._record.error()
        self._producer.begin_transaction()

    def send_offset(self) -> None:
        assert self._producer is not None
        self._producer.send_offsets_to_transaction([TopicPartition(self._scene.source, 0, 1)], self._metadata(), 20)

    def send_output(self) -> None:
        assert self._producer is not None
        self._producer.produce(self._scene.sink, f"by {self._transactional_id}", partition=0)
        self._producer.flush(20)

    def commit(self) -> None:
        assert self._producer is not None
        self._producer.commit_transaction(20)

    def abort(self) -> None:
        assert self._producer is not None
        self._producer.abort_transaction(20)

    def generation(self) -> int:
        """The member's own view, from the client's form of its metadata."""
        (number,) = struct.unpack_from("=i", bytes(self._consumer.consumer_group_metadata()), len(b"CGMDv2:"))
        return int(number)

    def close(self) -> None:
        self._consumer.close()

    def _metadata(self) -> Any:
        if self._scene.has_generation:
            return self._consumer.consumer_group_metadata()
        # As clients from before KIP-447 do: a consumer that is no member knows the group's name and nothing else.
        nobody = Consumer({**self._connection, "group.id": self._scene.group})
        try:
            return nobody.consumer_group_metadata()
        finally:
            nobody.close()


def wake_up(worker: Worker, scene: Scene) -> Outcome:
    """Go on where the transaction was left."""
    try:
        if scene.is_offset_first:
            worker.send_output()
        else:
            worker.send_offset()
        worker.commit()
    except KafkaException as exception:
        error: KafkaError = exception.args[0]
        if error.txn_requires_abort():
            worker.abort()
        return Outcome(scene=scene.name, error=error.name(), is_fatal=error.fatal())
    return Outcome(scene=scene.name, error=None)


def main() -> None:
    scenes = msgspec.json.decode(sys.stdin.readline(), type=list[Scene])
    workers = [Worker(sys.argv[1], scene, scene.ids[0]) for scene in scenes]
    generations: list[int] = []
    for worker, scene in zip(workers, scenes, strict=True):
        worker.begin()
        if scene.is_offset_first:
            worker.send_offset()
        else:
            worker.send_output()
        generations.append(worker.generation())
    _say(b"ready")
    sys.stdin.readline()
    for worker, scene, generation in zip(workers, scenes, generations, strict=True):
        outcome = wake_up(worker, scene)
        _say(msgspec.json.encode(msgspec.structs.replace(outcome, generation=generation)))
    for worker in workers:
        worker.close()


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
