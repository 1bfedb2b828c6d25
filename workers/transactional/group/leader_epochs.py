"""Under which leader epoch the record before an offset was read: committed beside it, and compared at a start."""

from __future__ import annotations

from workers.transactional.group.ownership import Partition

NO_EPOCH = -1
_KEPT = 8
"""A checkpoint ends at the position of one of the last polls."""


class LeaderEpochs:
    """Epochs by the very offset that they were read or answered with; of any other offset nothing is said.

    A log that was cut by an unclean election and has grown since holds other records at the same offsets. Only their
    epoch tells: the broker says where the epoch of the committed offset ended (OffsetForLeaderEpoch, KIP-320). The
    client asks that for a seek with an epoch, and not for the committed offset that it begins at (librdkafka 2.16,
    rdkafka_partition.c). So the first record that is read tells whether it is worth asking: only where the epoch has
    moved on since may the log have been cut.
    """

    def __init__(self) -> None:
        self._epochs: dict[Partition, dict[int, int]] = {}
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

    def must_ask(self, partition: Partition, *, committed: int, first: tuple[int, int | None], number: int) -> bool:
        """Whether to go back to the committed offset and have the client ask (`of_seek`), once for each assignment.

        Args:
            first: offset and epoch of the first record that was read after the committed offset.
            number: of the ownership.
        """
        epoch = self.of(partition, committed)
        offset, read = first
        if epoch == NO_EPOCH:
            return False
        # Notes are committed at the first record: its offset has the epoch of what was read before it, too.
        self.note(partition, offset, epoch)
        if read is None or read <= epoch or self._asked.get(partition) == (number, committed):
            return False
        self._asked[partition] = number, committed
        self._to_ask.add(partition)
        return True

    def of_seek(self, partition: Partition, offset: int) -> int:
        """The epoch to seek with: NO_EPOCH, unless it is to be asked whether the log was cut before the offset."""
        if partition not in self._to_ask:
            return NO_EPOCH
        self._to_ask.discard(partition)
        return self.of(partition, offset)
