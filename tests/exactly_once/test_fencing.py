"""Rule 5: who is fenced asks whether it is still the current attempt, and only then takes its id back."""

from __future__ import annotations

import pytest

from app.core.fencing.id_loss import IdLoss, judge_id_loss
from app.core.ids.transaction_counts import count_transactions
from app.core.journals.transaction_state import TransactionState, TransactionStatus, Undecodable
from app.core.wire.heartbeat import EventKind, TaskState
from app.edges.kafka.transaction_journal import read_transaction_journal
from tests.exactly_once.conftest import MakePipeline, StartProcess
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.waiting import wait_for
from workers.loop.claim.inquiry import ClaimStanding, Inquiry, InquiryAnswer
from workers.loop.claim.journal import IdJournal
from workers.loop.client_config import reader_config, transactional_producer_config
from workers.loop.control import TaskEnd
from workers.loop.producing.transactional_producer import TransactionalProducer


def inits(pipeline: TestPipeline) -> int:
    """How often the id of task 0 was initialised, as the journal has it."""
    transactional_id = pipeline.transactional_id(0)
    records = read_transaction_journal({"bootstrap.servers": pipeline.bootstrap_servers}, prefixes=(transactional_id,))
    return count_transactions(records, prefixes=(transactional_id,)).inits


