"""The brokers' journals as the observer follows them. What is here blocks: it belongs into a thread.

`connection` is what Cluster.connection() returns, secrets as references that the implementation resolves.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import NamedTuple, Protocol

from app.domain.journals.live_transactions import LiveTransaction
from app.domain.journals.record_batch import RecordBatch, UnreadableBatch
from app.domain.observing.live_cluster import Folds


class Heard(Enum):
    """READ: batches, perhaps none. GONE: the log has nothing at our position; it goes on at `next_offset`.

    REFUSED: the topic may not be read.
    """

    READ = "read"
    GONE = "gone"
    REFUSED = "refused"


class LogAnswer(NamedTuple):
    """What the leader of one partition said. `end`: its high watermark. `refusal`: in the broker's words."""

    heard: Heard
    topic: str
    partition: int
    batches: tuple[RecordBatch | UnreadableBatch, ...]
    next_offset: int
    end: int
    refusal: str = ""


class Look(NamedTuple):
    """A topic as the brokers describe it: no partitions, and why, or that it is not there."""

    partitions: frozenset[int]
    refusal: str = ""


class Polled(NamedTuple):
    """found: those ids that we may describe. missing: a sentence for each coordinator that said nothing."""

    found: dict[str, LiveTransaction]
    missing: tuple[str, ...]


class Tail(Protocol):
    """One connection that follows partitions of journals, read_uncommitted, one long poll at a time for each leader.

    Used by one thread; `ask_coordinators`, which takes long where brokers are silent, may be asked in another. Every
    method raises BrokerUnreachableError or UnavailableError for what a new connection may mend.
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

    def ask_coordinators(self, *, is_only_open: bool) -> Polled:
        """What the coordinators say to ListTransactions and DescribeTransactions now."""
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
