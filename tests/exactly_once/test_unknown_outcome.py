"""Rule 6: a commit is asked for in slices; past its bound its outcome is unknown, and only a new init decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Producer

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import GroupProtocol
from app.core.wire.heartbeat import EventKind, TaskState
from app.edges.embedded.kafka import KafkaCluster
from tests.exactly_once.conftest import MakePipeline
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from workers.loop.client_config import transactional_producer_config
from workers.loop.errors import OutcomeUnknownError, RetriableError
from workers.loop.group.membership import CommittedPosition, Membership
from workers.loop.producing import transactional_producer
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.slices import CallPatience, CommitBounds

Commit = Callable[..., None]
real_commit: Commit = TransactionalProducer.commit


def prime(pipeline: TestPipeline, task: TaskThread) -> None:
    """Let the task commit once, so that what follows is an ordinary checkpoint."""
    pipeline.feed(10)
    task.wait_for_records(10 * pipeline.partitions)


def finish(pipeline: TestPipeline, task: TaskThread) -> None:
    end = len(pipeline.fed) // 2
    task.wait_until(lambda seen: all(p.committed == end for p in seen.partitions), f"{end} committed everywhere")
    task.drain()


def test_commit_to_a_paused_broker_is_repeated_until_it_is_answered(
    kafka: KafkaCluster, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline()
    slices: list[str] = []

    def commit_to_paused_broker(
        self: TransactionalProducer, *, patience: CallPatience, confirmed: Callable[[], None]
    ) -> None:
        if slices:
            return real_commit(self, patience=patience, confirmed=confirmed)
        slices.append("first")
        kafka.broker(1).pause()

        def between() -> None:
            slices.append("again")
            if len(slices) == 3:
                kafka.broker(1).resume()

        try:
            return real_commit(self, patience=CallPatience(patience.bound_s, between), confirmed=confirmed)
        finally:
            kafka.broker(1).resume()

    with running(pipeline.specification()) as task:
        prime(pipeline, task)
        monkeypatch.setattr(TransactionalProducer, "commit", commit_to_paused_broker)
        pipeline.feed(300)
        finish(pipeline, task)
    counters = task.control.last.counters
    assert len(slices) >= 3
    assert (counters.transactions_unknown, counters.transactions_aborted) == (0, 0)
    pipeline.assert_whole()


def test_commit_that_a_paused_broker_does_not_answer_in_time_is_unknown_and_then_decided(
    kafka: KafkaCluster, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline()
    paused: list[bool] = []

    def commit_to_paused_broker(
        self: TransactionalProducer, *, patience: CallPatience, confirmed: Callable[[], None]
    ) -> None:
        if paused:
            return real_commit(self, patience=patience, confirmed=confirmed)
        paused.append(True)
        kafka.broker(1).pause()
        return real_commit(self, patience=CallPatience(1.5, patience.between), confirmed=confirmed)

    with running(pipeline.specification()) as task:
        prime(pipeline, task)
        monkeypatch.setattr(TransactionalProducer, "commit", commit_to_paused_broker)
        try:
            pipeline.feed(300)
            task.wait_for_event(EventKind.OUTCOME_UNKNOWN)
            # It does not say that it is running while it can do nothing.
            task.wait_until(lambda seen: seen.state is TaskState.BACKING_OFF, "it to say so")
        finally:
            kafka.broker(1).resume()
        task.wait_until(lambda seen: seen.state is TaskState.RUNNING, "it to run again")
        finish(pipeline, task)
    assert task.control.last.counters.transactions_unknown == 1
    pipeline.assert_whole()


def lose_one_answer(*, arrives: bool) -> Commit:
    """A commit whose answer is lost once, after it arrived at the broker or before."""
    lost: list[bool] = []

    def commit(self: TransactionalProducer, *, patience: CallPatience, confirmed: Callable[[], None]) -> None:
        if lost:
            return real_commit(self, patience=patience, confirmed=confirmed)
        lost.append(True)
        if arrives:
            # The answer is lost, also for the counter of confirmed records.
            real_commit(self, patience=patience, confirmed=lambda: None)
        raise OutcomeUnknownError("the answer was lost, for the test")

    return commit


@pytest.mark.core
@pytest.mark.parametrize("arrives", [True, False], ids=["commit arrived", "commit did not arrive"])
def test_lost_answer_neither_loses_nor_duplicates(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    pipeline = make_pipeline()
    with running(pipeline.specification()) as task:
        prime(pipeline, task)
        monkeypatch.setattr(TransactionalProducer, "commit", lose_one_answer(arrives=arrives))
        pipeline.feed(300)
        finish(pipeline, task)
    assert task.control.last.counters.transactions_unknown == 1
    pipeline.assert_whole()


def test_fence_that_answers_a_commit_leaves_its_outcome_unknown(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit has arrived, its answer is lost, another client takes the id: the client's repetition is fenced."""
    pipeline = make_pipeline()
    lost: list[bool] = []

    class LosesOneAnswer(Producer):
        def commit_transaction(self, timeout: float = -1) -> None:
            super().commit_transaction(timeout)
            if pipeline.fed[20:] and not lost:
                lost.append(True)
                taker = TransactionalProducer(transactional_producer_config(pipeline.specification(attempt=9)))
                taker.init(20)
                taker.discard()
                super().begin_transaction()
                super().produce(pipeline.sink, b"refused")
                super().commit_transaction(timeout)
                raise AssertionError("the fence was not met")

    monkeypatch.setattr(transactional_producer, "Producer", LosesOneAnswer)
    with running(pipeline.specification()) as task:
        task.control.is_current = True
        prime(pipeline, task)
        pipeline.feed(300)
        finish(pipeline, task)
    counters = task.control.last.counters
    assert (counters.fencings, counters.transactions_unknown, counters.transactions_aborted) == (1, 1, 0)
    pipeline.assert_whole()


