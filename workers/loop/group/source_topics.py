"""Check that the source topics exist, and are still the ones that this task has been reading."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # pyright: ignore[reportPrivateImportUsage]

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import EventKind
from workers.loop.client_config import Config
from workers.loop.errors import PipelineStopError
from workers.loop.group.membership import Announce
from workers.loop.group.ownership import Ownership
from workers.loop.group.remembered import Remembered

log = logging.getLogger(__name__)
_EVERY_S = 5.0
_ANSWER_S = 5.0
_AT_START_S = 2.0
_NO_TOPIC = "."
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero id, as base64: brokers before 2.8 know topics by name only."""


class DescribedSource(Protocol):
    """The part of librdkafka's description of a topic that is used. Compare its ids by their text."""

    topic_id: object


Ask = Callable[[Sequence[str]], Mapping[str, "Future[DescribedSource]"]]
"""Asks the brokers for topics; answers at once, with futures."""


class KnownTopic(msgspec.Struct, frozen=True):
    """The topic of a name at the last check, and the ownership numbers before that request."""

    topic_id: str
    numbers: dict[Partition, int]


class SourceTopics:
    """Checks the topics after every rebalance and every few seconds, without waiting for the answers.

    Consumers know topics by name. If a topic is deleted and recreated before they learn it, they continue at the old
    position. Its records below that are skipped undetected, and the old offsets are committed for the new topic. The
    topic id distinguishes the two. It is not known then which records of the new one have been processed, so the
    pipeline stops. A KIP-848 group revokes the partitions and assigns them again. It may still do so with the old
    topic's offsets, so the pipeline stops here too.

    If the topic was seen to be missing in between, and its partitions are gone, nothing of the old one is left. The
    broker accepts no offsets for a topic that does not exist. Then the new one starts as any other (see Starting).

    A missing topic is reported, since a KIP-848 group revokes its partitions without an error. `obstacle` has the error
    of the last check: an idle task learns only here that brokers are away.
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
        self._pending: Mapping[str, Future[DescribedSource]] = {}
        self._changes = -1
        self._asked_at = 0.0
        self._numbers: dict[Partition, int] = {}
        self._known: dict[str, KnownTopic] = {}
        self._missing: set[str] = set()

    def look(self) -> None:
        """Take an answer that has come, or send a request if it is due; call it often.

        Raises:
            PipelineStopError: a topic was recreated, and offsets of the old one may be taken for the new one's.
        """
        if self._pending:
            if all(answer.done() for answer in self._pending.values()):
                self.obstacle = None
                pending, self._pending = self._pending, {}
                for topic, answer in pending.items():
                    self._judge(topic, answer)
        elif self._changes != self._ownership.changes or self._clock() - self._asked_at >= _EVERY_S:
            self._changes, self._asked_at = self._ownership.changes, self._clock()
            # The present ones: a rebalance before the answer may have brought another topic.
            self._numbers = {name: self._ownership.number(name) for name in self._ownership.owned}
            try:
                self._pending = self._ask(self._topics)
            except KafkaException as error:
                self.obstacle = f"cannot ask for the source topics: {error.args[0].str()}"

    def close(self) -> None:
        """Close the client; no more requests are sent."""
        self._ask = _nobody
        self._pending = {}
        self._let_go()

    def _judge(self, topic: str, answer: Future[DescribedSource]) -> None:
        try:
            topic_id = str(answer.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART and topic not in self._missing:
                self._missing.add(topic)
                self._remembered.topic_is_missing(topic)
                self._announce(
                    EventKind.ERROR,
                    f"there is no topic {topic}: nothing of it is read. Create it, or remove it from the source topics",
                )
            elif error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                self.obstacle = f"cannot ask for the source topic {topic}: {error.args[0].str()}"
            return
        was_missing = topic in self._missing
        self._missing.discard(topic)
        self._remembered.topic_is(topic, None if topic_id == _NO_ID else topic_id, changes=self._changes)
        if topic_id == _NO_ID:
            return
        before, self._known[topic] = self._known.get(topic), KnownTopic(topic_id, self._numbers)
        if before is None or before.topic_id == topic_id:
            return
        is_kept = any(
            name.topic == topic and self._ownership.is_unchanged(name, number)
            for name, number in before.numbers.items()
        )
        if is_kept or not was_missing:
            raise PipelineStopError(
                f"{topic} was deleted and recreated while it was read. Records below the old positions may have been "
                "skipped; processed ones cannot be determined. Stop the pipeline and reset its offsets, to 0 to "
                "process all records there are now"
            )


def _nobody(_topics: Sequence[str]) -> Mapping[str, Future[DescribedSource]]:
    return {}


class TopicClient:
    """Asks through a client of its own: a consumer does not report the ids of topics."""

    def __init__(self, config: Config) -> None:
        self._client: Any = AdminClient({**config})

    def ask(self, topics: Sequence[str]) -> Mapping[str, Future[Any]]:
        return self._client.describe_topics(TopicCollection(list(topics)), request_timeout=_ANSWER_S)

    def settings_of_topic(self, topic: str) -> dict[str, str]:
        """Read a topic's settings, with a wait; empty where the brokers do not answer, or permission is missing."""
        return self._settings([ConfigResource(ConfigResource.Type.TOPIC, topic)], _ANSWER_S)[0]

    def settings_of_brokers(self) -> list[dict[str, str]]:
        """The settings of each broker, as `settings_of_topic`."""
        try:
            # A name that no topic can have: the answer is short, and no broker creates it.
            brokers = self._client.list_topics(_NO_TOPIC, timeout=_AT_START_S).brokers
        except KafkaException:
            return []
        return self._settings(
            [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in brokers], _AT_START_S
        )

    def _settings(self, resources: list[ConfigResource], timeout_s: float) -> list[dict[str, str]]:
        """Read them in one request: a broker that does not answer is waited for once."""
        answers = [self._client.describe_configs([one], request_timeout=timeout_s)[one] for one in resources]
        ends_at = time.monotonic() + timeout_s
        found: list[dict[str, str]] = []
        for resource, answer in zip(resources, answers, strict=True):
            try:
                told: dict[str, Any] = answer.result(max(0.0, ends_at - time.monotonic()))
            except (KafkaException, TimeoutError) as error:
                log.info("the brokers do not report the settings of %s: %s", resource.name, error)
                told = {}
            found.append({name: str(entry.value) for name, entry in told.items()})
        return found

    def close(self) -> None:
        """Close the client. Open answers never come.

        The garbage collector must not do this: it may run on the thread on which librdkafka delivers such an answer. A
        client that is destroyed on a thread of its own ends the process (SIGABRT).
        """
        self._client.__exit__(None, None, None)
