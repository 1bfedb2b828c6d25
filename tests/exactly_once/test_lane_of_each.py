"""`exactly_once`: a producer for each input partition, and who is fenced by what (rules 1 to 4)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from app.core.ids.transactional_id import for_partition
from app.core.journals.transaction_state import TransactionState
from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee
from app.core.wire.heartbeat import EventKind, TaskState
from app.core.wire.specification import MappedPartition
from app.edges.kafka.transaction_journal import read_transaction_journal
from tests.exactly_once.conftest import MakePipeline
from tests.fault_suite.freeze_points import FreezePoints, Point
from tests.mutations.seams import take_at_once
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskProcess, TaskThread, running
from tests.support.topics import add_partition
from tests.support.verifier import READ_COMMITTED, end_offsets
from workers.loop.client_config import transactional_producer_config
from workers.loop.control import TaskEnd
from workers.loop.errors import PipelineStopError, RetriableError
from workers.loop.lane_of_each import LaneOfEach
from workers.loop.producing.transactional_producer import TransactionalProducer

V1: dict[str, Any] = {"processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE}
GROUP_ONLY: dict[str, Any] = {**V1, "offset_fencing": OffsetFencing.GROUP_ONLY}
V2: dict[str, Any] = {"processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE_V2}
KINDS = [
    pytest.param({**V1, "group_protocol": GroupProtocol.CLASSIC}, id="generation-classic"),
    pytest.param({**V1, "group_protocol": GroupProtocol.CONSUMER}, id="generation-consumer"),
    pytest.param(GROUP_ONLY, id="group_only-classic"),
]
FROZEN: dict[str, Any] = {"transaction_timeout_ms": 60_000, "session_timeout_ms": 3_000}


def id_of(pipeline: TestPipeline, partition: int) -> str:
    return for_partition(prefix="fl", group=pipeline.definition.group_id, topic=pipeline.source, partition=partition)


def journal_of(pipeline: TestPipeline, transactional_id: str) -> list[TransactionState]:
    records = read_transaction_journal({"bootstrap.servers": pipeline.bootstrap_servers}, prefixes=(transactional_id,))
    return [
        record.state
        for record in records
        if record.transactional_id == transactional_id and isinstance(record.state, TransactionState)
    ]


@pytest.mark.core
@pytest.mark.parametrize("settings", KINDS)
@pytest.mark.usefixtures("uncontradicted_offsets")
def test_each_partition_has_its_own_id_through_rebalances(make_pipeline: MakePipeline, settings: Any) -> None:
    pipeline = make_pipeline(partitions=6, **settings)
    pipeline.feed(300)
    with running(pipeline.specification()) as first:
        first.wait_for_records(1_800)
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_partitions(3)
            first.wait_for_partitions(3)
            pipeline.feed(300)
            second.wait_for_records(900)
            assert second.drain().end is TaskEnd.DRAINED
        first.wait_for_partitions(6)
        pipeline.feed(300)
        first.wait_until(lambda seen: all(p.committed == 900 for p in seen.partitions), "everything committed")
        held = {seen.partition: seen for seen in first.control.last.partitions}
        assert first.drain().counters.fencings == 0
    pipeline.assert_whole()
    for partition, seen in held.items():
        assert seen.transactional_id == id_of(pipeline, partition)
        newest = journal_of(pipeline, id_of(pipeline, partition))[-1]
        assert (seen.producer_id, seen.producer_epoch) == (newest.producer_id, newest.producer_epoch)
    assert journal_of(pipeline, pipeline.transactional_id(0)) == []


@pytest.mark.parametrize("settings", KINDS)
@pytest.mark.usefixtures("uncontradicted_offsets")
def test_partitions_that_are_taken_while_records_come_are_committed_in_the_callback(
    make_pipeline: MakePipeline, settings: Any
) -> None:
    """Two others come and go under a steady feed; a checkpoint is open at nearly every moment."""
    pipeline = make_pipeline(partitions=6, commit_interval_ms=1_000, **settings)
    feeder = Feeder(pipeline, records_per_s=2_000)
    feeder.start()
    try:
        with running(pipeline.specification()) as first:
            first.wait_for_partitions(6)
            for task in (1, 2):
                with running(pipeline.specification(task=task)) as other:
                    other.wait_for_partitions(3)
                    first.wait_for_partitions(3)
                    first.wait_until(lambda seen: seen.open_transaction_age_ms is not None, "an open checkpoint")
                    assert other.drain().end is TaskEnd.DRAINED
                first.wait_for_partitions(6)
            feeder.stop()
            ends = end_offsets(pipeline.bootstrap_servers, pipeline.source, READ_COMMITTED)
            first.wait_until(lambda seen: {p.partition: p.committed for p in seen.partitions} == ends, "all committed")
            counters = first.drain().counters
    finally:
        feeder.stop()
    assert (counters.transactions_unknown, counters.fencings) == (0, 0)
    pipeline.assert_whole()


def test_inits_and_commits_of_many_partitions_are_made_together(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits until all four have been called: one after the other they would wait in vain."""
    pipeline = make_pipeline(partitions=4, commit_interval_ms=1_500, **V1)
    init, commit = TransactionalProducer.init, TransactionalProducer.commit
    inits, commits = threading.Barrier(4), threading.Barrier(4)

    def init_with_the_others(self: TransactionalProducer, timeout_s: float) -> None:
        inits.wait(20)
        init(self, timeout_s)

    def commit_with_the_others(self: TransactionalProducer, **more: Any) -> None:
        commits.wait(20)
        commit(self, **more)

    with monkeypatch.context() as patch:
        patch.setattr(TransactionalProducer, "init", init_with_the_others)
        with running(pipeline.specification()) as one:
            one.wait_for_partitions(4)
            # The first batches are preceded by notes, in transactions of their own.
            pipeline.feed(50)
            one.wait_for_records(200)
            patch.setattr(TransactionalProducer, "commit", commit_with_the_others)
            pipeline.feed(50)
            one.wait_for_records(400)
            patch.setattr(TransactionalProducer, "commit", commit)
            one.drain()
    assert not inits.broken
    assert not commits.broken
    pipeline.assert_whole()


