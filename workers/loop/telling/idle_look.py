"""What a task finds out while nothing comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workers.loop.errors import LoopError
from workers.loop.group.membership import Committed, Membership
from workers.loop.group.ownership import Partition
from workers.loop.lanes import Lane, Lanes
from workers.loop.records.trials import tells_of_a_trial
from workers.loop.telling.progress import Progress

_EVERY_S = 1.0
_ASK_S = 0.2


class IdleLook:
    """Asks the brokers a little, once a second. Nothing depends on the answers: what is not told is asked again."""

    def __init__(self, membership: Membership, *, lanes: Lanes, progress: Progress, clock: Callable[[], float]) -> None:
        self._membership = membership
        self._lanes = lanes
        self._progress = progress
        self._clock = clock
        self._looked_at = clock()

    def is_due(self) -> bool:
        """True once in a while; the asking counts as the look."""
        now = self._clock()
        if now - self._looked_at < _EVERY_S:
            return False
        self._looked_at = now
        return True

    def committable(self, lane: Lane, moved: Mapping[Partition, int]) -> Mapping[Partition, int]:
        """Those of the positions, moved past transaction markers and aborted records, that may be committed.

        Not where a note beside the committed offset tells of somebody's death: the commit would take it away before
        the first batch has brought it to anybody's notice (rule 7). None where a log may have been cut: the commit
        would take away the epoch that tells it, so the lane goes back and the client asks.
        """
        unvetted = frozenset(lane.suspicion.unvetted(moved))
        found: Mapping[Partition, Committed] = {}
        if unvetted:
            try:
                found = self._membership.committed(unvetted, timeout_s=_ASK_S)
            except LoopError:
                # Undecided offsets, a slow broker: the others may be committed all the same.
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
        """For the heartbeat: what is committed where nothing was delivered yet, and where logs end that are held."""
        owned = self._membership.ownership.owned
        unknown = self._progress.unknown(owned)
        try:
            if unknown:
                for partition, committed in self._membership.committed(unknown, timeout_s=_ASK_S).items():
                    self._progress.learned(partition, committed.offset)
            if self._membership.is_held and owned:
                # Fetches say where logs end, and held partitions are not fetched.
                bounds = self._membership.bounds(owned, timeout_s=_ASK_S)
                self._progress.ends({partition: log.end for partition, log in bounds.items()})
        except LoopError:
            # Undecided offsets, a slow broker, a topic that is just being deleted.
            return
