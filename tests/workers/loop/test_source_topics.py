"""Topics that go, come back, and come back as others. On a broker: tests/exactly_once/test_start_position.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import EventKind
from tests.support.tasks import RecordingControl
from workers.loop.errors import PipelineStopError
from workers.loop.group.ownership import Ownership
from workers.loop.group.remembered import Remembered
from workers.loop.group.source_topics import DescribedSource, SourceTopics

T0, T1 = Partition("t", 0), Partition("t", 1)
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class Topic(msgspec.Struct):
    topic_id: object


class Brokers:
    """Know one topic, or do not; answer when the test says so."""

    def __init__(self) -> None:
        self.topic_id: str | None = "first"
        self.error = KafkaError.UNKNOWN_TOPIC_OR_PART
        self.asked: list[Future[DescribedSource]] = []
        self.is_let_go = False

    def ask(self, topics: Sequence[str]) -> Mapping[str, Future[DescribedSource]]:
        assert list(topics) == ["t"]
        self.asked.append(Future())
        return {"t": self.asked[-1]}

    def let_go(self) -> None:
        self.is_let_go = True

    def answer(self) -> None:
        if self.topic_id is None:
            self.asked[-1].set_exception(KafkaException(KafkaError(self.error)))
        else:
            self.asked[-1].set_result(Topic(self.topic_id))


class Scene:
    def __init__(self) -> None:
        self.brokers, self.control, self.ownership = Brokers(), RecordingControl(), Ownership()
        self.now = 100.0
        self.topics = SourceTopics(
            ("t",),
            ask=self.brokers.ask,
            let_go=self.brokers.let_go,
            ownership=self.ownership,
            remembered=Remembered((), ownership=self.ownership, ask=lambda: None),
            announce=self.control.event,
            clock=lambda: self.now,
        )

    def look(self) -> None:
        """One check, answered."""
        self.now += 10
        self.topics.look()
        self.brokers.answer()
        self.topics.look()


@pytest.fixture
def scene() -> Scene:
    made = Scene()
    made.ownership.assigned([T0, T1])
    return made


def test_it_is_asked_after_every_rebalance_and_else_now_and_then(scene: Scene) -> None:
    scene.look()
    for _ in range(3):
        scene.topics.look()
    assert len(scene.brokers.asked) == 1
    scene.ownership.given_up([T1])
    scene.topics.look()
    assert len(scene.brokers.asked) == 2
    scene.now += 60
    scene.topics.look()
    assert len(scene.brokers.asked) == 2, "one question at a time, however long it takes"


@pytest.mark.parametrize("rebalanced", [False, True])
def test_topic_made_anew_between_two_looks_stops_the_pipeline(scene: Scene, rebalanced: bool) -> None:
    """A group that has assigned the partitions again may have used the old topic's offsets."""
    scene.look()
    scene.brokers.topic_id = "second"
    if rebalanced:
        scene.ownership.given_up([T0, T1])
        scene.ownership.assigned([T0, T1])
    with pytest.raises(PipelineStopError, match="t was deleted and recreated while"):
        scene.look()


def test_topic_that_was_missing_for_a_while_is_begun_as_another_one(scene: Scene) -> None:
    scene.look()
    scene.brokers.topic_id = None
    scene.look()
    scene.ownership.given_up([T0, T1])
    scene.brokers.topic_id = "second"
    scene.look()
    scene.ownership.assigned([T0, T1])
    scene.look()


def test_partition_that_outlived_its_topic_stops_the_pipeline(scene: Scene) -> None:
    """It is read on at the old position, missing or not in between."""
    scene.look()
    scene.brokers.topic_id = None
    scene.look()
    scene.ownership.given_up([T0])
    scene.brokers.topic_id = "second"
    with pytest.raises(PipelineStopError):
        scene.look()


def test_rebalance_between_question_and_answer_is_one_in_between(scene: Scene) -> None:
    """The answer may be of the old topic while what is owned by then is of the new one."""
    scene.look()
    scene.brokers.topic_id = None
    scene.now += 10
    scene.topics.look()
    scene.ownership.given_up([T0, T1])
    scene.ownership.assigned([T0, T1])
    scene.brokers.answer()
    scene.topics.look()
    scene.brokers.topic_id = "second"
    scene.look()


def test_missing_topic_is_told_each_time_that_it_goes(scene: Scene) -> None:
    for topic_id in (None, None, "first", None):
        scene.brokers.topic_id = topic_id
        scene.look()
    assert [event.message.partition(":")[0] for event in scene.control.events] == ["there is no topic t"] * 2
    assert set(scene.control.kinds()) == {EventKind.ERROR}


def test_broker_that_does_not_answer_says_nothing_of_topics(scene: Scene) -> None:
    scene.look()
    scene.brokers.topic_id, scene.brokers.error = None, KafkaError._TIMED_OUT
    scene.look()
    assert scene.topics.obstacle == "cannot ask for the source topic t: Local: Timed out"
    scene.brokers.topic_id = "second"
    with pytest.raises(PipelineStopError):
        scene.look()
    assert scene.topics.obstacle is None
    assert scene.control.events == []


def test_brokers_that_have_no_ids_say_nothing_either(scene: Scene) -> None:
    scene.look()
    scene.brokers.topic_id = NO_ID
    scene.look()


def test_nobody_is_asked_any_more_when_it_is_closed(scene: Scene) -> None:
    scene.topics.close()
    assert scene.brokers.is_let_go
    scene.topics.look()
    assert scene.brokers.asked == []
