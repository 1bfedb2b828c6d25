"""The counters of a batch: outputs and dead letters apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Message

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy, Steps, Transform
from app.core.pipelines.pipeline import Identity as IdentitySettings
from tests.support.messages import a_message
from tests.support.tasks import RecordingControl
from workers.loop.producing.output_topics import OutputTopics
from workers.loop.records.failures import BadRecords
from workers.loop.records.polled import PolledMessages
from workers.loop.records.processing import Processing
from workers.loop.records.writing import UnfitError
from workers.loop.telling.tally import Work
from workers.transforms import Output
from workers.transforms.build import build
from workers.transforms.carrying import as_they_are


class There:
    """The partition count of every topic that is looked up."""

    topic_id = "1"
    partitions = (0,)
    is_internal = False


def there(topics: Sequence[str]) -> Mapping[str, Future[Any]]:
    answers: dict[str, Future[Any]] = {topic: Future() for topic in topics}
    for answer in answers.values():
        answer.set_result(There())
    return answers


class Sink:
    """Takes what a producer takes, and keeps it."""

    def __init__(self) -> None:
        self.through: list[Message] = []
        self.outputs: list[Output] = []

    def partition_count(self, _topic: str, _timeout_s: float) -> int:
        return 1

    def write_records(self, records: PolledMessages, *, topic: str, keep_partition: bool) -> None:
        if unfit := as_they_are(records)[2]:
            raise UnfitError(unfit)
        self.through += records

    def write_outputs(self, outputs: Sequence[Output], *, topic: str) -> None:
        self.outputs += outputs


@pytest.mark.parametrize("transform", [IdentitySettings(), Steps(steps=())])
@pytest.mark.parametrize("policy", [FailurePolicy.SKIP, FailurePolicy.DEAD_LETTER])
def test_outputs_and_dead_letters_are_counted_apart(transform: Transform, policy: FailurePolicy) -> None:
    """Unfixed, dead letters counted as records out: 1,838 of them where the sink got none."""
    sink, work = Sink(), Work()
    producer: Any = sink
    handling = ErrorHandling(policy=policy, dead_letter_topic="dead")
    bad = [a_message(b"{}", offset=number, timestamp=(1, 0)) for number in (1, 3)]
    good = [a_message(b"{}", offset=number) for number in (0, 2, 4)]
    messages = PolledMessages(sorted([*good, *bad], key=lambda message: message.offset() or 0))
    topics = OutputTopics("sink", ask=there)
    processing = Processing(
        build(transform, source=None, sink_topic="sink"), source_topics=["in"], sink_topic="sink", topics=topics
    )
    processing.run(messages, producer, work, BadRecords(handling, announce=RecordingControl().event))
    assert (work.records_in, work.records_out, work.bytes_out) == (5, 3, 6)
    is_skip = policy is FailurePolicy.SKIP
    assert (work.records_skipped, work.records_dead_lettered) == ((2, 0) if is_skip else (0, 2))
    letters = [output for output in sink.outputs if output.topic == "dead"]
    assert len(sink.through) + len(sink.outputs) - len(letters) == 3
    found = [dict(letter.headers or ()) for letter in letters]
    assert [(one["fenceline.offset"], one["fenceline.timestamp"]) for one in found] == (
        [] if is_skip else [(b"1", b"0"), (b"3", b"0")]
    )
