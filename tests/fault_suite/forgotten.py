"""The group's offsets deleted while all members are away, a start that is refused, and the way out of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from app.core.clusters.partition import Partition
from app.core.runs.recorded_offset import RecordedOffset
from app.edges.kafka.admin import KafkaBrokers
from app.kit.errors import ConflictError, FencelineError, UnavailableError
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.quiet import QUIET
from tests.support.tasks import TaskProcess
from tests.support.waiting import wait_for

_WITHIN_S = 90.0


def recorded_of(workers: Iterable[TaskProcess]) -> tuple[RecordedOffset, ...]:
    """A server's record of them: the largest reported offset of each partition."""
    found: dict[tuple[str, int], RecordedOffset] = {}
    for worker in workers:
        for one in worker.last().confirmed:
            at = one.topic, one.partition
            if at not in found or one.offset >= found[at].offset:
                found[at] = one
    return tuple(found.values())


def committed_of(pipeline: TestPipeline) -> dict[tuple[str, int], int]:
    return dict(verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id))


def delete_offsets(pipeline: TestPipeline) -> None:
    """Delete the group once its last member is gone, as the expiry of its offsets would."""
    group = pipeline.definition.group_id
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap_servers, **QUIET})

    def is_deleted() -> bool:
        try:
            admin.delete_consumer_groups([group])[group].result(20)  # pyright: ignore[reportUnknownMemberType]
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                return False
        return not committed_of(pipeline)

    wait_for(is_deleted, _WITHIN_S, lambda: f"group {group} deleted; committed are {committed_of(pipeline)}")


def require_refusal(worker: TaskProcess) -> str:
    """Wait for the end of a task that was started without the offsets; why it has stopped."""
    wait_for(lambda: not worker.is_running, _WITHIN_S, lambda: f"a task that is refused ends: {worker.said()[-2000:]}")
    error = next((report.error for report in worker.reports() if report.error is not None), "")
    assert "has lost committed offsets" in error, f"a task began although the offsets are gone: {worker.said()[-2000:]}"
    return error


def resume(pipeline: TestPipeline, recorded: Iterable[RecordedOffset]) -> None:
    """As `fenceline runs offsets --to recorded` does, by the same client.

    A partition with a committed offset stays there: the refused task may have begun it where its record is the start.
    """
    connection, group = {"bootstrap.servers": pipeline.bootstrap_servers}, pipeline.definition.group_id
    committed = committed_of(pipeline)
    offsets = {
        Partition(one.topic, one.partition): one.offset
        for one in recorded
        if (one.topic, one.partition) not in committed
    }
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    refused: FencelineError | None = None

    def is_set() -> bool:
        nonlocal refused
        try:
            asyncio.run(brokers.alter_offsets(connection, group, offsets))
        except (ConflictError, UnavailableError) as error:
            refused = error
            return False
        return True

    wait_for(is_set, _WITHIN_S, lambda: f"{len(offsets)} recorded offsets set: {refused}")
