"""The features of docs/permissions.md, each used with given permissions."""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from msgspec.structs import replace

from app.core.blocked.facts import OpenTransaction, Refused
from app.core.clusters.partition import Partition
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.log_look import Landmark, ReadBound
from app.core.journals.record_batch import RecordBatch
from app.core.pipelines.pipeline import ByField, FileSink
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.connections import resolve
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.edges.kafka.transactions.journals import (
    ask_coordinators,
    ask_group_coordinators,
    catch_up_groups,
    catch_up_transactions,
)
from app.edges.kafka.transactions.searching import KafkaSearch
from app.products.files.orphan_ports import OrphanOrder
from app.products.files.reference_topics import KafkaReferenceTopics
from app.products.files.service.collecting import FileOrphanCollectors
from tests.support.pipelines import TestPipeline
from tests.support.secured import Acl, SecuredKafka, executor
from tests.support.waiting import wait_for, wait_for_async

_TIMEOUT_S = 10.0


class Stage(NamedTuple):
    """A pipeline with something stored, and an open transaction in its sink and on its group, under `name`."""

    secured: SecuredKafka
    pipeline: TestPipeline
    name: str
    holder: Producer

    @property
    def sink(self) -> Partition:
        return Partition(self.pipeline.sink, 0)


class Visitor(NamedTuple):
    """One who uses a feature with what it was granted."""

    stage: Stage
    connection: Mapping[str, str]
    secrets: Mapping[str, str]
    folder: Path

    @property
    def resolved(self) -> dict[str, str]:
        return resolve(self.connection, environment=self.secrets, secrets_dir=None)

    @property
    def group(self) -> str:
        return self.stage.pipeline.definition.group_id


# Each returns the refusals, also those without an error; an empty text if all of it worked.
Feature = Callable[[Visitor], Awaitable[str]]


async def observe_by_journals(visitor: Visitor) -> str:
    transactions, groups = LiveTransactions(), LiveGroups()
    catch_up_transactions(transactions, visitor.resolved, timeout_s=_TIMEOUT_S)
    catch_up_groups(groups, visitor.resolved, timeout_s=_TIMEOUT_S, is_wanted=lambda _: True)
    assert visitor.stage.name in transactions.ids
    assert visitor.group in groups.groups
    return ""


async def observe_by_admin_calls(visitor: Visitor) -> str:
    known, refused = ask_coordinators(visitor.resolved, timeout_s=_TIMEOUT_S)
    told = ask_group_coordinators(visitor.resolved, timeout_s=_TIMEOUT_S, is_wanted=lambda _: True)
    assert (refused, told.missing) == ((), ())
    if visitor.stage.name not in known:
        return "the transactional id is left out"
    if visitor.group not in told.groups:
        return "the group is left out"
    if not known[visitor.stage.name].partitions or not told.groups[visitor.group].offsets:
        return "the topic is left out"
    return ""


async def check(visitor: Visitor) -> str:
    brokers = KafkaBrokers(environment=visitor.secrets, secrets_dir=None)
    definition = visitor.stage.pipeline.definition
    topics = (*definition.source_topics, definition.sink_topic)
    try:
        found = await brokers.facts(visitor.connection, topics=topics, groups=[visitor.group], timeout_s=_TIMEOUT_S)
    finally:
        await brokers.close()
    missing = [f"topic {topic}" for topic in topics if topic not in found.topics]
    missing += [f"settings of topic {name}" for name, it in found.topics.items() if it.min_insync_replicas is None]
    missing += [f"group {visitor.group}"] if visitor.group not in found.foreign_members else []
    missing += ["settings of the cluster"] if found.transaction_max_timeout_ms is None else []
    return ", ".join(missing)


async def move_offsets(visitor: Visitor) -> str:
    brokers = KafkaBrokers(environment=visitor.secrets, secrets_dir=None)
    at = Partition(visitor.stage.pipeline.source, 0)
    try:
        await brokers.alter_offsets(visitor.connection, visitor.group, {at: 0}, timeout_s=_TIMEOUT_S)
    finally:
        await brokers.close()
    return ""


async def explain(visitor: Visitor) -> str:
    transactions = KafkaTransactions(environment=visitor.secrets, secrets_dir=None)
    (facts,) = await transactions.look_at_partitions(visitor.connection, [visitor.stage.sink], timeout_s=_TIMEOUT_S)
    refused = [one for one in (facts.ends, facts.open) if isinstance(one, Refused)]
    if refused:
        return refused[0].sentence
    if not facts.coordinators.known:
        return "the transactional id is left out"
    group = await transactions.look_at_group(visitor.connection, visitor.group, timeout_s=_TIMEOUT_S)
    if not group.positions:
        return "the topic that the group reads is left out"
    return "" if group.pending_refused is None else group.pending_refused.sentence


