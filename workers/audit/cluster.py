"""What an audit asks of a cluster; workers/audit/brokers.py asks it by librdkafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

Partition = tuple[str, int]


class UnresolvableError(Exception):
    """The window cannot become offsets: a topic or a partition is not there. The message names it."""


class TopicSettings(NamedTuple):
    """is_compacted: records go once a later one has their key. has_append_time: they carry the time of writing."""

    is_compacted: bool = False
    has_append_time: bool = False


class Brokers(Protocol):
    """What is asked of the cluster. Every call may raise AuditReadError."""

    def partitions(self, topic: str) -> Sequence[int]:
        """Those of the topic; none: it does not exist."""
        ...

    def settings(self, topic: str) -> TopicSettings | None:
        """None: they may not be asked."""
        ...

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> Mapping[Partition, int | None]:
        """Offsets that the group has committed, without what a transaction has not decided yet."""
        ...

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def last_stable(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def high_watermarks(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def at_time(self, partitions: Iterable[Partition], at_ms: int) -> Mapping[Partition, int | None]:
        """The first offset of a record that is not older; None: there is none yet."""
        ...

    def time_at(self, partition: Partition, offset: int) -> int | None:
        """When the first record at or after this offset was written; None: there is none yet."""
        ...
