"""The requests of a task while no records come."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.core.clusters.partition import Partition
from workers.loop.errors import LoopError
from workers.loop.group.membership import CommittedPosition, Membership
from workers.loop.lanes import Lane, Lanes
from workers.loop.records.trials import tells_of_a_trial
from workers.loop.telling.progress import ProgressReporter

_EVERY_S = 1.0
_ASK_S = 0.2


class IdleLook:
    """Sends a few requests to brokers, once a second. Nothing depends on the answers: missing ones are repeated."""

    def __init__(
        self, membership: Membership, *, lanes: Lanes, progress: ProgressReporter, clock: Callable[[], float]
    ) -> None:
        self._membership = membership
        self._lanes = lanes
        self._progress = progress
        self._clock = clock
        self._looked_at = clock()

    def is_due(self) -> bool:
        """True once in a while; a call that returns True counts as the check."""
        now = self._clock()
        if now - self._looked_at < _EVERY_S:
            return False
        self._looked_at = now
        return True

    def committable(self, lane: Lane, moved: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """The positions, moved past transaction markers and aborted records, that may be committed.

        Left out: partitions with a note about a death beside the committed offset. The commit would remove the note
        before the first batch has read it (rule 7). If a log may have been cut, none are returned: the commit would
        remove the epoch that shows it. So the lane rewinds and the client asks.
        """
        unvetted = frozenset(lane.suspicion.unvetted(moved))
        found: Mapping[Partition, CommittedPosition] = {}
        if unvetted:
            try:
                found = self._membership.committed(unvetted, timeout_s=_ASK_S)
            except LoopError:
                # Pending offsets, a slow broker: the other positions may still be committed.
                found = {}
        clear = {name for name, committed in found.items() if not tells_of_a_trial(committed.metadata)}
        for name in clear:
            offset = found[name].offset
            if offset is not None:
                self._membership.begins(name, offset)
        wanted = {name: offset for name, offset in moved.items() if name not in unvetted or name in clear}
        if self._membership.epochs.must_ask(wanted):
            self._lanes.commit([lane])
            lane.settling.require_rewind()
            return {}
        return wanted

    def learn(self) -> None:
        """Read committed offsets of partitions that delivered nothing yet, and log ends of paused ones."""
        owned = self._membership.ownership.owned
        unknown = self._progress.unknown(owned)
        try:
            if unknown:
                for partition, committed in self._membership.committed(unknown, timeout_s=_ASK_S).items():
                    self._progress.learned(partition, committed.offset)
            if self._membership.is_held and owned:
                # Fetches report where logs end, and paused partitions are not fetched.
                bounds = self._membership.bounds(owned, timeout_s=_ASK_S)
                self._progress.ends({partition: log.end for partition, log in bounds.items()})
        except LoopError:
            # Pending offsets, a slow broker, a topic that is just being deleted.
            return
