"""The permissions of docs/permissions.md are enough for each feature, and all of them are needed."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from app.core.clusters.partition import Partition
from app.edges.kafka.transactions.brokers import KafkaTransactions
from app.kit.errors import FencelineError
from app.products.conformance.checking.bench import BenchPlace
from app.products.conformance.checking.checks import CHECKS, results_of
from app.products.conformance.report import ConformanceVerdict
from tests.edges.kafka.permission_features import (
    FEATURES,
    PERMISSIONS_PAGE,
    Stage,
    Visitor,
    permissions_of_the_page,
)
from tests.support.kafka_clients import Writer
from tests.support.pipelines import TestPipeline
from tests.support.quiet import QUIET
from tests.support.secured import WAYS, Acl, secured_kafka
from tests.support.topics import unique_name
from tests.support.transactions import producer, send
from tests.support.waiting import wait_for, wait_for_async

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Generator[Stage]:
    with secured_kafka(tmp_path_factory.mktemp("certificates")) as secured:
        plain = {"bootstrap.servers": secured.kafka.bootstrap_servers}
        pipeline = TestPipeline.create(secured.kafka.bootstrap_servers, partitions=1)
        group, source = pipeline.definition.group_id, Partition(pipeline.source, 0)
        pipeline.feed(3)
        writer = Writer(plain)
        writer.begin(pipeline.sink, records=1)
        writer.send_offset(group, source, 1)
        writer.commit()
        name = "fl.holder"
        holder = producer({**plain, **QUIET}, name, **{"transaction.timeout.ms": "600000"})
        holder.begin_transaction()
        send(holder, pipeline.sink, "open")
        yield Stage(secured, pipeline, name, holder)


@pytest.mark.parametrize("part", FEATURES)
async def test_the_documented_permissions_are_enough_and_all_needed(part: str, stage: Stage, tmp_path: Path) -> None:
    feature, written = FEATURES[part], permissions_of_the_page()[part]
    definition = stage.pipeline.definition
    names = {"flights": stage.pipeline.source, "delayed": stage.pipeline.sink, "delayed-flights": definition.group_id}
    acls = [acl._replace(name=names.get(acl.name, acl.name)) for acl in written]
    user = stage.secured.add_user(f"user-{part.lower().replace(' ', '-')}")
    visitor = Visitor(stage, stage.secured.connection(WAYS[2], user), stage.secured.secrets_of(user), tmp_path)
    said: list[str] = []

    async def used() -> str:
        try:
            said.append(await feature(visitor))
        except FencelineError as error:
            said.append(error.message)
        return said[-1]

    # A permission is known to the broker a moment after it was granted.
    async def is_allowed() -> bool:
        return await used() == ""

    async def is_refused() -> bool:
        return await used() != ""

    stage.secured.grant(user, acls)
    await wait_for_async(is_allowed, 20, lambda: f"{part} with all that the page says: {said[-1:]}")
    for acl in acls:
        stage.secured.revoke(user, [acl])
        await wait_for_async(is_refused, 20, f"{part} refused without {acl}")
        told = said[-1].lower().replace("_", " ")
        kind = {"BROKER": "cluster", "TRANSACTIONAL_ID": "transactional"}.get(acl.resource, acl.resource.lower())
        assert kind in told, f"without {acl} it says only: {said[-1]}"
        assert user.password not in said[-1]
        stage.secured.grant(user, [acl])
        await wait_for_async(is_allowed, 20, lambda: f"{part} with all again: {said[-1:]}")


async def test_a_topic_without_permission_hides_no_records_of_others(stage: Stage, tmp_path: Path) -> None:
    source, sink = Partition(stage.pipeline.source, 0), stage.sink
    user = stage.secured.add_user("reads-the-source")
    stage.secured.grant(user, [Acl("READ", "TOPIC", source.topic), Acl("DESCRIBE", "TOPIC", sink.topic)])
    visitor = Visitor(stage, stage.secured.connection(WAYS[2], user), stage.secured.secrets_of(user), tmp_path)
    transactions = KafkaTransactions(environment=visitor.secrets, secrets_dir=None)

    async def seen() -> set[Partition]:
        spans = {source: (0, 1), sink: (0, 1)}
        return set(await transactions.stretches(visitor.connection, spans, timeout_s=10))

    async def is_seen() -> bool:
        return bool(await seen())

    # A permission is known to the broker a moment after it was granted.
    await wait_for_async(is_seen, 20, "records of the topic that the user may read")
    assert await seen() == {source}


def test_conformance_names_the_right_that_is_missing(stage: Stage, tmp_path: Path) -> None:
    """Nothing that could not be tried is kept; with all rights everything is, and nothing is left behind."""
    written = permissions_of_the_page(PERMISSIONS_PAGE.with_name("conformance.md"))["Permissions"]
    acls = [acl for acl in written if acl.resource != "BROKER"]
    assert len(acls) == 8
    by_name = {check.name: check for check in CHECKS}
    tried = [by_name[name] for name in ("offsets-with-outputs", "outlives-a-broker")]

    def said_to(visitor: Visitor) -> list[str]:
        place = BenchPlace(
            visitor.resolved,
            prefix=unique_name("fenceline-conformance"),
            replication_factor=1,
            brokers={},
            patience_s=5,
        )
        results = list(results_of(place, tried))
        place.close()
        not_checked = [one.said for one in results if one.verdict is ConformanceVerdict.NOT_CHECKED]
        return [*not_checked, *(f"left behind: {left}" for left in place.left_behind)]

    for number, missing in enumerate([None, *acls]):
        user = stage.secured.add_user(f"checker-{number}")
        stage.secured.grant(user, [acl for acl in acls if acl is not missing])
        visitor = Visitor(stage, stage.secured.connection(WAYS[2], user), stage.secured.secrets_of(user), tmp_path)
        expected = None if missing is None else _missing(missing)
        # Users and permissions are known to the broker a moment after they were made.
        last: list[list[str]] = []

        def is_told(visitor: Visitor = visitor, expected: str | None = expected, last: list[list[str]] = last) -> bool:
            last.append(said_to(visitor))
            return not last[-1] if expected is None else any(expected in line for line in last[-1])

        wait_for(is_told, 20, lambda last=last, expected=expected: f"{expected or 'nothing refused'}, said {last[-1]}")


def _missing(acl: Acl) -> str:
    if acl.operation == "DELETE":
        return f"left behind: {acl.resource.lower()} fenceline-conformance"
    operation = {"DESCRIBE_CONFIGS": "DescribeConfigs"}.get(acl.operation, acl.operation.title())
    resource = {"TRANSACTIONAL_ID": "transactional ids"}.get(acl.resource, f"{acl.resource.lower()}s")
    return f"permission {operation} on {resource} that begin with fenceline-conformance"
