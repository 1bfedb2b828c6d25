"""The notes that must be committed beside the offsets before a batch is processed (rule 7)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from confluent_kafka import Message

from app.core.clusters.partition import Partition
from workers.loop.errors import LoopError, error_of
from workers.loop.group.membership import CommittedPosition, Membership
from workers.loop.lane import Lane
from workers.loop.lanes import Batch, Lanes, Marks
from workers.loop.partitions import partition_of
from workers.loop.records.trials import MOST_PASSED
from workers.loop.telling.progress import ProgressReporter

_READ_COMMITTED_S = 5.0
_ANOTHER_WITHIN_S = 2.0
_HEARD_WITHIN_S = 2.0
"""The report of an environment that kills must be under way before the next trial."""

log = logging.getLogger(__name__)


class Vetting:
    """Reads the notes beside the committed offsets once for each assignment, and commits those that are due."""

    def __init__(
        self,
        membership: Membership,
        *,
        lanes: Lanes,
        progress: ProgressReporter,
        try_out: Callable[[Message], None],
        tell: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        Args:
            try_out: processes a record and discards the result.
            tell: reports a sentence to the server.
        """
        self._membership = membership
        self._lanes = lanes
        self._progress = progress
        self._try_out = try_out
        self._tell = tell
        self._sleep = sleep

    def vetted(self, batches: list[Batch]) -> list[Batch]:
        """Commit the notes that these batches need before they are processed (rule 7).

        Batches that may not be processed yet are left out, and polled again.
        """
        first = [batch for batch in batches if batch.lane.suspicion.unvetted(batch.moved)]
        learned: dict[Lane, dict[Partition, CommittedPosition]] = {}
        if first:
            error = error_of(lambda: learned.update(self._learn_notes(first, batches)), LoopError)
            if error is not None:
                if not self._lanes.are_many:
                    raise error
                # The others have been vetted, and continue.
                for batch in first:
                    batch.lane.recovery.recover(error)
                asking = {batch.lane for batch in first}
                batches = [batch for batch in batches if batch.lane not in asking]
        batches = [batch for batch in batches if not self._goes_back(batch)]
        if not first and not any(batch.lane.suspicion.is_active for batch in batches):
            return batches
        alone = next((batch for batch in batches if _needs_another(batch)), None)
        if alone is not None:
            self._try_another(alone, learned.get(alone.lane, {}))
            # Records polled meanwhile follow records that are not processed: all of them are read again.
            self._lanes.commit(self._lanes.each)
            for lane in self._lanes.each:
                lane.settling.require_rewind()
            return []
        self._commit_marks(batches, learned)
        ready: list[Batch] = []
        for batch in batches:
            if batch.lane.settling.is_needed:
                batch.lane.settling.require_rewind()
            else:
                # Not before: if the marks could not be committed, they are still due.
                batch.lane.suspicion.vetted(learned.get(batch.lane, {}))
                ready.append(batch)
        return ready

    def _commit_marks(
        self, batches: Sequence[Batch], learned: Mapping[Lane, Mapping[Partition, CommittedPosition]]
    ) -> None:
        marks: list[Marks] = []
        for lane, records, moved in batches:
            due = lane.suspicion.marks(moved)
            starts = {
                **records.first_offsets(),
                # Not the first record's offset: the epoch of the markers that may lie between is not known.
                **{name: at.offset for name, at in learned.get(lane, {}).items() if at.offset is not None},
            }
            marked = {name: starts[name] for name in due if name in starts}
            if marked:
                marks.append(Marks(lane, marked, due))
        if marks:
            self._lanes.commit_marks(marks)

    def _try_another(self, batch: Batch, learned: Mapping[Partition, CommittedPosition]) -> None:
        """Process a record after the suspect, so that a death shows whether the suspect or the environment kills.

        Its mark is committed only when there is another record: without one nothing was tried.
        """
        suspect, ownership = batch.records[0], self._membership.ownership
        name = f"{suspect.topic()}-{suspect.partition()}@{suspect.offset()}"
        passed, changes = batch.lane.suspicion.passed(partition_of(suspect)), ownership.changes
        others, _ = self._membership.consume(passed % MOST_PASSED + 1, _ANOTHER_WITHIN_S)
        if not others:
            self._progress.last_error = f"the worker died at {name}; the next attempt waits for another record"
            return
        if ownership.changes != changes:
            # An owner of the partition in between may have committed more than this mark would.
            return
        if passed:
            self._progress.last_error = (
                f"the worker dies at the first record of every attempt, {name} or another: its environment kills it "
                "(memory, a native library); nothing is skipped"
            )
            self._tell(self._progress.last_error)
            self._sleep(_HEARD_WITHIN_S)
        self._commit_marks([batch], {batch.lane: learned})
        if batch.lane.settling.is_needed:
            return
        log.info("trying %s-%s@%s before %s", others[-1].topic(), others[-1].partition(), others[-1].offset(), name)
        self._try_out(others[-1])
        self._progress.has_survived = True

    def _learn_notes(
        self, first: Sequence[Batch], batches: Sequence[Batch]
    ) -> dict[Lane, dict[Partition, CommittedPosition]]:
        """The committed offsets and notes, for lanes that have not read them since their assignment."""
        starts = {name for batch in batches for name in batch.records.first_offsets()}
        unvetted = {
            name: batch.lane for batch in first for name in batch.lane.suspicion.unvetted(self._partitions(batch.lane))
        }
        learned: dict[Lane, dict[Partition, CommittedPosition]] = {}
        if unvetted:
            for name, found in self._membership.committed(unvetted, timeout_s=_READ_COMMITTED_S).items():
                self._progress.learned(name, found.offset)
                if found.offset is not None or name in starts:
                    unvetted[name].suspicion.vet(name, found)
                    if found.offset is not None:
                        self._membership.begins(name, found.offset)
                    learned.setdefault(unvetted[name], {})[name] = found
        return learned

    def _goes_back(self, batch: Batch) -> bool:
        """True if its lane reads it again: its log may have been cut, or it exceeds a checkpoint's limit now."""
        lane = batch.lane
        is_too_large = lane.suspicion.is_active and len(batch.records) > lane.suspicion.limit
        if not self._membership.epochs.must_ask(batch.moved) and not is_too_large:
            return False
        self._lanes.commit([lane])
        lane.settling.require_rewind()
        return True

    def _partitions(self, lane: Lane) -> Collection[Partition]:
        return self._membership.ownership.owned if lane.partition is None else (lane.partition,)


def _needs_another(batch: Batch) -> bool:
    message = batch.records[0] if len(batch.records) == 1 else None
    return message is not None and batch.lane.suspicion.needs_another(partition_of(message))
