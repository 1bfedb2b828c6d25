"""A hanging transaction that the continuous search found, and its end."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.blocked.diagnosis import UNSEEN
from app.core.blocked.wording import abort_line, end_line
from app.core.clusters.partition import Partition


class HangingEnding(StrEnum):
    """ABORTED, COMMITTED: by a marker in its partition. ADOPTED: the next transaction of its id includes the partition,
    and ends these records with its own. GONE: it is no longer open, and the log has no marker of it.
    """

    ABORTED = "aborted"
    COMMITTED = "committed"
    ADOPTED = "adopted"
    GONE = "gone"


class HangingKey(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The values that stay the same while it hangs."""

    kafka_cluster_id: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int


class HangingTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that is open in a partition and that no coordinator will ever end.

    coordinator_epoch: for its abort marker. transactional_id: None if no coordinator knows the producer id.
    is_corroborated: the coordinators' journal does not have it either; otherwise its id may lack the DESCRIBE
    permission. why: the coordinators' answers, as part of a sentence. high_watermark: at the last time that it was open
    (`seen_ms`, by the server's clock); its marker lies behind that. last_written_ms: by the broker's clock.
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
        return Partition(self.key.topic, self.key.partition)

    @property
    def identity(self) -> tuple[int, int, int]:
        """As in OpenTransaction."""
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
            f"{key.start_offset:,} on: {self.why}. read_committed consumers are blocked there until a user ends it."
            f"{'' if self.is_corroborated else UNSEEN}"
        )

    def commands(self, bootstrap_servers: str) -> tuple[str, str]:
        """Commands to paste that end it: Fenceline's and Kafka's own."""
        key = self.key
        return (
            end_line(key.topic, key.partition, bootstrap_servers, start_offset=key.start_offset),
            abort_line(key.topic, key.partition, key.start_offset, bootstrap_servers),
        )


class HangingOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a hanging transaction. at_ms: of the marker, by the broker's clock; without one, of its detection, by
    the server's.
    """

    transaction: HangingTransaction
    ending: HangingEnding
    at_ms: int
    marker_offset: int | None = None
