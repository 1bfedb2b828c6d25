"""The counters of an attempt. Work counts when its checkpoint is committed; aborted work is done again."""

from __future__ import annotations

import msgspec

from app.core.wire.heartbeat import Counters
from workers.loop.records.bad_record_log import BadRecordLog


class Work(msgspec.Struct, kw_only=True):
    """The work in one checkpoint."""

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records_skipped: int = 0
    records_dead_lettered: int = 0


class Totals:
    """The totals of all tallies of an attempt."""

    def __init__(self) -> None:
        self.done = Work()
        self.bad = BadRecordLog()
        self.committed = 0
        self.aborted = 0
        self.unknown = 0
        self.fencings = 0


class WorkTally:
    """Totals of committed work, beside the work of the open checkpoint.

    `totals` is given where several checkpoints are open at once: each has a tally, and they add up.
    """

    def __init__(self, totals: Totals | None = None) -> None:
        self.open = Work()
        self.totals = totals or Totals()

    def begin(self) -> None:
        """Begin the work of another checkpoint."""
        self.open = Work()

    def committed(self, work: Work) -> None:
        """Add the work of a checkpoint that the broker has confirmed."""
        self.totals.committed += 1
        done = self.totals.done
        for name in Work.__struct_fields__:
            setattr(done, name, getattr(done, name) + getattr(work, name))

    def aborted(self) -> None:
        self.totals.aborted += 1
        self.open = Work()

    def fenced(self) -> None:
        self.totals.fencings += 1

    def outcome_unknown(self) -> None:
        """Count an unknown outcome. If it was not committed, its records are read and counted again."""
        self.totals.unknown += 1
        self.open = Work()

    def counters(self) -> Counters:
        return Counters(
            **msgspec.structs.asdict(self.totals.done),
            transactions_committed=self.totals.committed,
            transactions_aborted=self.totals.aborted,
            transactions_unknown=self.totals.unknown,
            fencings=self.totals.fencings,
        )
