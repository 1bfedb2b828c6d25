"""The partitions that this task owns, each with the number that a checkpoint compares (rule 2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.core.clusters.partition import Partition


class Ownership:
    """An ownership number for each partition, raised by every assign, revoke and loss.

    A group's broker accepts a member's commit for a partition that another member owns by now. Membership therefore
    does not prove ownership. An unchanged number does: no callback has touched the partition since.
    """

    def __init__(self) -> None:
        self._numbers: dict[Partition, int] = {}
        self._owned: set[Partition] = set()
        self._changes = 0

    @property
    def owned(self) -> frozenset[Partition]:
        return frozenset(self._owned)

    @property
    def changes(self) -> int:
        """The number of callbacks so far."""
        return self._changes

    def assigned(self, partitions: Iterable[Partition]) -> None:
        taken = set(partitions)
        self._owned |= taken
        self._raise(taken)

    def given_up(self, partitions: Iterable[Partition]) -> None:
        """Record partitions as revoked or lost."""
        gone = set(partitions)
        self._owned -= gone
        self._raise(gone)

    def number(self, partition: Partition) -> int:
        return self._numbers.get(partition, 0)

    def is_unchanged(self, partition: Partition, number: int) -> bool:
        """True if the partition is owned under exactly this number."""
        return partition in self._owned and self.number(partition) == number

    def changed_among(self, numbers: Mapping[Partition, int]) -> list[Partition]:
        """The partitions whose number differs from the given one, sorted."""
        return sorted(partition for partition, number in numbers.items() if not self.is_unchanged(partition, number))

    def _raise(self, partitions: set[Partition]) -> None:
        self._changes += 1
        for partition in partitions:
            self._numbers[partition] = self.number(partition) + 1
