"""The leader epoch of the record before an offset: committed beside it, and compared at a start."""

from __future__ import annotations

from collections.abc import Mapping

from app.core.clusters.partition import Partition
from workers.loop.group.ownership import Ownership

NO_EPOCH = -1
_KEPT = 8
"""A checkpoint ends at the position of one of the last polls."""


class LeaderEpochs:
    """The epochs of exactly those offsets that were read or answered with one.

    A log that was cut by an unclean election and has grown since holds other records at the same offsets. Only their
    epoch differs: the broker reports the end of the committed offset's epoch (OffsetForLeaderEpoch, KIP-320). The
    client requests that for a seek with an epoch, and not for the committed offset that it begins at (librdkafka 2.16,
    rdkafka_partition.c). So the first position behind the committed offset decides: only with a later epoch may the
    log have been cut. The epoch of an offset in between is not known: transaction markers and aborted records of a
    later one may lie before it.
    """

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._epochs: dict[Partition, dict[int, int]] = {}
        self._begun: dict[Partition, tuple[int, int]] = {}
        self._doubted: dict[Partition, int] = {}
        self._to_ask: set[Partition] = set()
        self._asked: dict[Partition, tuple[int, int]] = {}

    def note(self, partition: Partition, offset: int, epoch: int | None) -> None:
        """None or -1: the client does not know it; an epoch that is known for that offset is kept."""
        if epoch is None or epoch < 0 or offset < 0:
            return
        of_partition = self._epochs.setdefault(partition, {})
        if of_partition.get(offset) != epoch:
            of_partition.pop(offset, None)
            of_partition[offset] = epoch
            if len(of_partition) > _KEPT:
                del of_partition[next(iter(of_partition))]

    def of(self, partition: Partition, offset: int) -> int:
        """NO_EPOCH where it is not known: with such a commit nothing is compared."""
        return self._epochs.get(partition, {}).get(offset, NO_EPOCH)

    def begins(self, partition: Partition, committed: int) -> None:
        """Record that the group has committed this offset: the first position behind it is compared with it."""
        self._begun[partition] = self._ownership.number(partition), committed

    def doubt(self, partition: Partition, committed: int) -> bool:
        """Ask before anything behind this committed offset is committed; False: it has no epoch to ask for."""
        if self.of(partition, committed) == NO_EPOCH:
            return False
        self._doubted[partition] = committed
        return True

    def must_ask(self, moved: Mapping[Partition, int]) -> bool:
        """True if the client must seek the committed offsets with an epoch (`of_seek`), once for each assignment.

        Args:
            moved: the positions that are about to be committed, with or without a record read before them.
        """
        return bool([name for name, position in moved.items() if self._must_ask(name, position)])

    def _must_ask(self, partition: Partition, position: int) -> bool:
        begun = self._begun.get(partition)
        if begun is None or position <= begun[1]:
            return False
        epoch = self.of(partition, begun[1])
        is_answered = begun[0] != self._ownership.number(partition) or self._asked.get(partition) == begun
        is_later = self.of(partition, position) > epoch or self._doubted.get(partition) == begun[1]
        if is_answered or epoch == NO_EPOCH or not is_later:
            del self._begun[partition]
            return False
        self._asked[partition] = begun
        self._doubted.pop(partition, None)
        self._to_ask.add(partition)
        return True

    def of_seek(self, partition: Partition, offset: int) -> int:
        """The epoch to seek with: NO_EPOCH, unless the client must ask whether the log was cut before the offset."""
        if partition not in self._to_ask:
            return NO_EPOCH
        self._to_ask.discard(partition)
        return self.of(partition, offset)
