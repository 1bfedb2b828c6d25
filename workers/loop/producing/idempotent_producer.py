"""The producer of `at_least_once`: outputs are delivered before the input offsets are committed."""

# Its methods have the arguments of TaskProducer, needed here or not.
# ruff: noqa: ARG002

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from workers.loop.client_config import Config
from workers.loop.control import ProducerIdentity
from workers.loop.errors import AbortableError, FatalError, translated
from workers.loop.group.offset_commits import OffsetCommits
from workers.loop.producing.producers import QueueingProducer, SendsFor
from workers.loop.producing.statistics import Statistics
from workers.loop.slices import SLICE_S, CallPatience


class _FailureKeeper:
    """Receives failed deliveries (at_least_once; a transaction fails by itself)."""

    def __init__(self) -> None:
        self.first: KafkaError | None = None
        self.topic: str | None = None
        self.count = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            if self.first is None:
                self.first, self.topic = error, message.topic()
            self.count += 1

    def clear(self) -> None:
        self.first, self.topic, self.count = None, None, 0


class IdempotentProducer(QueueingProducer):
    """Idempotent, not transactional: its records can be read at once and cannot be aborted."""

    def __init__(self, config: Config, commits: OffsetCommits) -> None:
        self._failures = _FailureKeeper()
        self._offsets: list[TopicPartition] = []
        self._commits = commits
        statistics = Statistics(None)
        producer = Producer({**config, "on_delivery": self._failures, "stats_cb": statistics})
        super().__init__(producer, statistics, config)

    def init(self, timeout_s: float) -> None:
        """Nothing to take over: no id is shared with a predecessor."""

    def begin(self) -> None:
        self.count_anew()
        self._failures.clear()
        self._offsets = []

    def flush(self, *, patience: CallPatience) -> None:
        super().flush(patience=patience)
        if self._failures.first is not None:
            error = translated(
                self._failures.first, f"deliver {self._failures.count} outputs", topic=self._failures.topic
            )
            raise error if isinstance(error, AbortableError | FatalError) else AbortableError(str(error))

    def send_offsets(self, offsets: list[TopicPartition], sends_for: SendsFor, *, patience: CallPatience) -> None:
        """Keep them for `commit`: there is no transaction that they could join."""
        self._offsets = offsets

    def commit(self, *, patience: CallPatience, confirmed: Callable[[], None]) -> None:
        """Send the offsets; AbortableError when those before them are not answered within the bound."""
        if self._offsets:
            self._commits.commit(self._offsets, bound_s=max(SLICE_S, patience.bound_s), confirmed=confirmed)

    def abort(self, *, patience: CallPatience) -> None:
        """Nothing: written records stay written, and will be written again."""

    def identity(self, *, timeout_s: float) -> ProducerIdentity | None:
        """A producer without a transactional id cannot be fenced."""
        return None

    @property
    def may_have_bumped(self) -> bool:
        return False
