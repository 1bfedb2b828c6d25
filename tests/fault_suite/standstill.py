"""For how long nothing of a source partition came out, and which fault it was."""

from __future__ import annotations

from typing import NamedTuple

from tests.fault_suite.plan import Kind

_SHORTEST_S = 0.2
"""Twice the commit interval: a shorter gap counts as none."""


class _Begun(NamedTuple):
    kind: Kind
    at: float


class Standstills:
    """Gets faults and outputs as they come, in the time of one clock; keeps the longest gap by kind.

    A gap belongs to the fault that began in it, else to the last one before it: a late recovery is its fault. A gap in
    which several began belongs to none alone, and counts for all of them together only.
    """

    def __init__(self) -> None:
        self._faults: list[_Begun] = []
        self._last: dict[int, float] = {}
        self.longest_s = 0.0
        self.by_kind: dict[Kind, float] = {}

    def begun(self, kind: Kind, at: float) -> None:
        self._faults.append(_Begun(kind, at))

    def expected(self, partition: int, at: float) -> None:
        """From now on something of this source partition should come out."""
        self._last.setdefault(partition, at)

    def silent_since(self, at: float) -> list[int]:
        """The partitions of which nothing has come out after this moment."""
        return sorted(partition for partition, last in tuple(self._last.items()) if last <= at)

    def output(self, partition: int, at: float) -> None:
        """Something of this source partition has come out."""
        since = self._last.get(partition, at)
        self._last[partition] = at
        gap_s = at - since
        if gap_s < _SHORTEST_S:
            return
        self.longest_s = max(self.longest_s, gap_s)
        kind = self._whose(since, at)
        if kind is not None:
            self.by_kind[kind] = max(self.by_kind.get(kind, 0.0), gap_s)

    def ended(self, at: float) -> None:
        """Count partitions without outputs as a gap until now."""
        for partition in tuple(self._last):
            self.output(partition, at)

    def _whose(self, since: float, at: float) -> Kind | None:
        within = [fault for fault in self._faults if since < fault.at <= at]
        before = [fault for fault in self._faults if fault.at <= since]
        found = within or before[-1:]
        return found[0].kind if len(found) == 1 else None
