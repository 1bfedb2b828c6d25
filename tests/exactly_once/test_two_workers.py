"""The need for a producer for each partition, or for a generation with offsets: a worker freezes, and loses its
partition.

Without the loop: two workers of confluent-kafka alone (tests/support/two_workers.py). The first one stops in the middle
of its transaction. The second one gets the partition, processes the record and commits; then the first one continues.
The first two scenes differ in the transactional id, the others in the metadata.
"""

# confluent_kafka.admin exports these without saying so.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from app.core.fencing.cases import case_of_word, generations_of
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import ClientWord
from app.core.fencing.fencing_event import Confidence, FencingCause, FencingEvent
from app.core.journals import group_records
from app.core.journals.group_fold import LiveGroups
from app.core.journals.log_entries import LogEntry
from app.core.runs.task import EventKind
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from app.products.partition_log.service import look_into_log
from tests.support import verifier
from tests.support.journal_events import causes_of, ids_of
from tests.support.kafka_clients import Protocol, write
from tests.support.topics import create_topic, delete_topics, unique_name
from tests.support.two_workers import SESSION_S, Outcome, Scene, Worker

pytestmark = [pytest.mark.slow]

_WITHIN_S = 60.0


class Played(NamedTuple):
    """The results of the scenes: the errors of the first worker, and the content of the sink."""

    bootstrap_servers: str
    scenes: dict[str, Scene]
    outcomes: dict[str, Outcome]

    @property
    def connection(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap_servers}

    def outputs(self, scene: str) -> list[str]:
        found = verifier.read_all(self.bootstrap_servers, self.scenes[scene].sink)
        return [(record.value or b"").decode() for record in found]

    def causes(self, scene: str) -> list[list[FencingCause]]:
        """The causes of the fencing events of each id, in the order of the workers."""
        journal = ids_of(self.bootstrap_servers)
        return [causes_of(journal[name]) for name in dict.fromkeys(self.scenes[scene].ids)]

    async def log(self, scene: str) -> list[tuple[str, int | None, str | None]]:
        """The sink's batches: state or marker, epoch, transactional id."""
        brokers = KafkaBrokers(environment={}, secrets_dir=None)
        try:
            found = await look_into_log(
                brokers,
                self.connection,
                ask_ids=lambda wanted: brokers.read_transactional_ids(self.connection, wanted, timeout_s=_WITHIN_S),
                topic=self.scenes[scene].sink,
                partition=0,
                start=0,
                limit=100,
                keys=False,
                values=False,
                timeout_s=_WITHIN_S,
            )
        finally:
            await brokers.close()
        return [_told(entry) for entry in found.entries]

    def refused_membership(self, scene: str) -> FencingEvent:
        """The event of the first worker's refusal, made from a task's report, joined with the group's journal."""
        live, group = LiveGroups(), self.scenes[scene].group
        for partition, batch in read_logs(
            self.connection, ConnectionAttempt(self.bootstrap_servers, 30), group_records.TOPIC
        ):
            live.apply(partition, batch)
        outcome, journal = self.outcomes[scene], ids_of(self.bootstrap_servers)
        transactional_id = self.scenes[scene].ids[0]
        word = ClientWord(
            event_id="event",
            kind=EventKind.ABORTED,
            at_ms=0,
            message="offsets refused",
            run_id="run",
            ordinal=0,
            lease=1,
            task=0,
            attempt=0,
            group=group,
            error=outcome.error,
            generation=outcome.generation,
        )
        case = case_of_word(
            word,
            kafka_cluster_id="cluster",
            transactional_id=transactional_id,
            producer_id=journal[transactional_id].state.producer_id,
            producer_epoch=journal[transactional_id].state.producer_epoch,
            generations=generations_of(live.groups[group]),
        )
        assert case is not None
        event = judge_case(case)
        assert event is not None
        return event


def _told(entry: LogEntry) -> tuple[str, int | None, str | None]:
    return entry.marker or entry.state.value, entry.producer_epoch, entry.transactional_id


def scenes_of(protocol: Protocol) -> list[Scene]:
    def scene(name: str, *, is_own_id: bool, has_generation: bool, is_offset_first: bool) -> Scene:
        topic = unique_name(name)
        second = "0" if is_own_id else "1"
        return Scene(
            name=name,
            source=f"{topic}-in",
            sink=f"{topic}-out",
            group=topic,
            protocol=protocol,
            ids=(f"{topic}-0", f"{topic}-{second}"),
            has_generation=has_generation,
            is_offset_first=is_offset_first,
            # Such a consumer does not wait for a pending offset, like all clients before KIP-447.
            isolation="read_uncommitted" if is_offset_first else "read_committed",
        )

    return [
        scene("different-ids", is_own_id=False, has_generation=False, is_offset_first=True),
        scene("own-id", is_own_id=True, has_generation=False, is_offset_first=True),
        scene("generation", is_own_id=False, has_generation=True, is_offset_first=False),
        scene("group-only", is_own_id=False, has_generation=False, is_offset_first=False),
    ]


