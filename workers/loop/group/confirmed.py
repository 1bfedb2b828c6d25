"""The commits of this task that the brokers have confirmed: no later answer of a coordinator may be below them."""

from __future__ import annotations

from collections.abc import Mapping

from app.core.clusters.partition import Partition
from workers.loop.errors import RetriableError
from workers.loop.group.ownership import Ownership


class ConfirmedOffsets:
    """The offset of the last confirmed commit of each partition, under the ownership number of its time.

    A broker that was frozen or cut off may have lost a group to another one. Until it learns that, it acts as the
    group's coordinator: it answers with old offsets, from memory, even with `require_stable`. A rewind to them would
    process records again whose outputs are committed. While a partition is ours no other member can commit for it, and
    a group with members cannot be reset. So an answer below our own last commit is old, and is requested again.

    Not with at_least_once: a late commit of another member may have set the offset back for good.
    """

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership
        self._offsets: dict[Partition, tuple[int, int]] = {}

    def add(self, positions: Mapping[Partition, int]) -> None:
        """Add offsets that the broker has confirmed as committed."""
        number = self._ownership.number
        self._offsets.update({name: (number(name), offset) for name, offset in positions.items()})

    def refuse_older(self, found: Mapping[Partition, int | None]) -> None:
        """Raises RetriableError if an answer is older than a commit confirmed under the current ownership."""
        for partition, offset in found.items():
            number, confirmed = self._offsets.get(partition, (-1, -1))
            if self._ownership.is_unchanged(partition, number) and (offset is None or offset < confirmed):
                answer = "nothing" if offset is None else str(offset)
                raise RetriableError(
                    f"{partition}: the coordinator reports {answer} as committed, but {confirmed} "
                    "was confirmed; it may be a replaced coordinator"
                )
