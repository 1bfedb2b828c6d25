"""The topics, clients and groups of one check, under one prefix and deleted after it."""

# The admin module documents these classes without exporting their names, and types futures incompletely.
# pyright: reportPrivateImportUsage=false, reportUnknownMemberType=false

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.connections import BOOTSTRAP
from app.kit.errors import UnavailableError
from app.products.conformance.checking.clients import CALL_S, CheckRefusedError, TopicReader, Writer, error_of
from app.products.conformance.checking.repeating import RepeatingClient

_RETRY_S = 0.05
# After these errors the topic may exist.
_UNCERTAIN = frozenset({KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})  # noqa: SLF001 - a public name
_QUIET: dict[str, Any] = {
    "client.id": "fenceline-conformance",
    # Errors are raised by the calls; on the terminal they would break the table.
    "log_level": 0,
    "error_cb": lambda _error: None,  # pyright: ignore[reportUnknownLambdaType]
    "reconnect.backoff.max.ms": 500,
    **NEVER_CREATE_TOPICS,
}
READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


class BenchPlace:
    """The cluster of a run, and the topics and groups that it creates there.

    Args:
        resolved: client settings with their secrets.
        prefix: the start of every topic, group and transactional id of the run; unique to the run.
        brokers: every reported value of each broker setting.
        patience_s: the time limit for background work of brokers: timeouts, compaction.
    """

    def __init__(
        self,
        resolved: Mapping[str, str],
        *,
        prefix: str,
        replication_factor: int,
        brokers: Mapping[str, Sequence[str]],
        patience_s: float,
    ) -> None:
        self.resolved = dict(resolved)
        self.prefix = prefix
        self.replication_factor = replication_factor
        self.brokers = brokers
        self.patience_s = patience_s
        self.left_behind: list[str] = []
        self.admin = AdminClient({**resolved, **_QUIET})

    def close(self) -> None:
        """Close explicitly: the garbage collector may run on a client's own thread, which would end the process."""
        cast("Any", self.admin).__exit__(None, None, None)


