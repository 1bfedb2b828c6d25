"""A living task that is taken for dead loses time, and no record: its group and its coordinator refuse its commits."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.blocked.brokers import FencedProducer
from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from app.core.runs.task import EventKind
from app.edges.kafka.transactions.brokers import KafkaTransactions
from tests.exactly_once.conftest import MakePipeline
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.waiting import wait_for_async

_DEADLINE_S = 30.0
_RECORDS_PER_S = 2_000
_TIMES = 2
_SESSION_MS = 6_000
BROKERS = KafkaTransactions(environment={}, secrets_dir=None)


def connection(pipeline: TestPipeline) -> dict[str, str]:
    return {"bootstrap.servers": pipeline.bootstrap_servers}


async def remove(pipeline: TestPipeline, task: TaskThread) -> str:
    """Remove the task's member, as its last heartbeat names it; returns its id."""
    removed: list[str] = []

    async def is_removed() -> bool:
        member_id = task.control.last.member_id
        if member_id is not None and await BROKERS.remove_member(
            connection(pipeline), pipeline.definition.group_id, member_id
        ):
            removed.append(member_id)
        return bool(removed)

    await wait_for_async(is_removed, _DEADLINE_S, lambda: f"a member to remove; {task.control.last}")
    return removed[0]


async def is_in_again(pipeline: TestPipeline, task: TaskThread, events: int) -> None:
    """The task has reported the loss of its partitions, owns some again, and has committed since."""
    committed = task.control.last.counters.records_in

    async def is_so() -> bool:
        last = task.control.last
        since = [one.kind for one in task.control.events[events:]]
        is_assigned = EventKind.LOST in since and EventKind.ASSIGNED in since[since.index(EventKind.LOST) :]
        return is_assigned and bool(last.partitions) and last.counters.records_in > committed

    await wait_for_async(
        is_so, _DEADLINE_S, lambda: f"the task to commit again; {task.control.events[events:]}; {task.control.last}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.EXACTLY_ONCE])
@pytest.mark.parametrize("protocol", GroupProtocol)
async def test_living_task_that_is_removed_from_its_group_loses_and_duplicates_nothing(
    make_pipeline: MakePipeline, protocol: GroupProtocol, guarantee: ProcessingGuarantee
) -> None:
    settings: dict[str, Any] = {"group_protocol": protocol, "processing_guarantee": guarantee}
    pipeline = make_pipeline(partitions=4, session_timeout_ms=_SESSION_MS, commit_interval_ms=200, **settings)
    feeder = Feeder(pipeline, records_per_s=_RECORDS_PER_S)
    with running(pipeline.specification()) as victim, running(pipeline.specification(task=1)) as other:
        for task in (victim, other):
            task.wait_for_partitions(2)
        feeder.start()
        try:
            for _ in range(_TIMES):
                victim.wait_until(lambda seen: bool(seen.partitions), "a partition")
                events = len(victim.control.events)
                await remove(pipeline, victim)
                await is_in_again(pipeline, victim, events)
        finally:
            feeder.stop()
        lost = [one.message for one in victim.control.events if one.kind is EventKind.LOST]
        assert len(lost) == _TIMES
        assert all(message.endswith("the group continued without this member") for message in lost), lost
        victim.drain()
        other.wait_until(lambda seen: seen.counters.records_in > 0 and len(seen.partitions) == 4, "all partitions")
        other.drain()
    pipeline.assert_whole()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", GroupProtocol)
async def test_living_task_that_is_removed_from_its_group_duplicates_outputs_without_transactions(
    make_pipeline: MakePipeline, protocol: GroupProtocol
) -> None:
    """The negative control: the removal hits open work, which at_least_once does again. Nothing is lost either way."""
    settings: dict[str, Any] = {
        "group_protocol": protocol,
        "processing_guarantee": ProcessingGuarantee.AT_LEAST_ONCE,
        "commit_interval_ms": 1_000,
    }
    pipeline = make_pipeline(partitions=4, session_timeout_ms=_SESSION_MS, **settings)
    feeder = Feeder(pipeline, records_per_s=_RECORDS_PER_S)
    with running(pipeline.specification()) as victim:
        victim.wait_for_partitions(4)
        feeder.start()
        try:
            for _ in range(_TIMES):
                victim.wait_until(lambda seen: bool(seen.partitions), "a partition")
                events = len(victim.control.events)
                await remove(pipeline, victim)
                await is_in_again(pipeline, victim, events)
        finally:
            feeder.stop()
        victim.drain()
    found = pipeline.audit()
    assert found.duplicated, str(found)
    assert not found.lost, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", GroupProtocol)
async def test_living_task_whose_transaction_is_ended_as_well_loses_and_duplicates_nothing(
    make_pipeline: MakePipeline, protocol: GroupProtocol
) -> None:
    """Both acts of a server, in their order (app/core/blocked/service/dead_tasks.py)."""
    pipeline = make_pipeline(
        partitions=4, session_timeout_ms=_SESSION_MS, commit_interval_ms=200, group_protocol=protocol
    )
    feeder = Feeder(pipeline, records_per_s=_RECORDS_PER_S)
    name = pipeline.transactional_id(0)
    with running(pipeline.specification()) as victim, running(pipeline.specification(task=1)) as other:
        for task in (victim, other):
            task.wait_for_partitions(2)
        victim.control.is_current = True
        feeder.start()
        try:
            victim.wait_for_records(100)
            events = len(victim.control.events)

            async def is_ended() -> bool:
                producer_id, epoch = victim.control.last.producer_id, victim.control.last.producer_epoch
                if producer_id is None or epoch is None:
                    return False
                ended = await BROKERS.end_transaction(
                    connection(pipeline), name, producer_id=producer_id, producer_epoch=epoch
                )
                return isinstance(ended, FencedProducer)

            await wait_for_async(is_ended, _DEADLINE_S, "an open transaction of the task")
            await remove(pipeline, victim)
            await is_in_again(pipeline, victim, events)
        finally:
            feeder.stop()
        victim.drain()
        other.wait_until(lambda seen: len(seen.partitions) == 4, "all partitions")
        other.drain()
    pipeline.assert_whole()
