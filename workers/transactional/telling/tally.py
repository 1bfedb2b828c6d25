"""What an attempt has done so far. Work counts when its checkpoint is committed; what was aborted is done again."""

from __future__ import annotations

import msgspec

from app.wire.heartbeat import Counters


class Work(msgspec.Struct, kw_only=True):
    """What one checkpoint holds."""

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    records_skipped: int = 0
    records_dead_lettered: int = 0


class Tally:
    """Totals of committed work, beside the work of the open checkpoint."""

    def __init__(self) -> None:
        self.open = Work()
        self.fencings = 0
        self._done = Work()
        self._committed = 0
        self._aborted = 0
        self._unknown = 0

    def begin(self) -> None:
        """What follows is work of another checkpoint."""
        self.open = Work()

    def committed(self, work: Work) -> None:
        """A checkpoint with this work is committed, as the broker says."""
        self._committed += 1
        for name in Work.__struct_fields__:
            setattr(self._done, name, getattr(self._done, name) + getattr(work, name))

    def aborted(self) -> None:
        self._aborted += 1
        self.open = Work()

    def outcome_unknown(self) -> None:
        """Neither: what it held is read again if it turns out not to be committed, and is then counted."""
        self._unknown += 1
        self.open = Work()

    def counters(self) -> Counters:
        return Counters(
            **msgspec.structs.asdict(self._done),
            transactions_committed=self._committed,
            transactions_aborted=self._aborted,
            transactions_unknown=self._unknown,
            fencings=self.fencings,
        )