@pytest.mark.core
def test_second_attempt_of_an_id_supersedes_the_first_without_a_server(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline()
    with running(pipeline.specification(attempt=0)) as first:
        pipeline.feed(500)
        first.wait_for_records(1_000)
        with running(pipeline.specification(attempt=1)) as second:
            second.wait_until(lambda seen: len(seen.partitions) > 0, "a partition")
            pipeline.feed(500)
            # The first still holds a partition; its next checkpoint meets the fence.
            result = first.join()
            second.wait_for_partitions(2)
            pipeline.feed(500)
            second.wait_until(lambda seen: all(p.position == 1_500 for p in seen.partitions), "everything read")
            assert second.drain().counters.fencings == 0
    assert result.end is TaskEnd.SUPERSEDED
    assert result.counters.fencings == 1
    assert "another producer has initialised this id" in result.message
    assert first.control.last.state is TaskState.SUPERSEDED
    assert first.control.asked >= 1
    assert inits(pipeline) == 2
    pipeline.assert_whole()


def test_without_the_question_two_attempts_fence_each_other_for_ever(
    make_pipeline: MakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: who always takes its id back is taken it from again."""

    def always(_self: Inquiry, _standing: ClaimStanding) -> InquiryAnswer:
        return InquiryAnswer(True, "not asked")

    monkeypatch.setattr(Inquiry, "ask", always)
    pipeline = make_pipeline()
    with running(pipeline.specification(attempt=0)) as first, running(pipeline.specification(attempt=1)) as second:

        def have_fenced_each_other() -> bool:
            pipeline.feed(20)
            fenced = [task.control.kinds().count(EventKind.FENCED) for task in (first, second)]
            return min(fenced) >= 2

        wait_for(have_fenced_each_other, 30, "two fencings of each attempt")
    assert inits(pipeline) > 4


@pytest.mark.parametrize(("word", "end"), [(True, TaskEnd.DRAINED), (False, TaskEnd.SUPERSEDED)])
def test_servers_answer_goes_before_the_journal(make_pipeline: MakePipeline, word: bool, end: TaskEnd) -> None:
    """The journal would say "taken over" to both."""
    pipeline = make_pipeline(partitions=1)
    with running(pipeline.specification()) as task:
        task.control.is_current = word
        task.wait_for_partitions(1)
        taker = TransactionalProducer(transactional_producer_config(pipeline.specification(attempt=9)))
        taker.init(20)
        taker.discard()
        pipeline.feed(100)
        if word:
            task.wait_for_event(EventKind.REBUILT)
            task.wait_for_records(100)
            result = task.drain()
        else:
            result = task.join()
            with running(pipeline.specification(attempt=10)) as successor:
                successor.wait_for_records(100)
                successor.drain()
    assert result.end is end
    assert result.counters.fencings == 1
    pipeline.assert_whole()


def test_frozen_past_the_transaction_timeout_it_goes_on_by_itself(
    make_pipeline: MakePipeline, start_process: StartProcess
) -> None:
    """No server, no successor: the journal shows a timeout and no later init."""
    pipeline = make_pipeline(transaction_timeout_ms=3_000, session_timeout_ms=3_000, commit_interval_ms=1_000)
    process = start_process(pipeline.specification())
    process.wait_until(lambda: len(process.last().partitions) == 2, "the assignment")
    pipeline.feed(2_000)
    process.wait_until(lambda: process.last().open_transaction_age_ms is not None, "an open transaction")
    process.freeze()
    wait_for(lambda: is_timed_out(pipeline), 20, "the coordinator to end the transaction")
    process.thaw()
    process.wait_until(lambda: EventKind.REBUILT in process.kinds(), "the rebuilt producer")
    pipeline.feed(500)
    process.wait_until(lambda: sum(p.position or 0 for p in process.last().partitions) == 5_000, "everything read")
    result = process.drain()
    assert result.end is TaskEnd.DRAINED
    assert result.counters.fencings == 1
    pipeline.assert_whole()


def is_timed_out(pipeline: TestPipeline) -> bool:
    transactional_id = pipeline.transactional_id(0)
    records = list(
        read_transaction_journal({"bootstrap.servers": pipeline.bootstrap_servers}, prefixes=(transactional_id,))
    )
    state = records[-1].state
    return isinstance(state, TransactionState) and state.status is TransactionStatus.COMPLETE_ABORT


def read(journal: IdJournal) -> list[TransactionState | Undecodable | None]:
    wait_for(lambda: journal.read_on(1.0), 20, "the journal's end")
    return journal.states


@pytest.mark.core
def test_journal_distinguishes_timeout_from_takeover(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)

    def verdict(task: int, *, taken: bool, is_open: bool, timeout_ms: int) -> IdLoss:
        specification = pipeline.specification(task=task, transaction_timeout_ms=timeout_ms)
        transactional_id = specification.transactional_id or ""
        producer = TransactionalProducer(transactional_producer_config(specification))
        producer.init(20)
        identity = producer.identity(timeout_s=5)
        assert identity is not None
        if is_open:
            producer.begin()
            producer.live.produce(pipeline.sink, b"open")
            producer.live.flush(10)
        journal = IdJournal(transactional_id, reader_config(specification))
        if taken:
            taker = TransactionalProducer(transactional_producer_config(specification))
            taker.init(20)
            taker.discard()
        else:
            count = len(read(journal))
            wait_for(lambda: len(read(journal)) >= count + 2, 20, "the timeout")
        producer.discard()
        states = read(journal)
        journal.close()
        return judge_id_loss(states, producer_id=identity.producer_id, producer_epoch=identity.epoch).loss

    assert verdict(1, taken=True, is_open=True, timeout_ms=60_000) is IdLoss.TAKEN_OVER
    assert verdict(2, taken=True, is_open=False, timeout_ms=60_000) is IdLoss.TAKEN_OVER
    assert verdict(3, taken=False, is_open=True, timeout_ms=1_000) is IdLoss.TIMED_OUT


def test_journal_is_read_on_from_where_it_ended(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    specification = pipeline.specification()

    def init() -> None:
        producer = TransactionalProducer(transactional_producer_config(specification))
        producer.init(20)
        producer.discard()

    journal = IdJournal(specification.transactional_id or "", reader_config(specification))
    assert read(journal) == []
    for count in (1, 2, 3):
        init()
        assert len(read(journal)) == count
    assert len(read(journal)) == 3
    journal.close()
