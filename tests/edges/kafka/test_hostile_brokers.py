"""Answers that no honest broker gives: the process lives, in bounded time and memory, and the error is one of ours.

The answers of a real broker are recorded, one of them is damaged, and all of them are given to the same question again.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

import psutil
import pytest

from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.observing.live_cluster import JOURNALS
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.journal_tail import KafkaJournals
from app.edges.kafka.raw_connections import LARGEST_ANSWER_BYTES
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.kafka.transactions.searching import KafkaSearch
from app.kit.errors import FencelineError, UnavailableError
from app.products.files.reference_topics import KafkaReferenceTopics
from tests.conftest import MakeTopic
from tests.support.hostile_broker import (
    API_VERSIONS,
    METADATA,
    Answer,
    Recorded,
    damaged,
    hang_up,
    metadata,
    moved,
    recording,
    serving,
    versions,
)
from tests.support.kafka_clients import Members, Writer
from tests.support.topics import unique_name

_TIMEOUT_S = 0.4
# What explains a failure has a moment more, and so has a busy machine.
_BOUND_S = 8.0
_DAMAGES = 12

_ASK = """
import asyncio, sys
from app.kit.errors import FencelineError
from app.edges.kafka.admin import KafkaBrokers

async def main():
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    try:
        print(await brokers.describe_cluster({"bootstrap.servers": sys.argv[1]}, timeout_s=3))
    except FencelineError as error:
        print(error.message)
    await brokers.close()

