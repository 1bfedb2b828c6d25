"""The records of a real coordinator and the report of a real task about one fencing make one event."""

from __future__ import annotations

import pytest

from app.core.fencing.cases import case_of_word, joined
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import ClientWord, CoordinatorRecord
from app.core.fencing.fencing_event import Case, Confidence, FencingCause, FencingEvent
from app.core.fencing.steps import cases_of
from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.transaction_state import TOPIC
from app.core.runs.task import EventKind
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from tests.exactly_once.conftest import MakePipeline
from tests.support.pipelines import TestPipeline
from tests.support.tasks import RecordedEvent, TaskThread, running
from workers.loop.client_config import transactional_producer_config
from workers.loop.producing.transactional_producer import TransactionalProducer


def journal_cases(pipeline: TestPipeline) -> list[Case]:
    servers = pipeline.bootstrap_servers
    live = LiveTransactions()
    for partition, batch in read_logs({"bootstrap.servers": servers}, ConnectionAttempt(servers, 30), TOPIC):
        live.apply(partition, batch)
    return cases_of(live.ids[pipeline.transactional_id(0)], kafka_cluster_id="cluster")


def word_case(pipeline: TestPipeline, said: RecordedEvent) -> Case:
    word = ClientWord(
        event_id="event",
        kind=said.kind,
        at_ms=0,
        message=said.message,
        run_id="run",
        ordinal=0,
        lease=1,
        task=0,
        attempt=0,
        error=said.error,
    )
    assert said.producer is not None
    case = case_of_word(
        word,
        kafka_cluster_id="cluster",
        transactional_id=pipeline.transactional_id(0),
        producer_id=said.producer.producer_id,
        producer_epoch=said.producer.epoch,
    )
    assert case is not None
    return case


def said_by(task: TaskThread, kind: EventKind) -> RecordedEvent:
    return next(event for event in task.control.events if event.kind is kind)


def event_of(pipeline: TestPipeline, word: Case) -> FencingEvent:
    """The event of the reported producer."""
    (case,) = [case for case in joined([*journal_cases(pipeline), word]) if case.key == word.key]
    event = judge_case(case)
    assert event is not None
    assert {type(one) for one in event.evidence} == {CoordinatorRecord, ClientWord}
    return event


@pytest.mark.parametrize("is_open", [False, True])
def test_taker_of_a_living_tasks_id(make_pipeline: MakePipeline, is_open: bool) -> None:
    """With a transaction open it is a takeover, with nothing open a zombie that was refused."""
    pipeline = make_pipeline(partitions=1, commit_interval_ms=3_000 if is_open else 100)
    with running(pipeline.specification()) as task:
        task.control.is_current = False
        task.wait_for_partitions(1)
        pipeline.feed(100)
        if is_open:
            task.wait_until(lambda seen: seen.open_transaction_age_ms is not None, "an open transaction")
        else:
            task.wait_until(lambda seen: all(at.committed == 100 for at in seen.partitions), "everything committed")
        taker = TransactionalProducer(transactional_producer_config(pipeline.specification(attempt=9)))
        taker.init(20)
        taker.discard()
        pipeline.feed(100)
        task.join()
    verdict = event_of(pipeline, word_case(pipeline, said_by(task, EventKind.FENCED))).verdict
    if is_open:
        # The taker wrote nothing, so an operator's FenceProducers would look the same.
        assert (verdict.cause, verdict.alternatives) == (FencingCause.TAKEOVER, (FencingCause.OPERATOR_FENCE,))
    else:
        assert (verdict.cause, verdict.confidence) == (FencingCause.ZOMBIE_REFUSED, Confidence.CERTAIN)