class Bench:
    """One check's clients on a `Place`; a context manager.

    It makes everything that a check relies on, so that a test can break it on purpose and see the check fail.
    """

    transaction_timeout_ms = 60_000
    short_timeout_ms = 2_000
    within_s = CALL_S

    def __init__(self, place: BenchPlace, check: str) -> None:
        self.place = place
        self.name = f"{place.prefix}-{check}"
        self._clients = ExitStack()
        self._topics: dict[str, int] = {}
        self._groups: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._clients.close()
        finally:
            self._delete()

    def topic(self, suffix: str = "", *, partitions: int = 1, **settings: str) -> str:
        """Create a topic that can be written to; `settings` have underscores for dots."""
        name = f"{self.name}{suffix}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        replicas = self.place.replication_factor
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=config)
        # Recorded first, so that a topic with a late answer is deleted as well.
        self._topics[name] = partitions
        try:
            self._result(cast("dict[str, Future[None]]", self.place.admin.create_topics([topic]))[name])
        except KafkaException as error:
            if error_of(error).code() not in _UNCERTAIN:
                del self._topics[name]
            what = f"the topic was refused{f' with {config}' if config else ''}"
            raise CheckRefusedError(error_of(error), operation="Create", what=what) from error
        deadline = time.monotonic() + CALL_S
        while not self._has_leaders(name, partitions):
            if time.monotonic() > deadline:
                raise UnavailableError(f"{name} has no leader for each of its partitions after {CALL_S:g} s")
            time.sleep(_RETRY_S)
        return name

    def writer(self, which: str = "writer", *, timeout_ms: int | None = None) -> Writer:
        """Make a transactional producer. `which`: two writers of one name have the same transactional id."""
        settings = {"transaction.timeout.ms": timeout_ms or self.transaction_timeout_ms}
        return self._transactional_writer({**self._settings(), **settings}, f"{self.name}-{which}")

    def plain_writer(self) -> Writer:
        return self._keep(Writer(self._settings()))

    def reader(self, topic: str) -> TopicReader:
        """A `read_committed` consumer."""
        return self._reader(topic, READ_COMMITTED)

    def reader_of_everything(self, topic: str) -> TopicReader:
        """A `read_uncommitted` consumer, the check's control: it shows that the records were written."""
        return self._reader(topic, READ_UNCOMMITTED)

    def group(self) -> str:
        if self.name not in self._groups:
            self._groups.append(self.name)
        return self.name

    def outsider(self) -> Consumer:
        """A consumer that never joins the group. The committed offsets that it returns are not pending."""
        return self._consumer(**{"isolation.level": READ_UNCOMMITTED})

    def member(self, topic: str) -> Consumer:
        """A consumer that gets partitions of the topic as a member of the group."""
        consumer = self._consumer()
        consumer.subscribe([topic])
        deadline = time.monotonic() + CALL_S
        while not consumer.assignment():
            message = consumer.poll(_RETRY_S)
            if message is not None and (error := message.error()) is not None:
                raise KafkaException(error)
            if time.monotonic() > deadline:
                raise UnavailableError(f"no assignment in the group {self.name} within {CALL_S:g} s")
        return consumer

    def leave(self, member: Consumer) -> None:
        """Leave the group, and return when the group knows it."""
        member.close()
        deadline = time.monotonic() + CALL_S
        while self._members():
            if time.monotonic() > deadline:
                raise UnavailableError(f"the group {self.name} has a member {CALL_S:g} s after it left")
            time.sleep(_RETRY_S)

    def metadata_of(self, member: Consumer) -> Any:
        """The metadata to send offsets with, including the member's generation, so that the group can refuse them."""
        return member.consumer_group_metadata()

    def send_offset(self, writer: Writer, offset: TopicPartition) -> None:
        """Send the offset in the writer's transaction, for the group."""
        writer.send_offsets([offset], self.outsider().consumer_group_metadata())

    def committed(self, at: TopicPartition) -> int:
        """Return the group's committed offset; below zero when there is none."""
        (found,) = self.outsider().committed([at], CALL_S)
        return found.offset

    def topic_settings(self, topic: str) -> dict[str, str]:
        """Return the effective settings of the topic."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = cast(
            "dict[ConfigResource, Future[dict[str, ConfigEntry]]]", self.place.admin.describe_configs([resource])
        )
        try:
            found = self._result(asked[resource])
        except KafkaException as error:
            what = f"the settings of {topic} are not readable"
            raise CheckRefusedError(error_of(error), operation="DescribeConfigs", what=what) from error
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    @contextmanager
    def repeating(self) -> Generator[RepeatingClient]:
        """Make a sender that repeats a client's requests."""
        with RepeatingClient(self.place.resolved, ConnectionAttempt(self.place.resolved[BOOTSTRAP], CALL_S)) as client:
            yield client

    def refused(self, step: Callable[[], None]) -> KafkaError | None:
        """Return the error of a broker or client in a step; None if it succeeded."""
        try:
            step()
        except KafkaException as error:
            return error_of(error)
        return None

    def _transactional_writer(self, settings: Mapping[str, Any], transactional_id: str) -> Writer:
        return self._keep(Writer(settings, transactional_id=transactional_id))

    def _reader(self, topic: str, isolation: str) -> TopicReader:
        settings = {**self._settings(), "isolation.level": isolation}
        reader = TopicReader(settings, topic, partitions=self._topics[topic], within_s=self.within_s)
        self._clients.callback(reader.close)
        return reader

    def _consumer(self, **settings: Any) -> Consumer:
        consumer = Consumer(
            {
                "group.id": self.group(),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **self._settings(),
                **settings,
            }
        )
        self._clients.callback(consumer.close)
        return consumer

    def _keep(self, writer: Writer) -> Writer:
        self._clients.callback(writer.close)
        return writer

    def _members(self) -> int:
        asked = cast("dict[str, Future[Any]]", self.place.admin.describe_consumer_groups([self.name]))
        return len(self._result(asked[self.name]).members)

    def _settings(self) -> dict[str, Any]:
        return {**self.place.resolved, **_QUIET}

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        try:
            found = self.place.admin.list_topics(topic, timeout=CALL_S).topics[topic]
        except KafkaException as error:
            what = f"the leaders of {topic} are not readable"
            raise CheckRefusedError(error_of(error), operation="Describe", what=what) from error
        leaders = [part.leader for part in found.partitions.values()]
        return len(leaders) == partitions and all(leader >= 0 for leader in leaders)

    def _result(self, future: Future[Any]) -> Any:
        return future.result(CALL_S)

    def _delete(self) -> None:
        """Delete topics and groups; those that cannot be deleted are reported in `left_behind`."""
        admin = self.place.admin
        if self._topics:
            self._settle(cast("dict[str, Future[None]]", admin.delete_topics(list(self._topics))), "topic")
        if self._groups:
            self._settle(cast("dict[str, Future[None]]", admin.delete_consumer_groups(self._groups)), "group")
        self._topics.clear()
        self._groups.clear()

    def _settle(self, deleted: Mapping[str, Future[None]], kind: str) -> None:
        gone = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND)
        for name, future in deleted.items():
            try:
                self._result(future)
            except KafkaException as error:
                if error_of(error).code() not in gone:
                    self.place.left_behind.append(f"{kind} {name}: {error_of(error).str()}")
            except TimeoutError:
                self.place.left_behind.append(f"{kind} {name}: no answer within {CALL_S:g} s")