asyncio.run(main())
"""


def _old(version: int, cluster_id: str | None) -> Callable[[int], Answer]:
    """A broker that knows ApiVersions 0 and Metadata up to `version`, and advertises itself."""

    def at(port: int) -> Answer:
        def answer(number: int, asked_in: int, _: bytes) -> bytes | None:
            if number == API_VERSIONS:
                return versions({API_VERSIONS: (0, 0), METADATA: (0, version)}, asked_in)
            return metadata(port, asked_in, cluster_id=cluster_id) if number == METADATA else None

        return answer

    return at


@pytest.mark.parametrize(("version", "cluster_id"), [(1, None), (2, None), (2, "rogue")])
def test_metadata_without_a_cluster_id_ends_no_process(version: int, cluster_id: str | None) -> None:
    """librdkafka's describe_cluster dereferences the id that is not there (SIGSEGV): a process of its own shows it."""
    with serving(hang_up) as broker:
        broker.answer = _old(version, cluster_id)(broker.port)
        done = subprocess.run(
            [sys.executable, "-c", _ASK, broker.address], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert ("rogue" if cluster_id else "do not say which cluster they are") in done.stdout


class Place(NamedTuple):
    """The subject of a question."""

    connection: Connection
    topic: str
    group: str

    @property
    def partition(self) -> Partition:
        return Partition(self.topic, 0)


Question = Callable[[Place], Awaitable[object]]


async def _by_brokers(ask: Callable[[KafkaBrokers], Awaitable[object]]) -> object:
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    try:
        return await ask(brokers)
    finally:
        await brokers.close()


async def _tail(connection: Connection) -> None:
    def follow() -> None:
        journals = KafkaJournals(environment={}, secrets_dir=None, topics=JOURNALS)
        with journals.open(connection, timeout_s=_TIMEOUT_S) as tail:
            for topic in JOURNALS:
                for number in sorted(tail.look_up(topic).partitions)[:3]:
                    tail.follow(topic, number, 0)
            tail.poll(timeout_s=_TIMEOUT_S)
            tail.ask_coordinators(is_only_open=False)
            tail.ask_group_coordinators(is_wanted=lambda _: True)

    await asyncio.to_thread(follow)


async def _search(connection: Connection) -> None:
    def search() -> None:
        with KafkaSearch(environment={}, secrets_dir=None).open_search(connection, timeout_s=_TIMEOUT_S) as asking:
            asking.stable_ends(asking.all_partitions())

    await asyncio.to_thread(search)


async def _references(connection: Connection, topic: str) -> None:
    def read() -> None:
        topics = KafkaReferenceTopics(environment={}, secrets_dir=None)
        with topics.open_topics(connection, timeout_s=_TIMEOUT_S) as asking:
            asking.describe(topic)
            asking.read(topic, {0: 0}, most_messages=100)

    await asyncio.to_thread(read)


def _transactions() -> KafkaTransactions:
    return KafkaTransactions(environment={}, secrets_dir=None)


QUESTIONS: dict[str, Question] = {
    "describe_cluster": lambda at: _by_brokers(lambda b: b.describe_cluster(at.connection, timeout_s=_TIMEOUT_S)),
    "survey": lambda at: _by_brokers(lambda b: b.survey(at.connection, timeout_s=_TIMEOUT_S)),
    "facts": lambda at: _by_brokers(
        lambda b: b.facts(at.connection, topics=[at.topic], groups=[at.group], timeout_s=_TIMEOUT_S)
    ),
    "topics": lambda at: _by_brokers(lambda b: b.topics(at.connection, timeout_s=_TIMEOUT_S)),
    "committed": lambda at: _by_brokers(lambda b: b.committed_offsets(at.connection, at.group, timeout_s=_TIMEOUT_S)),
    "offsets": lambda at: _by_brokers(lambda b: b.offsets(at.connection, [at.partition], timeout_s=_TIMEOUT_S)),
    "log": lambda at: _by_brokers(
        lambda b: b.read_partition_log(at.connection, at.partition, start=0, limit=50, timeout_s=_TIMEOUT_S)
    ),
    "ids": lambda at: _by_brokers(lambda b: b.read_transactional_ids(at.connection, [0, 1], timeout_s=_TIMEOUT_S)),
    "stuck": lambda at: _transactions().look_at_partitions(at.connection, [at.partition], timeout_s=_TIMEOUT_S),
    "stuck-group": lambda at: _transactions().look_at_group(at.connection, at.group, timeout_s=_TIMEOUT_S),
    "tail": lambda at: _tail(at.connection),
    "search": lambda at: _search(at.connection),
    "references": lambda at: _references(at.connection, at.topic),
}


@pytest.mark.parametrize("question", QUESTIONS)
async def test_damaged_answers_are_fenceline_errors(
    question: str, kafka: KafkaCluster, make_topic: MakeTopic, connection: Connection, members: Members, writer: Writer
) -> None:
    topic, group = make_topic(), unique_name("g")
    members.join(group, topic, protocol="classic", client_id="c")
    writer.begin(topic, records=3)
    try:
        recorded = await _recorded(question, kafka, topic, group)
    finally:
        writer.commit()
    assert len(recorded.answers) > 1, "nothing was recorded"
    before = psutil.Process().memory_info().rss
    outcomes: list[str] = []
    for seed in range(_DAMAGES):
        began = time.monotonic()
        try:
            await _asked_again(question, recorded, topic, group, random.Random(f"{question} {seed}"))
            outcomes.append("answered")
        except FencelineError as error:
            outcomes.append(error.message)
        assert time.monotonic() - began < _BOUND_S, (seed, outcomes[-1])
    # Among so many some are harmful: unnoticed damage would show nothing.
    assert any(outcome != "answered" for outcome in outcomes) or question in ("tail", "search"), outcomes
    assert psutil.Process().memory_info().rss - before < 400 << 20


async def _recorded(question: str, kafka: KafkaCluster, topic: str, group: str) -> Recorded:
    host, _, port = kafka.bootstrap_servers.partition(":")
    with recording(host, int(port)) as (address, found):
        try:
            await QUESTIONS[question](Place({"bootstrap.servers": address}, topic, group))
        except UnavailableError:
            # A busy machine: what was answered until then is damaged all the same.
            assert found().answers
        return found()


async def _asked_again(question: str, recorded: Recorded, topic: str, group: str, draw: random.Random) -> None:
    harmed = draw.choice(sorted(recorded.answers))
    # Also of ApiVersions and Metadata only some answers, so that the questions behind them are reached.
    share = draw.choice((0.3, 1.0))
    with serving(hang_up) as broker:

        def answer(number: int, version: int, _: bytes) -> bytes | None:
            known = recorded.answers.get((number, version))
            if known is None:
                return None
            whole = moved(draw.choice(known), recorded.port, broker.port)
            return damaged(whole, draw) if (number, version) == harmed and draw.random() < share else whole

        broker.answer = answer
        await QUESTIONS[question](Place({"bootstrap.servers": broker.address}, topic, group))


@contextmanager
def _flooding(first: bytes) -> Generator[str]:
    """The address of a listener that answers with these bytes, and zeros for as long as somebody reads them."""

    def flood(connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            connection.recv(4096)
            connection.sendall(first)
            while True:
                connection.sendall(bytes(1 << 20))

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=flood, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def test_flood_without_an_end_and_an_answer_of_two_gigabytes_fill_no_memory() -> None:
    """A length that is too long is refused before its bytes are waited for, and a flood is read in portions."""
    before = psutil.Process().memory_info().rss
    for flood in (struct.pack(">i", 2**31 - 1), struct.pack(">i", LARGEST_ANSWER_BYTES + 1), struct.pack(">i", -5)):
        with _flooding(flood) as address:
            brokers = KafkaBrokers(environment={}, secrets_dir=None)
            began = time.monotonic()
            with pytest.raises(UnavailableError):
                await brokers.describe_cluster({"bootstrap.servers": address}, timeout_s=1)
            await brokers.close()
            assert time.monotonic() - began < _BOUND_S
    assert psutil.Process().memory_info().rss - before < 200 << 20


async def test_largest_answer_of_smallest_structures_fits_into_memory() -> None:
    """Millions of brokers of twelve bytes each, in one answer that is as long as one may be."""
    with serving(hang_up) as broker:
        honest = _old(1, None)(broker.port)
        count = (LARGEST_ANSWER_BYTES - 100) // 12
        many = struct.pack(">ii", 0, count) + (struct.pack(">ihih", 1, 0, 1, -1)) * count + struct.pack(">ii", 7, 0)

        def answer(number: int, version: int, request: bytes) -> bytes | None:
            return many if number == METADATA else honest(number, version, request)

        broker.answer = answer
        before = psutil.Process().memory_info().rss
        brokers = KafkaBrokers(environment={}, secrets_dir=None)
        with pytest.raises(UnavailableError):
            await brokers.describe_cluster({"bootstrap.servers": broker.address}, timeout_s=1)
        await brokers.close()
    grown = psutil.Process().memory_info().rss - before
    assert grown < 1 << 30, grown
