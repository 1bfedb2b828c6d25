"""A task's report of itself equals the answers of the brokers and of an independent consumer."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.core.wire.heartbeat import TaskState
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.tasks import running

EACH = 300


@pytest.mark.parametrize("protocol", list(GroupProtocol))
@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE])
def test_figures_of_a_task_are_those_of_its_topics_and_its_group(
    make_pipeline: MakePipeline, protocol: GroupProtocol, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(partitions=2, group_protocol=protocol, processing_guarantee=guarantee)
    pipeline.feed(EACH)
    fed = verifier.read_all(pipeline.bootstrap_servers, pipeline.source)
    size_bytes = sum(len(record.value or b"") for record in fed)
    with running(pipeline.specification()) as task:
        task.wait_until(
            lambda seen: [(p.position, p.committed, p.end) for p in seen.partitions] == [(EACH, EACH, EACH)] * 2,
            "both partitions read and committed to their ends",
        )
        task.wait_until(lambda seen: seen.open_transaction_age_ms is None, "nothing open any more")
        seen = task.control.last
        [member] = members(pipeline.bootstrap_servers, pipeline.definition.group_id)
        task.drain()
    # A task that has left owns nothing, and reports that; its counts stay.
    left = task.control.last
    assert (left.state, left.partitions, left.member_id) == (TaskState.DRAINED, (), None)
    assert left.counters.records_in == len(fed)
    assert seen.state is TaskState.RUNNING
    assert seen.member_id == member
    assert (seen.generation or 0) > 0
    done = seen.counters
    assert (done.records_in, done.records_out) == (len(fed), len(fed)) == (2 * EACH, 2 * EACH)
    assert (done.bytes_in, done.bytes_out) == (size_bytes, size_bytes)
    assert done.transactions_committed > 0
    assert (done.transactions_aborted, done.transactions_unknown, done.fencings) == (0, 0, 0)
    assert seen.commit_latency_p50_ms is not None
    assert seen.commit_latency_p99_ms is not None
    assert 0 < seen.commit_latency_p50_ms <= seen.commit_latency_p99_ms
    assert seen.last_error is None


def members(bootstrap_servers: str, group: str) -> list[str]:
    admin: Any = AdminClient({"bootstrap.servers": bootstrap_servers})
    return [member.member_id for member in admin.describe_consumer_groups([group])[group].result(20).members]