async def read_log(visitor: Visitor) -> str:
    brokers = KafkaBrokers(environment=visitor.secrets, secrets_dir=None)
    try:
        look = await brokers.read_partition_log(visitor.connection, visitor.stage.sink, start=0, limit=9)
        bound = ReadBound(partitions=1, records=9, size_bytes=9, for_s=_TIMEOUT_S, before_end=9)
        logs = await brokers.read_partition_logs(visitor.connection, visitor.stage.sink.topic, Landmark.START, bound)
        refused = [one.sentence for one in logs.values() if isinstance(one, Refused)]
        if refused:
            return refused[0]
        producer_ids = {batch.producer_id for batch in look.batches if isinstance(batch, RecordBatch)}
        found = await brokers.read_transactional_ids(visitor.connection, producer_ids, timeout_s=_TIMEOUT_S)
    finally:
        await brokers.close()
    return "" if found.ids else "no transactional id is told"


async def sample_lag(visitor: Visitor) -> str:
    source = Partition(visitor.stage.pipeline.source, 0)
    brokers = KafkaSearch(environment=visitor.secrets, secrets_dir=None)
    with brokers.open_search(visitor.connection, timeout_s=_TIMEOUT_S) as connection:
        if source not in connection.all_partitions():
            return "the topic is left out"
        answer = connection.stable_ends([source])
        assert answer.ends.keys() == {source}, answer.silent
    transactions = KafkaTransactions(environment=visitor.secrets, secrets_dir=None)
    found = await transactions.stretches(visitor.connection, {source: (0, 1)}, timeout_s=_TIMEOUT_S)
    return "" if source in found else "whether lag of the topic is markers is not known"


async def describe_topics(visitor: Visitor) -> str:
    brokers = KafkaBrokers(environment=visitor.secrets, secrets_dir=None)
    try:
        listed = await brokers.list_topics(visitor.connection, timeout_s=_TIMEOUT_S)
        found = await brokers.live_topic(visitor.connection, visitor.stage.sink.topic, timeout_s=_TIMEOUT_S)
    finally:
        await brokers.close()
    if found is None or visitor.stage.sink.topic not in [one.name for one in listed]:
        return "the topic is left out"
    if found.description.settings is None:
        return "settings of the topic are left out"
    return found.description.size_note or "".join(one.sentence for one in found.refused)


async def read_references(visitor: Visitor) -> str:
    topics = KafkaReferenceTopics(environment=visitor.secrets, secrets_dir=None)
    with topics.open_topics(visitor.connection, timeout_s=_TIMEOUT_S) as connection:
        described = connection.describe(visitor.stage.sink.topic)
        found = connection.read(visitor.stage.sink.topic, {0: 0}, most_messages=9)
    return described.refusal or found.silent


async def look_for_orphans(visitor: Visitor) -> str:
    collectors = FileOrphanCollectors(environment=visitor.secrets, secrets_dir=None, allowed_roots=(), patience_s=0.0)
    definition = visitor.stage.pipeline.definition
    sink = FileSink(root=f"file://{visitor.folder}", partition_by=(ByField(name="user", field="user"),))
    order = OrphanOrder(
        pipeline="flights",
        created_at=datetime.now(UTC),
        definitions=(replace(definition, files=sink),),
        connections={definition.cluster: visitor.connection},
        kafka_cluster_ids={definition.cluster: visitor.stage.secured.kafka.cluster_id},
        confirmed=None,
    )
    job = collectors.begin(order)
    result = await wait_for_async(lambda: asyncio.sleep(0, job.result), 60, "the end of the look")
    assert result is not None
    if result.reason is None:
        # It names the open transaction, whose first record it has read for that.
        assert result.findings is not None
        assert [one.topic for one in result.findings.blocked] == [visitor.stage.sink.topic]
        assert result.findings.blocked[0].since is not None
    return result.reason or ""


async def fence(visitor: Visitor) -> str:
    transactions = KafkaTransactions(environment=visitor.secrets, secrets_dir=None)
    await transactions.fence(visitor.connection, "fl.nobody", timeout_s=_TIMEOUT_S)
    return ""


