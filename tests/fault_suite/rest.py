"""The conditions on brokers, beside the records, when a pipeline has come to rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tests.fault_suite.decided import Writer


class Ends(NamedTuple):
    """The ends of a topic, by partition: of a read_committed consumer, and of a read_uncommitted one."""

    stable: Mapping[int, int]
    high: Mapping[int, int]


class AtRest(NamedTuple):
    """committed: the group's offsets in the source. open: transactions without a marker, by the log that has them.
    Their later end does not matter at rest. untransacted: offsets that were committed outside of a transaction.
    lost: by partition, an offset that was deleted and not set again."""

    source: Ends
    sink: Ends
    committed: Mapping[int, int]
    open: Mapping[str, Sequence[Writer]]
    untransacted: Sequence[str]
    lost: Mapping[int, int] = MappingProxyType({})

    def contradictions(self) -> list[str]:
        """A sentence for each; none: it is at rest."""
        found: list[str] = []
        for name, ends in (("source", self.source), ("sink", self.sink)):
            for partition, high in sorted(ends.high.items()):
                stable = ends.stable.get(partition)
                if stable != high:
                    found.append(f"partition {partition} of the {name} ends at {high} and is readable up to {stable}")
        for partition, high in sorted(self.source.high.items()):
            # A partition without records needs no commit.
            if self.committed.get(partition, 0) != high:
                found.append(f"partition {partition} is consumed up to {self.committed.get(partition)} of {high}")
        for name, writers in sorted(self.open.items()):
            found += [f"{name} has an open transaction of {writer}" for writer in writers]
        if self.untransacted:
            found.append(f"{len(self.untransacted)} offsets outside of a transaction, first: {self.untransacted[0]}")
        for partition, offset in sorted(self.lost.items()):
            found.append(f"partition {partition} was started as new: its offset {offset} was deleted and not set again")
        return found
