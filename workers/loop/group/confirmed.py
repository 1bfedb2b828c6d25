"""What the brokers have confirmed of this task's commits: no later answer of a coordinator may lie below it."""

from __future__ import annotations

from collections.abc import Mapping

from workers.loop.errors import RetriableError
from workers.loop.group.ownership import Ownership, Partition


class Confirmed:
    """The offset of the last confirmed commit of each partition, under the ownership number of its time.

    A broker that was frozen or cut off may have lost a group to another one. Until it hears of that it goes on as the
    group's coordinator: it answers with the offsets of then, `require_stable` or not, since it reads them from memory.
    Whoever went back to these would process records again whose outputs are committed. While a partition is ours
    nobody else can commit for it, and nobody can reset a group that has members; so an answer below our own last
    commit is such an old one, and is asked for again.

    Not with at_least_once: a commit of somebody else that comes late may have set the offset back for good.
    """

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._offsets: dict[Partition, tuple[int, int]] = {}

    def add(self, positions: Mapping[Partition, int]) -> None:
        """The broker has said that these are committed."""
        number = self._ownership.number
        self._offsets.update({name: (number(name), offset) for name, offset in positions.items()})

    def refuse_older(self, found: Mapping[Partition, int | None]) -> None:
        """Raises RetriableError if an answer is older than a commit that was confirmed since the partition is ours."""
        for partition, offset in found.items():
            number, confirmed = self._offsets.get(partition, (-1, -1))
            if self._ownership.is_unchanged(partition, number) and (offset is None or offset < confirmed):
                answer = "nothing" if offset is None else str(offset)
                raise RetriableError(
                    f"the group's coordinator says that {answer} is committed for {partition[0]}-{partition[1]}, where "
                    f"{confirmed} has been confirmed: it seems to be one that was replaced and does not know it yet"
                )