async def migrate(visitor: Visitor) -> str:
    transactions = KafkaTransactions(environment=visitor.secrets, secrets_dir=None)
    brokers = KafkaBrokers(environment=visitor.secrets, secrets_dir=None)
    ids = ("fl.nobody", visitor.stage.name)
    refused = await transactions.fences_refused(visitor.connection, ids, timeout_s=_TIMEOUT_S)
    if refused:
        assert refused.keys() == set(ids), "each of them is named"
        return refused["fl.nobody"].sentence
    try:
        await brokers.describe_group(visitor.connection, visitor.group, timeout_s=_TIMEOUT_S)
    finally:
        await brokers.close()
    return ""


async def end_dead(visitor: Visitor) -> str:
    transactions = KafkaTransactions(environment=visitor.secrets, secrets_dir=None)
    known = await transactions.describe_transaction(visitor.connection, "fl.nobody", timeout_s=_TIMEOUT_S)
    if isinstance(known, Refused):
        return known.sentence
    await transactions.end_transaction(
        visitor.connection, "fl.nobody", producer_id=0, producer_epoch=0, timeout_s=_TIMEOUT_S
    )
    await transactions.is_member(visitor.connection, visitor.group, "nobody", timeout_s=_TIMEOUT_S)
    await transactions.remove_member(visitor.connection, visitor.group, "nobody", timeout_s=_TIMEOUT_S)
    return ""


async def end(visitor: Visitor) -> str:
    transactions = KafkaTransactions(environment=visitor.secrets, secrets_dir=None)
    (facts,) = await transactions.look_at_partitions(visitor.connection, [visitor.stage.sink], timeout_s=_TIMEOUT_S)
    refused = [one for one in (facts.ends, facts.open) if isinstance(one, Refused)]
    if refused:
        return refused[0].sentence
    # Of a producer that has nothing there: who may write a marker is all that is asked.
    stranger = OpenTransaction(987_654_321, 0, -1, 0, 0, 0)
    await transactions.write_abort_marker(visitor.connection, visitor.stage.sink, stranger, timeout_s=_TIMEOUT_S)
    return ""


async def run_task(visitor: Visitor) -> str:
    pipeline = visitor.stage.pipeline
    folder = visitor.folder / str(time.monotonic_ns())
    worker = executor(pipeline, visitor.connection, visitor.secrets, folder)
    fed = len(pipeline.feed(1))

    def outcome() -> str | None:
        if words := re.findall(r"[^\"\n]*(?:authoriz|AUTHORIZ)[^\"\n]*", worker.said()):
            return words[0]
        return "" if worker.last().counters.records_in >= fed else None

    try:
        wait_for(lambda: outcome() is not None, 30, lambda: f"records or a refusal: {worker.said()[-2000:]}")
        said = outcome()
        assert said is not None
        if said == "":
            # It leaves the group at once; whoever is killed keeps the partition for a session.
            worker.drain()
        return said
    finally:
        worker.close()


FEATURES: dict[str, Feature] = {
    "A pipeline": run_task,
    "Checks": check,
    "Moving offsets": move_offsets,
    "Observing by the journals": observe_by_journals,
    "Observing by admin calls": observe_by_admin_calls,
    "Blocked consumers": explain,
    "Lag of groups": sample_lag,
    "Topics": describe_topics,
    "The log of a partition": read_log,
    "The files of a pipeline": read_references,
    "Orphans": look_for_orphans,
    "Fencing": fence,
    "Migrating": migrate,
    "Ending what dead tasks left": end_dead,
    "Ending a hanging transaction": end,
}

PERMISSIONS_PAGE = Path(__file__).parents[3] / "docs" / "permissions.md"
_OPERATIONS = {
    "Read": "READ",
    "Write": "WRITE",
    "Describe": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
    "Alter": "ALTER",
    "Create": "CREATE",
    "Delete": "DELETE",
}
_RESOURCES = {"--topic": "TOPIC", "--group": "GROUP", "--transactional-id": "TRANSACTIONAL_ID"}


def permissions_of_the_page(page: Path = PERMISSIONS_PAGE) -> dict[str, list[Acl]]:
    """By heading, what its lines grant."""
    found: dict[str, list[Acl]] = {}
    for part in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        found[heading] = [_acl(line) for line in text.splitlines() if line.startswith("--allow-principal")]
    return found


def _acl(line: str) -> Acl:
    words = shlex.split(line)
    operation = _OPERATIONS[words[words.index("--operation") + 1]]
    if "--cluster" in words:
        return Acl(operation, "BROKER", "kafka-cluster")
    (option,) = set(words) & set(_RESOURCES)
    is_prefixed = "prefixed" in words
    return Acl(operation, _RESOURCES[option], words[words.index(option) + 1] + ("*" if is_prefixed else ""))