def test_ids_of_mappings_go_before_the_formula(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=2, **V1)
    imported = f"{pipeline.definition.group_id}-0_1"
    mapping = MappedPartition(topic=pipeline.source, partition=1, transactional_id=imported)
    pipeline.feed(10)
    with running(pipeline.specification_with_mappings(mapping)) as task:
        task.wait_for_records(20)
        task.drain()
    assert journal_of(pipeline, imported)
    assert journal_of(pipeline, id_of(pipeline, 0))
    assert not journal_of(pipeline, id_of(pipeline, 1))
    pipeline.assert_whole()


def test_two_partitions_with_one_id_stop_the_pipeline(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=2, **V1)
    both = [MappedPartition(topic=pipeline.source, partition=number, transactional_id="app-0_0") for number in (0, 1)]
    task = TaskThread(pipeline.specification_with_mappings(*both)).start()
    error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"{pipeline.source}-0 and {pipeline.source}-1 have one transactional id, app-0_0" in str(error)


def test_task_without_partitions_runs(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1, **V1)
    with running(pipeline.specification()) as first:
        first.wait_for_partitions(1)
        with running(pipeline.specification(task=1)) as second:
            second.wait_until(lambda seen: seen.state is TaskState.RUNNING, "a running task")
            assert second.control.last.partitions == ()


def test_partition_that_is_added_gets_its_producer_without_a_restart(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1, consumer_overrides={"topic.metadata.refresh.interval.ms": "500"}, **V1)
    pipeline.feed(100)
    with running(pipeline.specification()) as task:
        task.wait_for_records(100)
        pipeline.partitions = add_partition(pipeline.bootstrap_servers, pipeline.source)
        pipeline.feed(100, partitions=[1])
        task.wait_for_records(200)
        task.drain()
    assert journal_of(pipeline, id_of(pipeline, 1))
    pipeline.assert_whole()


def test_every_incarnation_is_reported_however_short_it_was_held(make_pipeline: MakePipeline) -> None:
    """A second task comes and goes at once: the first one releases ids and inits them again."""
    pipeline = make_pipeline(partitions=4, **V1)
    told: set[tuple[str | None, int, int]] = set()
    with running(pipeline.specification()) as first:
        first.wait_for_partitions(4)
        for task in (1, 2):
            with running(pipeline.specification(task=task)) as other:
                other.wait_until(lambda seen: len(seen.partitions) > 0, "a partition")
                other.drain()
                recorder = other.control.recorder
                assert recorder is not None
                told |= {(init.transactional_id, init.producer_id, init.epoch) for init in recorder.inits()}
            first.wait_for_partitions(4)
        first.drain()
        recorder = first.control.recorder
        assert recorder is not None
        told |= {(init.transactional_id, init.producer_id, init.epoch) for init in recorder.inits()}
    for partition in range(4):
        name = id_of(pipeline, partition)
        in_journal = {(name, state.producer_id, state.producer_epoch) for state in journal_of(pipeline, name)}
        assert in_journal <= told


class Zombie:
    """A task in a process that is frozen when its 500 outputs are written and nothing of their offsets is sent."""

    def __init__(self, pipeline: TestPipeline, folder: Path, settings: Any) -> None:
        self._points = FreezePoints(folder / "freeze")
        pipeline.feed(10)
        self.process = TaskProcess(
            pipeline.specification(**FROZEN, **settings),
            folder / "zombie",
            environment=self._points.environment_of({**os.environ}),
        )
        self.process.wait_for_records(10)
        self._points.ask(Point.AFTER_OUTPUTS)
        pipeline.feed(500)
        self._pid = self._points.wait_until_frozen(Point.AFTER_OUTPUTS, 30)

    def thaw(self) -> None:
        """It continues where it was: it sends offsets before it polls again and learns of its loss."""
        self._points.thaw(self._pid)


MakeZombie = Callable[[TestPipeline, Any], Zombie]


