"""The port of an audit to a cluster; workers/audit/brokers.py implements it by librdkafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from app.core.clusters.partition import Partition


class UnresolvableError(Exception):
    """The window cannot become offsets: a topic or a partition does not exist. The message names it."""


class TopicSettings(NamedTuple):
    """is_compacted: a later record with its key removes a record. has_append_time: they carry the time of writing."""

    is_compacted: bool = False
    has_append_time: bool = False


class AuditBrokers(Protocol):
    """The requests to the cluster. Every call may raise AuditReadError."""

    def partitions(self, topic: str) -> Sequence[int]:
        """The partitions of the topic; none: it does not exist."""
        ...

    def settings(self, topic: str) -> TopicSettings | None:
        """None: permission is missing."""
        ...

    def committed(self, group_id: str, partitions: Iterable[Partition]) -> Mapping[Partition, int | None]:
        """Offsets that the group has committed, without pending ones."""
        ...

    def beginnings(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def last_stable(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def high_watermarks(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]: ...

    def at_time(self, partitions: Iterable[Partition], at_ms: int) -> Mapping[Partition, int | None]:
        """The first offset of a record that is not older; None: there is none yet."""
        ...

    def time_at(self, partition: Partition, offset: int) -> int | None:
        """The time of the first record at or after this offset; None: there is none yet."""
        ...
