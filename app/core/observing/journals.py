"""The brokers' journals as the observer follows them. What is here blocks: it belongs into a thread.

`connection` is what Cluster.connection() returns, secrets as references that the implementation resolves.
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


class Heard(Enum):
    """READ: batches, perhaps none. GONE: the log has nothing at our position; it goes on at `next_offset`.

    REFUSED: the topic may not be read.
    """

    READ = "read"
    GONE = "gone"
    REFUSED = "refused"


class Stamp(NamedTuple):
    """When a leader wrote a record, by its own clock; by ours (monotonic seconds) it was after `after_s`, and had
    arrived by `heard_s`."""

    stamped_ms: int
    after_s: float
    heard_s: float


class LogAnswer(NamedTuple):
    """What the leader of one partition said. `end`: its high watermark. `refusal`: in the broker's words.

    broker_id: the leader, -1 where nobody answered. stamp: of its newest record, where it came just now.
    """

    heard: Heard
    topic: str
    partition: int
    batches: tuple[RecordBatch | UnreadableBatch, ...]
    next_offset: int
    end: int
    refusal: str = ""
    broker_id: int = -1
    stamp: Stamp | None = None


class Look(NamedTuple):
    """A topic as the brokers describe it: no partitions, and why, or that it is not there."""

    partitions: frozenset[int]
    refusal: str = ""


class Polled(NamedTuple, Generic[T]):
    """found: those ids or groups that we may describe. missing: a sentence for each that did not answer or refused."""

    found: dict[str, T]
    missing: tuple[str, ...]


class Tail(Protocol):
    """One connection that follows partitions of journals, read_uncommitted, one long poll at a time for each leader.

    Used by one thread; `ask_coordinators` and `ask_group_coordinators`, which take long where brokers are silent, may
    be asked in others. Every method raises BrokerUnreachableError or UnavailableError for what a new connection may
    mend.
    """

    @property
    def kafka_cluster_id(self) -> str:
        """As the brokers report it."""
        ...

    def look_up(self, topic: str) -> Look:
        """As last heard; asked anew in the background when it is not there."""
        ...

    def follow(self, topic: str, partition: int, offset: int) -> None:
        """Read this partition from `offset` on."""
        ...

    def leave(self, topic: str) -> None: ...

    def poll(self, *, timeout_s: float) -> list[LogAnswer]:
        """What came since the last call, as soon as anything did."""
        ...

    def ask_coordinators(self, *, is_only_open: bool) -> Polled[LiveTransaction]:
        """What the coordinators say to ListTransactions and DescribeTransactions now."""
        ...

    def ask_group_coordinators(self, *, is_wanted: Callable[[str], bool]) -> Polled[LiveGroup]:
        """What the coordinators say of groups and their offsets now."""
        ...


class Journals(Protocol):
    def open(self, connection: Mapping[str, str], *, timeout_s: float) -> AbstractContextManager[Tail]:
        """Raises BrokerUnreachableError, UnavailableError, InvalidError when a secret cannot be resolved."""
        ...


class Restored(NamedTuple):
    """`folds` are empty where nothing usable was saved; `note` says so, or that there was nothing."""

    folds: Folds
    note: str


class FoldStore(Protocol):
    """Keeps what was folded between two lives of a server."""

    def load(self, kafka_cluster_id: str) -> Restored:
        """A file that is damaged, foreign or of another version is set aside, with a sentence; never an exception."""
        ...

    def save(self, kafka_cluster_id: str, folds: Folds) -> None:
        """All or nothing. Raises UnavailableError."""
        ...