@pytest.fixture
def make_zombie(tmp_path: Path) -> Generator[MakeZombie]:
    made: list[Zombie] = []

    def make(pipeline: TestPipeline, settings: Any) -> Zombie:
        made.append(Zombie(pipeline, tmp_path, settings))
        return made[-1]

    yield make
    for zombie in made:
        zombie.process.close()


@pytest.mark.parametrize(
    ("zombies", "takers", "duplicated"),
    [
        pytest.param(GROUP_ONLY, V2, 500, id="group_only-beside-v2-doubles"),
        pytest.param(GROUP_ONLY, GROUP_ONLY, 0, id="group_only-is-fenced-by-the-same-id"),
        pytest.param(V1, V2, 0, id="generation-beside-v2-is-refused"),
        pytest.param(V1, V1, 0, id="generation-is-fenced-by-the-same-id"),
    ],
)
def test_frozen_zombie(
    make_pipeline: MakePipeline, make_zombie: MakeZombie, zombies: Any, takers: Any, duplicated: int
) -> None:
    """Thawed when another task has had its partition and committed. The first case is the negative control. In the rest
    only the new owner's init on the same id, or the generation, prevents the zombie's commit."""
    pipeline = make_pipeline(partitions=1)
    zombie = make_zombie(pipeline, zombies)
    with running(pipeline.specification(task=1, **{**FROZEN, **takers})) as taker:
        taker.wait_for_records(500)
        zombie.thaw()
        zombie.process.wait_until(lambda: EventKind.LOST in zombie.process.kinds(), "the loss")
        assert zombie.process.drain().end is TaskEnd.DRAINED
        taker.drain()
    audit = pipeline.audit()
    assert (len(audit.lost), len(audit.duplicated)) == (0, duplicated), str(audit)


@pytest.mark.parametrize(("is_mutated", "duplicated"), [(False, 0), (True, 500)])
def test_init_comes_before_the_committed_offset_is_read(
    make_pipeline: MakePipeline,
    make_zombie: MakeZombie,
    monkeypatch: pytest.MonkeyPatch,
    is_mutated: bool,
    duplicated: int,
) -> None:
    """The zombie commits when its partition is assigned to another task whose init is still on its way."""
    pipeline = make_pipeline(partitions=1)
    zombie = make_zombie(pipeline, GROUP_ONLY)
    may_init = threading.Event()
    init: Callable[[TransactionalProducer, float], None] = TransactionalProducer.init

    def late(self: TransactionalProducer, timeout_s: float) -> None:
        if not may_init.wait(min(timeout_s, 0.2)):
            raise RetriableError("not yet")
        init(self, timeout_s)

    monkeypatch.setattr(TransactionalProducer, "init", late)
    if is_mutated:
        monkeypatch.setattr(LaneOfEach, "assigned", take_at_once)
    with running(pipeline.specification(task=1, **{**FROZEN, **GROUP_ONLY})) as taker:
        taker.wait_for_event(EventKind.ASSIGNED)
        # Its committed offset is read at once, without a signal.
        time.sleep(1.0)
        zombie.thaw()
        zombie.process.wait_for_records(510)
        may_init.set()
        pipeline.feed(100)
        taker.wait_for_records(100 + duplicated)
        zombie.process.drain()
        taker.drain()
    audit = pipeline.audit()
    assert (len(audit.lost), len(audit.duplicated)) == (0, duplicated), str(audit)


def test_fenced_lane_waits_for_the_group_while_the_others_go_on(make_pipeline: MakePipeline) -> None:
    """A client outside the group takes one partition's id: only that lane recovers, and the task continues."""
    pipeline = make_pipeline(partitions=2, **V1)
    with running(pipeline.specification()) as task:
        pipeline.feed(100)
        task.wait_for_records(200)
        stranger = TransactionalProducer(
            transactional_producer_config(pipeline.specification(), transactional_id=id_of(pipeline, 0))
        )
        stranger.init(10)
        pipeline.feed(100)
        task.wait_for_event(EventKind.FENCED)
        (fenced,) = [event for event in task.control.events if event.kind is EventKind.FENCED]
        assert fenced.partitions == (f"{pipeline.source}-0",)
        assert fenced.producer is not None
        assert fenced.producer.transactional_id == id_of(pipeline, 0)
        task.wait_until(
            lambda seen: any(p.partition == 1 and p.committed == 200 for p in seen.partitions),
            "the other partition's records",
        )
        task.wait_until(lambda seen: all(p.committed == 200 for p in seen.partitions), "the fenced partition's records")
        assert EventKind.REBUILT in task.control.kinds()
        task.drain()
        stranger.discard()
    pipeline.assert_whole()


def test_superseded_attempt_ends_as_such(make_pipeline: MakePipeline) -> None:
    """The server's no ends the attempt, for every lane that has asked."""
    pipeline = make_pipeline(partitions=2, **V1)
    with running(pipeline.specification()) as task:
        task.wait_for_partitions(2)
        task.control.is_current = False
        taker = TransactionalProducer(
            transactional_producer_config(pipeline.specification(), transactional_id=id_of(pipeline, 1))
        )
        taker.init(10)
        pipeline.feed(10)
        assert task.join().end is TaskEnd.SUPERSEDED
        taker.discard()
