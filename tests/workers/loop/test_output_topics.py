"""Topics that are written to: looked up before their first record, and the sink watched. No broker is asked here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from workers.loop.errors import AbortableError, PipelineStopError
from workers.loop.producing.output_topics import DescribedOutput, OutputTopics

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class Topic(msgspec.Struct):
    topic_id: object = "first"
    partitions: Sequence[object] = (0, 1)
    is_internal: bool = False


class Brokers:
    """Know some topics, and answer at once."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {"sink": Topic()}
        self.error = KafkaError.UNKNOWN_TOPIC_OR_PART
        self.asked: list[list[str]] = []

    def ask(self, topics: Sequence[str]) -> Mapping[str, Future[DescribedOutput]]:
        self.asked.append(list(topics))
        answers: dict[str, Future[DescribedOutput]] = {name: Future() for name in topics}
        for name, answer in answers.items():
            if name in self.topics:
                answer.set_result(self.topics[name])
            else:
                answer.set_exception(KafkaException(KafkaError(self.error)))
        return answers


class Scene:
    def __init__(self) -> None:
        self.brokers, self.now = Brokers(), 100.0
        self.topics = OutputTopics("sink", ask=self.brokers.ask, clock=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def look_for(self, seconds: int) -> None:
        """Turns of the loop, ten in a second."""
        for _ in range(10 * seconds):
            self.topics.look()
            self.now += 0.1


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_topic_is_looked_up_once_and_again_when_that_is_old(scene: Scene) -> None:
    scene.brokers.topics["a"] = Topic()
    for _ in range(5):
        assert scene.topics.unwritable({"a", "sink"}) == {}
    assert scene.brokers.asked == [["a"]]
    scene.now += 31
    del scene.brokers.topics["a"]
    assert "there is no topic a" in str(scene.topics.unwritable({"a"})["a"])


def test_an_unknown_topic_is_asked_for_twice_and_then_remembered_for_a_while(scene: Scene) -> None:
    for _ in range(5):
        assert sorted(scene.topics.unwritable({"a", "b"})) == ["a", "b"]
    assert scene.brokers.asked == [["a", "b"], ["a", "b"]]
    scene.brokers.topics |= {"a": Topic(), "b": Topic()}
    scene.now += 6
    assert scene.topics.unwritable({"a", "b"}) == {}


def test_a_topic_that_was_created_a_moment_ago_is_found_at_the_second_lookup(scene: Scene) -> None:
    def create(seconds: float) -> None:
        scene.now += seconds
        scene.brokers.topics["a"] = Topic()

    topics = OutputTopics("sink", ask=scene.brokers.ask, clock=lambda: scene.now, sleep=create)
    assert topics.unwritable({"a"}) == {}


def test_after_an_aborted_checkpoint_a_topic_is_looked_up_again(scene: Scene) -> None:
    scene.brokers.topics["a"] = Topic()
    assert scene.topics.unwritable({"a"}) == {}
    del scene.brokers.topics["a"]
    assert scene.topics.unwritable({"a"}) == {}
    scene.topics.look_up_again()
    assert list(scene.topics.unwritable({"a"})) == ["a"]


def test_a_topic_of_the_brokers_own_takes_no_record(scene: Scene) -> None:
    scene.brokers.topics["__consumer_offsets"] = Topic(is_internal=True)
    found = scene.topics.unwritable({"__consumer_offsets"})
    assert "is internal to the brokers" in str(found["__consumer_offsets"])


def test_brokers_that_do_not_answer_condemn_no_record(scene: Scene) -> None:
    scene.brokers.error = KafkaError._TIMED_OUT
    with pytest.raises(AbortableError, match="could not look the output topic a up"):
        scene.topics.unwritable({"a"})
    scene.brokers.topics["a"] = Topic()
    assert scene.topics.unwritable({"a"}) == {}


def test_a_sink_that_is_gone_for_seconds_stops_the_pipeline(scene: Scene) -> None:
    scene.look_for(10)
    del scene.brokers.topics["sink"]
    with pytest.raises(PipelineStopError, match="the sink topic sink was deleted while the pipeline was writing to it"):
        scene.look_for(15)


def test_a_broker_that_does_not_know_the_sink_for_a_moment_stops_nothing(scene: Scene) -> None:
    scene.look_for(10)
    for _ in range(5):
        sink = scene.brokers.topics.pop("sink")
        scene.topics.look_up_again()
        scene.look_for(2)
        scene.brokers.topics["sink"] = sink
        scene.look_for(10)


@pytest.mark.parametrize("error", [KafkaError._TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_brokers_that_say_nothing_about_the_sink_stop_nothing(scene: Scene, error: int) -> None:
    scene.look_for(10)
    sink, scene.brokers.error = scene.brokers.topics.pop("sink"), error
    scene.look_for(60)
    scene.brokers.topics["sink"] = sink
    scene.look_for(10)


def test_a_sink_that_was_not_there_yet_is_waited_for(scene: Scene) -> None:
    sink = scene.brokers.topics.pop("sink")
    scene.look_for(60)
    scene.brokers.topics["sink"] = sink
    scene.look_for(10)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (Topic("a"), Topic("b"), "recreated, with 2 instead of 2 partitions"),
        (Topic("a"), Topic("b", (0,)), "recreated, with 1 instead of 2 partitions"),
        (Topic(NO_ID), Topic(NO_ID, (0,)), "has 1 instead of 2 partitions"),
    ],
)
def test_a_recreated_sink_stops_the_pipeline(scene: Scene, before: Topic, after: Topic, told: str) -> None:
    scene.brokers.topics["sink"] = before
    scene.look_for(10)
    scene.brokers.topics["sink"] = after
    with pytest.raises(PipelineStopError, match=told):
        scene.look_for(10)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Topic("a"), Topic("a", (0, 1, 2))),
        # The answer of a broker that does not know the third one yet.
        (Topic("a", (0, 1, 2)), Topic("a")),
        (Topic(NO_ID), Topic(NO_ID, (0, 1, 2))),
        (Topic(NO_ID), Topic("a")),
    ],
)
def test_a_sink_that_grows_goes_on(scene: Scene, before: Topic, after: Topic) -> None:
    scene.brokers.topics["sink"] = before
    scene.look_for(10)
    scene.brokers.topics["sink"] = after
    scene.look_for(10)
