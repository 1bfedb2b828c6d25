"""Under which leader epoch the record before an offset was read: committed beside it, and compared at a start."""

from __future__ import annotations

from collections.abc import Mapping

from workers.loop.group.ownership import Ownership, Partition

NO_EPOCH = -1
_KEPT = 8
"""A checkpoint ends at the position of one of the last polls."""


class LeaderEpochs:
    """Epochs by the very offset that they were read or answered with; of any other offset nothing is said.

    A log that was cut by an unclean election and has grown since holds other records at the same offsets. Only their
    epoch tells: the broker says where the epoch of the committed offset ended (OffsetForLeaderEpoch, KIP-320). The
    client asks that for a seek with an epoch, and not for the committed offset that it begins at (librdkafka 2.16,
    rdkafka_partition.c). So the first position behind the committed offset tells whether it is worth asking: only where
    the epoch has moved on may the log have been cut. Under which epoch an offset in between was written is not known:
    transaction markers and aborted records of a later one may lie before it.
    """

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._epochs: dict[Partition, dict[int, int]] = {}
        self._begun: dict[Partition, tuple[int, int]] = {}
        self._to_ask: set[Partition] = set()
        self._asked: dict[Partition, tuple[int, int]] = {}

    def note(self, partition: Partition, offset: int, epoch: int | None) -> None:
        """None or -1: the client does not know it; what is known of that offset stays."""
        if epoch is None or epoch < 0 or offset < 0:
            return
        of_partition = self._epochs.setdefault(partition, {})
        if of_partition.get(offset) != epoch:
            of_partition.pop(offset, None)
            of_partition[offset] = epoch
            if len(of_partition) > _KEPT:
                del of_partition[next(iter(of_partition))]

    def of(self, partition: Partition, offset: int) -> int:
        """NO_EPOCH where it is not known: committed so, nothing is compared."""
        return self._epochs.get(partition, {}).get(offset, NO_EPOCH)

    def begins(self, partition: Partition, committed: int) -> None:
        """The group has committed this offset: the first position behind it is compared with it."""
        self._begun[partition] = self._ownership.number(partition), committed

    def must_ask(self, moved: Mapping[Partition, int]) -> bool:
        """Whether to go back to what is committed and have the client ask (`of_seek`), once for each assignment.

        Args:
            moved: the positions that are about to be committed, whether a record was read before them or not.
        """
        return bool([name for name, position in moved.items() if self._must_ask(name, position)])

    def _must_ask(self, partition: Partition, position: int) -> bool:
        begun = self._begun.get(partition)
        if begun is None or position <= begun[1]:
            return False
        epoch = self.of(partition, begun[1])
        is_answered = begun[0] != self._ownership.number(partition) or self._asked.get(partition) == begun
        if is_answered or epoch == NO_EPOCH or self.of(partition, position) <= epoch:
            del self._begun[partition]
            return False
        self._asked[partition] = begun
        self._to_ask.add(partition)
        return True

    def of_seek(self, partition: Partition, offset: int) -> int:
        """The epoch to seek with: NO_EPOCH, unless it is to be asked whether the log was cut before the offset."""
        if partition not in self._to_ask:
            return NO_EPOCH
        self._to_ask.discard(partition)
        return self.of(partition, offset)
