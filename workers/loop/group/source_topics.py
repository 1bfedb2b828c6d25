"""Whether the source topics are there, and whether they are still the ones that this task has been reading."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # pyright: ignore[reportPrivateImportUsage]

from app.core.wire.heartbeat import EventKind
from workers.loop.client_config import Config
from workers.loop.errors import PipelineStopError
from workers.loop.group.membership import Announce
from workers.loop.group.ownership import Ownership, Partition
from workers.loop.group.remembered import Remembered

log = logging.getLogger(__name__)
_EVERY_S = 5.0
_ANSWER_S = 5.0
_AT_START_S = 2.0
_NO_TOPIC = "."
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero id, as base64: brokers before 2.8 know topics by name only."""


class Described(Protocol):
    """What is used of librdkafka's description of a topic. Its ids have no equality, their text has."""

    topic_id: object


Ask = Callable[[Sequence[str]], Mapping[str, "Future[Described]"]]
"""Asks the brokers for topics; answers at once, with futures."""


class Known(msgspec.Struct, frozen=True):
    """The topic that a name stood for at the last look, and the numbers of what was owned before it was asked."""

    topic_id: str
    numbers: dict[Partition, int]


class SourceTopics:
    """Looks at the topics after every rebalance and every few seconds. Nobody waits for the answers.

    Consumers know topics by name. One that is deleted and created again before they hear of it is read on at the old
    position: what it got below that is skipped in silence, and the old one's offsets are committed for the new one. A
    topic's id tells the two apart. Which records of the new one have been processed is not to be known then, so the
    pipeline stops. A KIP-848 group takes the partitions away and gives them anew, but with the old one's offsets, where
    those are not cleaned away yet; so that is no better.

    Where the topic was seen to be missing in between, and its partitions are gone, nothing of the old one is left: the
    broker takes no offsets for a topic that it does not have. Then the new one is begun as any other (see Starting).

    A topic that is missing is told, since a KIP-848 group takes its partitions away without a word. `obstacle` says why
    the last look saw nothing: an idle task hears of brokers that are away from nobody else.
    """

    def __init__(
        self,
        topics: Sequence[str],
        *,
        ask: Ask,
        let_go: Callable[[], None],
        ownership: Ownership,
        remembered: Remembered,
        announce: Announce,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.obstacle: str | None = None
        self._topics = tuple(topics)
        self._ask = ask
        self._let_go = let_go
        self._ownership = ownership
        self._remembered = remembered
        self._announce = announce
        self._clock = clock
        self._pending: Mapping[str, Future[Described]] = {}
        self._changes = -1
        self._asked_at = 0.0
        self._numbers: dict[Partition, int] = {}
        self._known: dict[str, Known] = {}
        self._missing: set[str] = set()

    def look(self) -> None:
        """Take an answer that has come, or ask if it is time; call it often.

        Raises:
            PipelineStopError: a topic was made anew, and offsets of the old one may be taken for the new one's.
        """
        if self._pending:
            if all(answer.done() for answer in self._pending.values()):
                self.obstacle = None
                pending, self._pending = self._pending, {}
                for topic, answer in pending.items():
                    self._judge(topic, answer)
        elif self._changes != self._ownership.changes or self._clock() - self._asked_at >= _EVERY_S:
            self._changes, self._asked_at = self._ownership.changes, self._clock()
            # As of now: a rebalance that comes before the answer may have brought another topic.
            self._numbers = {name: self._ownership.number(name) for name in self._ownership.owned}
            try:
                self._pending = self._ask(self._topics)
            except KafkaException as error:
                self.obstacle = f"cannot ask for the source topics: {error.args[0].str()}"

    def close(self) -> None:
        """Let go of the client; nothing is asked any more."""
        self._ask = _nobody
        self._pending = {}
        self._let_go()

    def _judge(self, topic: str, answer: Future[Described]) -> None:
        try:
            topic_id = str(answer.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART and topic not in self._missing:
                self._missing.add(topic)
                self._remembered.topic_is_missing(topic)
                self._announce(
                    EventKind.ERROR,
                    f"there is no topic {topic}: nothing of it is read. Create it, or take it out of the source topics",
                )
            elif error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                self.obstacle = f"cannot ask for the source topic {topic}: {error.args[0].str()}"
            return
        was_missing = topic in self._missing
        self._missing.discard(topic)
        self._remembered.topic_is(topic, None if topic_id == _NO_ID else topic_id, changes=self._changes)
        if topic_id == _NO_ID:
            return
        before, self._known[topic] = self._known.get(topic), Known(topic_id, self._numbers)
        if before is None or before.topic_id == topic_id:
            return
        is_kept = any(
            name[0] == topic and self._ownership.is_unchanged(name, number) for name, number in before.numbers.items()
        )
        if is_kept or not was_missing:
            raise PipelineStopError(
                f"{topic} was deleted and created anew while the pipeline was reading it: what lies below the old "
                "positions may have been skipped, and which of its records have been processed is not to be known. "
                "Stop the pipeline and reset its offsets, to 0 to process all that is there now"
            )


def _nobody(_topics: Sequence[str]) -> Mapping[str, Future[Described]]:
    return {}


class TopicClient:
    """Asks through a client of its own: a consumer does not tell the ids of topics."""

    def __init__(self, config: Config) -> None:
        self._client: Any = AdminClient({**config})

    def ask(self, topics: Sequence[str]) -> Mapping[str, Future[Any]]:
        return self._client.describe_topics(TopicCollection(list(topics)), request_timeout=_ANSWER_S)

    def settings_of_topic(self, topic: str) -> dict[str, str]:
        """Waits for them; empty where the brokers do not answer, or may not say."""
        return self._settings([ConfigResource(ConfigResource.Type.TOPIC, topic)], _ANSWER_S)[0]

    def settings_of_brokers(self) -> list[dict[str, str]]:
        """Of each, as `settings_of_topic`."""
        try:
            # A name that no topic can have: the answer is short, and no broker creates it.
            brokers = self._client.list_topics(_NO_TOPIC, timeout=_AT_START_S).brokers
        except KafkaException:
            return []
        return self._settings(
            [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in brokers], _AT_START_S
        )

    def _settings(self, resources: list[ConfigResource], timeout_s: float) -> list[dict[str, str]]:
        """Asked together: a broker that does not answer is waited for once."""
        answers = [self._client.describe_configs([one], request_timeout=timeout_s)[one] for one in resources]
        ends_at = time.monotonic() + timeout_s
        found: list[dict[str, str]] = []
        for resource, answer in zip(resources, answers, strict=True):
            try:
                told: dict[str, Any] = answer.result(max(0.0, ends_at - time.monotonic()))
            except (KafkaException, TimeoutError) as error:
                log.info("the brokers do not tell the settings of %s: %s", resource.name, error)
                told = {}
            found.append({name: str(entry.value) for name, entry in told.items()})
        return found

    def close(self) -> None:
        """Answers that are still awaited never come.

        Not left to the garbage collector: it may run on the thread on which librdkafka tells such an answer, and a
        client that is destroyed on a thread of its own ends the process (SIGABRT).
        """
        self._client.__exit__(None, None, None)
