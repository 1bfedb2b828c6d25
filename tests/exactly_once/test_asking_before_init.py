"""Rule 5 without a fencing: before an attempt initialises its id again, it asks whether it still may."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.wire.heartbeat import DesiredTaskState, EventKind
from tests.exactly_once.conftest import MakePipeline
from tests.exactly_once.test_fencing import inits, is_timed_out
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.waiting import wait_for
from workers.loop.claim.inquiry import ClaimStanding, Inquiry, InquiryAnswer
from workers.loop.client_config import transactional_producer_config
from workers.loop.control import TaskEnd
from workers.loop.errors import AbortableError, FencedError, OutcomeUnknownError, RetriableError
from workers.loop.producing.idempotent_producer import IdempotentProducer
from workers.loop.producing.transactional_producer import TransactionalProducer
from workers.loop.settling import Settling
from workers.loop.slices import CallPatience

Lose = Callable[[pytest.MonkeyPatch, Callable[[], None]], None]
PATIENCE = CallPatience(20.0)


def lose_at_commit(patch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
    """A commit is not answered any more; `before` happens first."""

    def commit(_self: TransactionalProducer, *, patience: CallPatience, **_named: object) -> None:
        before()
        raise OutcomeUnknownError(f"not answered within {patience.bound_s:g} s, for the test")

    patch.setattr(TransactionalProducer, "commit", commit)


def lose_at_abort(patch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
    """A checkpoint must be aborted, and the abort is not answered; `before` happens first."""

    def send_offsets(*_arguments: object, **_named: object) -> None:
        before()
        raise AbortableError("refused for the test")

    def abort(_self: TransactionalProducer, *, patience: CallPatience) -> None:
        raise RetriableError(f"not answered within {patience.bound_s:g} s, for the test")

    patch.setattr(TransactionalProducer, "send_offsets", send_offsets)
    patch.setattr(TransactionalProducer, "abort", abort)


@pytest.mark.parametrize("lose", [lose_at_commit, lose_at_abort])
@pytest.mark.parametrize("word", [False, None], ids=["server says no", "journal says no"])
@pytest.mark.parametrize("drains", [False, True], ids=["running", "draining"])
def test_superseded_attempt_that_loses_its_producer_leaves_the_current_one_alone(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, lose: Lose, word: bool | None, drains: bool
) -> None:
    pipeline = make_pipeline(partitions=1)
    rightful = TransactionalProducer(transactional_producer_config(pipeline.specification(attempt=1)))
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(10)
        task.control.is_current = word

        def be_superseded() -> None:
            rightful.init(20)
            rightful.begin()
            if drains:
                task.control.wanted = DesiredTaskState.DRAIN

        with monkeypatch.context() as patch:
            lose(patch, be_superseded)
            pipeline.feed(10)
            result = task.join()
    assert result.end is TaskEnd.SUPERSEDED
    assert result.counters.fencings == 0
    assert inits(pipeline) == 2
    rightful.live.produce(pipeline.sink, b"not fenced")
    rightful.flush(patience=PATIENCE)
    rightful.abort(patience=PATIENCE)
    rightful.discard()
    with running(pipeline.specification(attempt=2)) as successor:
        successor.wait_for_records(10)
        successor.drain()
    pipeline.assert_whole()


def test_without_the_question_a_superseded_attempt_fences_the_current_one(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control."""

    def always(_self: Inquiry, _standing: ClaimStanding) -> InquiryAnswer:
        return InquiryAnswer(True, "not asked")

    monkeypatch.setattr(Inquiry, "ask", always)
    pipeline = make_pipeline(partitions=1)
    rightful = TransactionalProducer(transactional_producer_config(pipeline.specification(attempt=1)))
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(10)
        with monkeypatch.context() as patch:
            lose_at_commit(patch, lambda: rightful.init(20))
            pipeline.feed(10)
            task.wait_for_event(EventKind.OUTCOME_UNKNOWN)
        task.wait_for_records(20)
        rightful.begin()
        rightful.live.produce(pipeline.sink, b"fenced")
        with pytest.raises(FencedError):
            rightful.commit(patience=PATIENCE, confirmed=lambda: None)
        task.drain()
    rightful.discard()


def test_attempt_that_has_not_had_the_id_yet_does_not_take_it_to_drain(make_pipeline: MakePipeline) -> None:
    """It may have been drained because another attempt has the id."""
    pipeline = make_pipeline(partitions=1)
    task = TaskThread(pipeline.specification())
    task.control.wanted = DesiredTaskState.DRAIN
    assert task.start().join().end is TaskEnd.DRAINED
    assert inits(pipeline) == 0