def test_unknown_outcome_taken_for_an_abort_duplicates(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: going back to where the checkpoint began instead of asking what is committed."""

    def asks_nobody(
        _self: Membership, partitions: Iterable[Partition], *, timeout_s: float
    ) -> dict[Partition, CommittedPosition]:
        return {partition: CommittedPosition(10, "") for partition in partitions}

    pipeline = make_pipeline()
    with running(pipeline.specification()) as task:
        prime(pipeline, task)
        monkeypatch.setattr(Membership, "committed", asks_nobody)
        monkeypatch.setattr(TransactionalProducer, "commit", lose_one_answer(arrives=True))
        pipeline.feed(300)
        task.wait_for_event(EventKind.OUTCOME_UNKNOWN)
        finish(pipeline, task)
    audit = pipeline.audit()
    assert audit.duplicated
    assert not audit.lost


def test_revoke_callback_returns_at_its_bound_and_the_outcome_is_decided_outside(
    kafka: KafkaCluster, make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline()
    in_callback: list[bool] = []

    def commit_to_paused_broker(
        self: TransactionalProducer, *, patience: CallPatience, confirmed: Callable[[], None]
    ) -> None:
        if patience.bound_s <= 1.0 and not in_callback:
            in_callback.append(True)
            kafka.broker(1).pause()
        real_commit(self, patience=patience, confirmed=confirmed)

    def one_second(_self: CommitBounds, *, since_poll_s: float) -> float:
        return 1.0

    monkeypatch.setattr(CommitBounds, "on_revoke_s", one_second)
    with running(pipeline.specification(commit_interval_ms=8_000, transaction_timeout_ms=30_000)) as first:
        pipeline.feed(10)
        first.wait_for_position(20)
        monkeypatch.setattr(TransactionalProducer, "commit", commit_to_paused_broker)
        with running(pipeline.specification(task=1)) as second:
            try:
                first.wait_for_event(EventKind.REVOKED)
                first.wait_for_event(EventKind.OUTCOME_UNKNOWN)
            finally:
                kafka.broker(1).resume()
            second.wait_for_partitions(1)
            pipeline.feed(300)
            second.wait_for_records(300)
            second.drain()
        first.wait_for_partitions(2)
        finish(pipeline, first)
    assert first.control.last.counters.transactions_unknown == 1
    pipeline.assert_whole()


@pytest.mark.parametrize("protocol", list(GroupProtocol))
@pytest.mark.parametrize("arrives", [True, False], ids=["commit arrived", "commit did not arrive"])
def test_partition_that_goes_and_comes_back_while_an_outcome_is_unknown(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, arrives: bool, protocol: GroupProtocol
) -> None:
    """Rebalances are served while a producer is waited for, and what another has done meanwhile is not done again."""
    pipeline = make_pipeline(group_protocol=protocol, transaction_timeout_ms=60_000)
    real_init = TransactionalProducer.init
    waits = True

    with running(pipeline.specification()) as first:
        prime(pipeline, first)

        def init_later(self: TransactionalProducer, timeout_s: float) -> None:
            if waits and first.is_this_thread:
                raise RetriableError("no answer yet, for the test")
            real_init(self, timeout_s)

        with monkeypatch.context() as patch:
            patch.setattr(TransactionalProducer, "init", init_later)
            patch.setattr(TransactionalProducer, "commit", lose_one_answer(arrives=arrives))
            pipeline.feed(300)
            first.wait_for_event(EventKind.OUTCOME_UNKNOWN)
            with running(pipeline.specification(task=1)) as second:
                second.wait_for_partitions(1)
                first.wait_for_partitions(1)
                pipeline.feed(300)
                if arrives:
                    # Else it waits for the undecided offsets, as it must.
                    second.wait_for_records(300)
                second.drain()
            first.wait_for_partitions(2)
            waits = False
            finish(pipeline, first)
    assert first.control.last.counters.transactions_unknown == 1
    pipeline.assert_whole()
