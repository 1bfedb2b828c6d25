"""Rule 7: outputs only of transforms that returned; policies; refused records found by halving."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Message

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy, ProcessingGuarantee
from app.core.wire.heartbeat import EventKind
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskThread, running
from tests.support.topics import create_topic, delete_topics
from workers.loop.errors import PipelineStopError
from workers.transforms import Failure, Output, Processed
from workers.transforms.identity import as_output

BAD = b"BAD"


class ParsingTransform:
    """Identity that cannot process values with BAD in them."""

    is_identity = False

    def process(self, messages: list[Message]) -> Processed:
        outputs: list[Output] = []
        failures: list[Failure] = []
        for index, message in enumerate(messages):
            if BAD in (message.value() or b""):
                failures.append(Failure(index, ValueError("it is bad")))
            else:
                outputs.append(as_output(message))
        return Processed(outputs, failures)


class RaisingTransform:
    """Fails as a whole after it has seen every record: nothing of the batch may get out."""

    is_identity = False

    def process(self, messages: list[Message]) -> Processed:
        if any(BAD in (message.value() or b"") for message in messages):
            raise RuntimeError("the transform cannot run")
        return Processed([as_output(message) for message in messages], [])


def with_letters(pipeline: TestPipeline, **settings: int) -> ErrorHandling:
    topic = f"{pipeline.sink}.dead"
    create_topic(pipeline.bootstrap_servers, topic)
    return ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=topic, **settings)


def finish(pipeline: TestPipeline, task: TaskThread) -> None:
    """Drain when the committed offsets have reached the ends of the source."""
    ends = verifier.end_offsets(pipeline.bootstrap_servers, pipeline.source, verifier.READ_COMMITTED)
    task.wait_until(
        lambda seen: {p.partition: p.committed for p in seen.partitions} == ends, f"everything committed, {ends}"
    )
    task.drain()


@pytest.mark.core
def test_policy_fail_stops_with_offset_and_error_and_leaves_nothing_of_the_checkpoint(
    make_pipeline: MakePipeline,
) -> None:
    pipeline = make_pipeline(partitions=1, commit_interval_ms=60_000, transaction_timeout_ms=90_000)
    pipeline.feed(50)
    pipeline.feed_value(BAD)
    pipeline.feed(50)
    with running(pipeline.specification(), transform=ParsingTransform()) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert f"{pipeline.source}-0 offset 50" in str(error)
    assert "it is bad" in str(error)
    assert pipeline.audit(expected=[]).is_exact
    assert not verifier.has_open_transaction(pipeline.bootstrap_servers, pipeline.sink)
    assert verifier.group_members(pipeline.bootstrap_servers, pipeline.definition.group_id) == 0


def test_transform_that_cannot_run_fails_the_attempt_and_commits_nothing_of_its_batch(
    make_pipeline: MakePipeline,
) -> None:
    """Closing the consumer runs its revoke callback: it must not commit what the exception left half done."""
    pipeline = make_pipeline(partitions=1)
    pipeline.feed(200)
    pipeline.feed_value(BAD)
    with running(pipeline.specification(), transform=RaisingTransform()) as task:
        assert isinstance(task.join_error(), RuntimeError)
    committed = verifier.committed_offsets(pipeline.bootstrap_servers, pipeline.definition.group_id)
    assert committed[pipeline.source, 0] < 201
    found = verifier.read_all(pipeline.bootstrap_servers, pipeline.sink)
    assert len(found) == committed[pipeline.source, 0]


@pytest.mark.core
def test_policy_skip_leaves_out_bad_records_only(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(errors=ErrorHandling(policy=FailurePolicy.SKIP))
    pipeline.feed(100)
    pipeline.feed_value(BAD, partition=1)
    pipeline.feed(100)
    with running(pipeline.specification(), transform=ParsingTransform()) as task:
        finish(pipeline, task)
    assert task.control.last.counters.records_skipped == 1
    assert EventKind.BAD_RECORD in task.control.kinds()
    pipeline.assert_whole()


def test_thousand_bad_records_are_one_event_one_row_and_no_output(make_pipeline: MakePipeline) -> None:
    errors = ErrorHandling(policy=FailurePolicy.SKIP, max_bad=10_000)
    pipeline = make_pipeline(partitions=1, errors=errors)
    pipeline.feed(100)
    for _ in range(1_000):
        pipeline.feed_value(BAD)
    pipeline.feed(100)
    with running(pipeline.specification(), transform=ParsingTransform()) as task:
        finish(pipeline, task)
    last = task.control.last
    assert task.control.kinds().count(EventKind.BAD_RECORD) == 1
    (cause,) = last.bad_records
    assert (cause.records, cause.first_offset, cause.last_offset) == (1_000, 100, 1_099)
    assert cause.error == "ValueError"
    assert sum(one.skipped for one in last.bad_minutes) == last.counters.records_skipped == 1_000
    pipeline.assert_whole()


@pytest.mark.core
def test_outputs_count_the_records_of_the_sink_and_none_of_an_aborted_transaction(
    make_pipeline: MakePipeline,
) -> None:
    """The transaction of the first attempt has produced its outputs when it is aborted."""
    pipeline = make_pipeline(partitions=1, commit_interval_ms=60_000, transaction_timeout_ms=90_000)
    pipeline.feed(50)
    with running(pipeline.specification(), transform=ParsingTransform()) as task:
        task.wait_until(lambda seen: [one.position for one in seen.partitions] == [50], "50 outputs are produced")
        assert task.control.last.counters.records_out == 0, "its transaction is open"
        pipeline.feed_value(BAD)
        task.join_error()
    assert task.control.last.counters.records_out == 0
    skipping = pipeline.specification(errors=ErrorHandling(policy=FailurePolicy.SKIP), commit_interval_ms=100)
    with running(skipping, transform=ParsingTransform()) as task:
        finish(pipeline, task)
    assert task.control.last.counters.records_out == 50
    assert len(verifier.read_decided(pipeline.bootstrap_servers, pipeline.sink)) == 50
    pipeline.assert_whole()


@pytest.mark.core
def test_dead_letter_joins_the_same_transaction_with_everything_it_had(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(partitions=1)
    errors = with_letters(pipeline)
    pipeline.feed(100)
    pipeline.feed_value(BAD, key=b"k", headers=[("trace", b"1")], timestamp=1_700_000_000_000)
    pipeline.feed(100)
    with running(pipeline.specification(errors=errors), transform=ParsingTransform()) as task:
        finish(pipeline, task)
    pipeline.assert_whole()
    (letter,) = verifier.read_decided(pipeline.bootstrap_servers, errors.dead_letter_topic or "")
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"k", BAD, 1_700_000_000_000)
    assert dict(letter.headers) == {
        "trace": b"1",
        "fenceline.error": b"ValueError: it is bad",
        "fenceline.topic": pipeline.source.encode(),
        "fenceline.partition": b"0",
        "fenceline.offset": b"100",
    }
    assert task.control.last.counters.records_dead_lettered == 1
    delete_topics(pipeline.bootstrap_servers, [errors.dead_letter_topic or ""])


def test_too_many_bad_records_stop_the_pipeline(make_pipeline: MakePipeline) -> None:
    errors = ErrorHandling(policy=FailurePolicy.SKIP, max_bad=3, window_records=100)
    pipeline = make_pipeline(partitions=1, errors=errors)
    for _ in range(3):
        pipeline.feed_value(BAD)
    pipeline.feed(200)
    for _ in range(4):
        pipeline.feed_value(BAD)
    with running(pipeline.specification(), transform=ParsingTransform()) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert "4 bad records within 100, at most 3 are allowed" in str(error)


@pytest.mark.parametrize("policy", [FailurePolicy.SKIP, FailurePolicy.DEAD_LETTER])
def test_record_that_the_broker_refuses_is_found_and_treated_by_the_policy(
    make_pipeline: MakePipeline, policy: FailurePolicy, rng: random.Random
) -> None:
    pipeline = make_pipeline(sink_config={"max.message.bytes": "200000"})
    errors = ErrorHandling(policy=policy)
    if policy is FailurePolicy.DEAD_LETTER:
        errors = with_letters(pipeline)
    pipeline.feed(300)
    pipeline.feed_value(rng.randbytes(300_000), partition=1)
    pipeline.feed(300)
    with running(pipeline.specification(errors=errors)) as task:
        finish(pipeline, task)
    counters = task.control.last.counters
    assert counters.records_skipped + counters.records_dead_lettered == 1
    pipeline.assert_whole()
    if errors.dead_letter_topic is not None:
        (letter,) = verifier.read_decided(pipeline.bootstrap_servers, errors.dead_letter_topic)
        assert dict(letter.headers)["fenceline.offset"] == b"300"
        assert "MSG_SIZE_TOO_LARGE" in (dict(letter.headers)["fenceline.error"] or b"").decode()
        delete_topics(pipeline.bootstrap_servers, [errors.dead_letter_topic])


@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.AT_LEAST_ONCE])
def test_record_that_is_invalid_for_the_sink_is_found_among_its_batch(
    make_pipeline: MakePipeline, guarantee: ProcessingGuarantee
) -> None:
    """A compacted topic takes nothing without a key. Its neighbours fail too, for no reason of their own."""
    errors = ErrorHandling(policy=FailurePolicy.SKIP)
    pipeline = make_pipeline(
        partitions=1, sink_config={"cleanup.policy": "compact"}, errors=errors, processing_guarantee=guarantee
    )
    for number in range(40):
        pipeline.feed_value(b"0:%08d" % number, key=None if number == 20 else b"%d" % number)
    with running(pipeline.specification()) as task:
        finish(pipeline, task)
    assert task.control.last.counters.records_skipped == 1
    audit = pipeline.audit(f"0:{number:08d}" for number in range(40) if number != 20)
    assert not audit.lost
    assert not audit.unexpected


def test_refused_dead_letter_stops_the_pipeline(make_pipeline: MakePipeline, rng: random.Random) -> None:
    pipeline = make_pipeline(partitions=1, sink_config={"max.message.bytes": "200000"})
    topic = f"{pipeline.sink}.dead"
    create_topic(pipeline.bootstrap_servers, topic, config={"max.message.bytes": "200000"})
    errors = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=topic)
    pipeline.feed_value(rng.randbytes(300_000))
    with running(pipeline.specification(errors=errors)) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    assert "dead letter" in str(error)
    delete_topics(pipeline.bootstrap_servers, [topic])


def test_batches_that_the_broker_refuses_get_smaller_until_it_takes_them(make_pipeline: MakePipeline) -> None:
    """Each record alone is fine: none is condemned, the producer's batches were too large."""
    pipeline = make_pipeline(partitions=1, sink_config={"max.message.bytes": "3000"})
    pipeline.feed(3_000)
    with running(pipeline.specification(commit_interval_ms=500)) as task:
        finish(pipeline, task)
    counters = task.control.last.counters
    assert counters.records_skipped == counters.records_dead_lettered == 0
    assert counters.transactions_aborted > 0
    pipeline.assert_whole()
