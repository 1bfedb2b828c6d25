"""The ports of the observer to the brokers' journals. They block, so they are called in a thread.

`connection` is the result of Cluster.connection(), with references to secrets that the implementation resolves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeVar

from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.core.observing.live_cluster import Folds

T = TypeVar("T")


class FetchOutcome(Enum):
    """READ: batches, perhaps none. GONE: the log no longer has the position; it continues at `next_offset`.

    REFUSED: the topic may not be read.
    """

    READ = "read"
    GONE = "gone"
    REFUSED = "refused"


class Stamp(NamedTuple):
    """The time of a record by its leader's clock. By this process's monotonic clock, it was after `after_s` and before
    `heard_s`.
    """

    stamped_ms: int
    after_s: float
    heard_s: float


class LogAnswer(NamedTuple):
    """The answer of a partition's leader. `end`: its high watermark. `refusal`: the broker's error.

    broker_id: the leader, -1 without an answer. stamp: of its newest record, if that is new.
    """

    heard: FetchOutcome
    topic: str
    partition: int
    batches: tuple[RecordBatch | UnreadableBatch, ...]
    next_offset: int
    end: int
    refusal: str = ""
    broker_id: int = -1
    stamp: Stamp | None = None


class TopicLook(NamedTuple):
    """A topic in the brokers' metadata: its partitions, or none with the reason if there is an error."""

    partitions: frozenset[int]
    refusal: str = ""


class AdminAnswers(NamedTuple, Generic[T]):
    """found: the ids or groups that may be described. missing: a sentence for each coordinator without an answer."""

    found: dict[str, T]
    missing: tuple[str, ...]


class Tail(Protocol):
    """One connection that follows partitions of journals, read_uncommitted, by one long poll at a time for each leader.

    Used by one thread; other threads may call `ask_coordinators` and `ask_group_coordinators`, which take long if
    brokers do not answer. Every method raises BrokerUnreachableError or UnavailableError for errors that a new
    connection may fix.
    """

    @property
    def kafka_cluster_id(self) -> str:
        """The id that the brokers report."""
        ...

    def look_up(self, topic: str) -> TopicLook:
        """Return the last metadata; they are requested again in the background if the topic does not exist."""
        ...

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Read this partition from `offset` on."""
        ...

    def leave(self, topic: str) -> None: ...

    def poll(self, *, timeout_s: float) -> list[LogAnswer]:
        """Return the answers since the last call, as soon as there is one."""
        ...

    def ask_coordinators(self, *, is_only_open: bool) -> AdminAnswers[LiveTransaction]:
        """Return the coordinators' current answers to ListTransactions and DescribeTransactions."""
        ...

    def ask_group_coordinators(self, *, is_wanted: Callable[[str], bool]) -> AdminAnswers[LiveGroup]:
        """Return the coordinators' current answers about groups and their offsets."""
        ...


class Journals(Protocol):
    def open(self, connection: Mapping[str, str], *, timeout_s: float) -> AbstractContextManager[Tail]:
        """Raises BrokerUnreachableError, UnavailableError, InvalidError if a secret cannot be resolved."""
        ...


class Restored(NamedTuple):
    """`folds` are empty without a usable file; `note` has the reason, or is empty without a file."""

    folds: Folds
    note: str


class FoldStore(Protocol):
    """Keeps the materialized state over restarts of a server."""

    def load(self, kafka_cluster_id: str) -> Restored:
        """A damaged file, or one of another cluster or version, is renamed, with a sentence; never an exception."""
        ...

    def save(self, kafka_cluster_id: str, folds: Folds) -> None:
        """Atomic. Raises UnavailableError."""
        ...