def test_inits_that_cross_leave_one_of_two_attempts_and_every_record_once(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server and driver away: the journal has just shown the older one that there is no other client."""
    pipeline = make_pipeline(partitions=2)
    younger = TaskThread(pipeline.specification(attempt=1))
    look = Inquiry.ask

    def and_then_the_younger_one_comes(self: Inquiry, standing: ClaimStanding) -> InquiryAnswer:
        answer = look(self, standing)
        if answer.may and not younger.is_running:
            younger.start()
            younger.wait_until(lambda seen: seen.producer_id is not None, "the younger one's init")
        return answer

    with running(pipeline.specification()) as older:
        pipeline.feed(10)
        older.wait_for_records(20)
        with monkeypatch.context() as patch:
            patch.setattr(Inquiry, "ask", and_then_the_younger_one_comes)
            lose_at_commit(patch, lambda: None)
            pipeline.feed(10)
            wait_for(lambda: younger.is_running, 20, lambda: f"the question; events: {older.control.events}")
        result = younger.join()
        pipeline.feed(10)
        older.wait_for_partitions(2)
        older.wait_until(lambda seen: all(p.committed == 30 for p in seen.partitions), "everything committed")
        assert older.drain().counters.fencings == 0
    assert result.end is TaskEnd.SUPERSEDED
    assert "another producer has initialised this id" in result.message
    assert inits(pipeline) == 3
    pipeline.assert_whole()


def fence_init(patch: pytest.MonkeyPatch, *, times: int) -> list[str]:
    """The next inits are fenced, as by another's that crosses them."""
    fenced: list[str] = []
    init = TransactionalProducer.init

    def init_or_not(self: TransactionalProducer, timeout_s: float) -> None:
        if len(fenced) < times:
            fenced.append("fenced")
            raise FencedError("fenced at its init, for the test")
        init(self, timeout_s)

    patch.setattr(TransactionalProducer, "init", init_or_not)
    return fenced


def time_out(patch: pytest.MonkeyPatch, pipeline: TestPipeline) -> None:
    """Let the coordinator end the next transaction for its age."""
    flush = TransactionalProducer.flush

    def flush_late(self: TransactionalProducer, *, patience: CallPatience) -> None:
        flush(self, patience=patience)
        patch.setattr(TransactionalProducer, "flush", flush)
        wait_for(lambda: is_timed_out(pipeline), 20, "the coordinator to end the transaction")

    patch.setattr(TransactionalProducer, "flush", flush_late)


def test_fenced_init_after_a_timeout_is_judged_by_the_last_producer(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server: the producer whose init is fenced has no identity, the one before it had."""
    pipeline = make_pipeline(partitions=1, transaction_timeout_ms=1_500)
    with running(pipeline.specification()) as task:
        pipeline.feed(10)
        task.wait_for_records(10)
        time_out(monkeypatch, pipeline)
        fenced = fence_init(monkeypatch, times=2)
        pipeline.feed(10)
        task.wait_for_records(20)
        result = task.drain()
    assert len(fenced) == 2
    assert result.counters.fencings == 3
    pipeline.assert_whole()


def test_fenced_first_init_without_a_server_is_tried_again(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that has just been started has not had the id: of two that start at once, not both may end."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(10)
    fenced = fence_init(monkeypatch, times=2)
    with running(pipeline.specification()) as task:
        task.wait_for_records(10)
        assert task.drain().counters.fencings == len(fenced) == 2
    pipeline.assert_whole()


def test_without_an_id_there_is_no_question(make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = make_pipeline(partitions=1, processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    made: list[IdempotentProducer] = []
    init, commit = IdempotentProducer.init, IdempotentProducer.commit

    def counted(self: IdempotentProducer, timeout_s: float) -> None:
        made.append(self)
        init(self, timeout_s)

    def lose_first(self: IdempotentProducer, *, patience: CallPatience, confirmed: Callable[[], None]) -> None:
        if len(made) == 1:
            raise AbortableError("not answered, for the test", code=KafkaError._TIMED_OUT)
        commit(self, patience=patience, confirmed=confirmed)

    monkeypatch.setattr(IdempotentProducer, "init", counted)
    monkeypatch.setattr(IdempotentProducer, "commit", lose_first)
    with running(pipeline.specification()) as task:
        task.control.is_current = False
        pipeline.feed(10)
        task.wait_for_records(10)
        task.drain()
    assert len(made) == 2
    assert task.control.asked == 0


@pytest.mark.parametrize("drains", [False, True], ids=["starting", "draining"])
def test_backing_off_is_waiting_and_not_spinning(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch, drains: bool
) -> None:
    steps: list[str] = []
    step = Settling.step
    tries: list[str] = []

    def counted(self: Settling) -> object:
        steps.append("step")
        return step(self)

    def refuse(_self: TransactionalProducer, _timeout_s: float) -> None:
        tries.append("init")
        raise AbortableError("refused for the test")

    pipeline = make_pipeline(partitions=1, transaction_timeout_ms=1_000)
    with running(pipeline.specification()) as task:
        if drains:
            task.control.is_current = True
            pipeline.feed(10)
            task.wait_for_records(10)
            lose_at_commit(monkeypatch, lambda: setattr(task.control, "wanted", DesiredTaskState.DRAIN))
        monkeypatch.setattr(Settling, "step", counted)
        monkeypatch.setattr(TransactionalProducer, "init", refuse)
        if drains:
            pipeline.feed(10)
            task.join()
        else:
            task.wait_until(lambda _seen: len(tries) >= 6, "six tries")
        count = len(steps)
    assert len(tries) >= 5
    assert count <= 5 * len(tries)