@pytest.fixture(scope="module", params=["classic", "consumer"])
def played(request: pytest.FixtureRequest, kafka: KafkaCluster) -> Generator[Played]:
    """All scenes at once: one process is frozen, and one session timeout is waited for."""
    servers = kafka.bootstrap_servers
    scenes = scenes_of(request.param)
    for scene in scenes:
        create_topic(servers, scene.source)
        create_topic(servers, scene.sink)
        write({"bootstrap.servers": servers}, scene.source, records=1)
        if scene.protocol == "consumer":
            shorten_session(servers, scene.group)
    first = subprocess.Popen(
        [sys.executable, "-m", "tests.support.two_workers", servers], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(msgspec.json.encode(scenes) + b"\n")
        first.stdin.flush()
        assert first.stdout.readline() == b"ready\n"
        os.kill(first.pid, signal.SIGSTOP)
        with ThreadPoolExecutor(len(scenes)) as threads:
            list(threads.map(process_as_the_second, [servers] * len(scenes), scenes))
        os.kill(first.pid, signal.SIGCONT)
        said, _ = first.communicate(b"go\n", timeout=_WITHIN_S)
        outcomes = [msgspec.json.decode(line, type=Outcome) for line in said.splitlines()]
        assert first.returncode == 0
    finally:
        first.kill()
        first.wait()
    yield Played(servers, {one.name: one for one in scenes}, {one.scene: one for one in outcomes})
    delete_topics(servers, [topic for scene in scenes for topic in (scene.source, scene.sink)])


def shorten_session(bootstrap_servers: str, group: str) -> None:
    """In groups of KIP-848 the broker says it, for each group."""
    setting = ConfigEntry(
        "consumer.session.timeout.ms", str(SESSION_S * 1000), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[setting])
    admin: Any = AdminClient({"bootstrap.servers": bootstrap_servers})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(_WITHIN_S)


def process_as_the_second(bootstrap_servers: str, scene: Scene) -> None:
    worker = Worker(bootstrap_servers, scene, scene.ids[1])
    try:
        worker.begin()
        worker.send_offset()
        worker.send_output()
        worker.commit()
    finally:
        worker.close()


async def test_with_different_ids_the_record_is_processed_twice(played: Played) -> None:
    """The negative control: no producer is fenced, and the log shows no marker but the two commits."""
    first, second = played.scenes["different-ids"].ids
    assert played.outcomes["different-ids"].error is None
    assert played.outputs("different-ids") == [f"by {second}", f"by {first}"]
    assert await played.log("different-ids") == [
        ("committed", 0, second),
        ("COMMIT", 0, second),
        ("committed", 0, first),
        ("COMMIT", 0, first),
    ]
    assert played.causes("different-ids") == [[], []]


async def test_with_the_partitions_own_id_the_first_worker_is_fenced(played: Played) -> None:
    (shared, _) = played.scenes["own-id"].ids
    outcome = played.outcomes["own-id"]
    assert (outcome.error, outcome.is_fatal) == ("_FENCED", True)
    assert played.outputs("own-id") == [f"by {shared}"]
    # Its transaction was aborted at epoch 1, where its offset lay; what it sent afterwards was not taken.
    assert await played.log("own-id") == [("committed", 2, shared), ("COMMIT", 2, shared)]
    assert played.causes("own-id") == [[FencingCause.TAKEOVER]]


async def test_with_generations_the_first_workers_offsets_are_refused(played: Played) -> None:
    scene, outcome = played.scenes["generation"], played.outcomes["generation"]
    first, second = scene.ids
    assert not outcome.is_fatal
    assert played.outputs("generation") == [f"by {second}"]
    # It wrote before it froze; that it was refused is its own reason to abort, at its own epoch.
    assert await played.log("generation") == [
        ("aborted", 0, first),
        ("committed", 0, second),
        ("COMMIT", 0, second),
        ("ABORT", 0, first),
    ]
    assert played.causes("generation") == [[], []]
    event = played.refused_membership("generation")
    cause = FencingCause.STALE_GENERATION if scene.protocol == "classic" else FencingCause.STALE_MEMBER_EPOCH
    assert (event.verdict.cause, event.verdict.confidence) == (cause, Confidence.CERTAIN)


def test_without_generations_the_same_offsets_are_taken(played: Played) -> None:
    """The negative control: group metadata that names the group alone."""
    first, second = played.scenes["group-only"].ids
    assert played.outcomes["group-only"].error is None
    assert sorted(played.outputs("group-only")) == [f"by {first}", f"by {second}"]
