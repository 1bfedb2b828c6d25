"""A hanging transaction as the continuous search has found it, and how it came to its end."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.blocked.diagnosis import UNSEEN
from app.core.blocked.facts import Partition
from app.core.blocked.wording import abort_line, end_line


class Ending(StrEnum):
    """ABORTED, COMMITTED: by a marker in its partition. ADOPTED: its id's next transaction took the partition in, and
    decides these records with its own. GONE: it is open no longer, and no marker of it was found in the log.
    """

    ABORTED = "aborted"
    COMMITTED = "committed"
    ADOPTED = "adopted"
    GONE = "gone"


class HangingKey(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What stays the same while it hangs."""

    kafka_cluster_id: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int


class HangingTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """Open in a partition, and no coordinator will ever end it.

    coordinator_epoch: the one that an abort marker for it takes. transactional_id: None where no coordinator says whose
    the producer id is. is_corroborated: the coordinators' journal does not account for it either; without that it may
    be of an id that we may not describe. why: what the coordinators said, as a clause. high_watermark: when it was last
    seen open (`seen_ms`, our clock); its marker lies behind that. last_written_ms: by the broker's clock.
    """

    key: HangingKey
    coordinator_epoch: int
    last_written_ms: int
    transactional_id: str | None
    is_corroborated: bool
    why: str
    found_ms: int
    seen_ms: int
    high_watermark: int

    @property
    def at(self) -> Partition:
        return self.key.topic, self.key.partition

    @property
    def identity(self) -> tuple[int, int, int]:
        """As OpenTransaction has it."""
        return self.key.producer_id, self.key.producer_epoch, self.key.start_offset

    @property
    def name(self) -> str:
        return f"{self.key.topic}-{self.key.partition}"

    @property
    def sentence(self) -> str:
        """For a person on call."""
        key = self.key
        return (
            f"A transaction of producer {key.producer_id} epoch {key.producer_epoch} hangs in {self.name} from offset "
            f"{key.start_offset:,} on: {self.why}. Readers of committed data stop there until somebody ends it."
            f"{'' if self.is_corroborated else UNSEEN}"
        )

    def commands(self, bootstrap_servers: str) -> tuple[str, str]:
        """Lines to paste that end it: ours and Kafka's own."""
        key = self.key
        return (
            end_line(key.topic, key.partition, bootstrap_servers, start_offset=key.start_offset),
            abort_line(key.topic, key.partition, key.start_offset, bootstrap_servers),
        )


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How one came to its end. at_ms: of the marker, by the broker's clock; without one, when we saw it (our clock)."""

    transaction: HangingTransaction
    ending: Ending
    at_ms: int
    marker_offset: int | None = None
