"""The suspicions about the owned partitions: the trials of trials.py, kept between checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from app.core.clusters.partition import Partition
from workers.loop.group.membership import CommittedPosition
from workers.loop.group.ownership import Ownership
from workers.loop.records import trials
from workers.loop.records.trials import UNLIMITED, Trial


class CondemnedError(Exception):
    """The reason for treating a record as bad without another trial."""


class Suspicion:
    """Decides the limit of a checkpoint, the note beside its offsets, and the record that is condemned."""

    def __init__(self, ownership: Ownership, *, is_warm: Callable[[], bool] = lambda: False) -> None:
        """
        Args:
            is_warm: whether this process has survived a record.
        """
        self._ownership = ownership
        self._is_warm = is_warm
        self._vetted: dict[Partition, int] = {}
        self._marked: dict[Partition, tuple[int, str]] = {}
        self._trials: dict[Partition, Trial] = {}
        self._condemned: dict[Partition, CondemnedError] = {}
        self._is_hunting_refused = False
        self._has_found_refused = False

    @property
    def limit(self) -> int:
        """The most records that a checkpoint may hold now."""
        return min((trial.limit for trial in self._trials.values() if trial.limit), default=UNLIMITED)

    @property
    def is_active(self) -> bool:
        return self.limit != UNLIMITED

    def is_tried(self, partitions: Iterable[Partition]) -> bool:
        """True if one of these is under suspicion: a checkpoint with its records is committed by itself.

        Records of others are read a few at a time meanwhile, but share checkpoints as before.
        """
        return any(name in self._trials and self._trials[name].limit for name in partitions)

    def unvetted(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The partitions whose notes have not been read and judged since they were assigned."""
        return [name for name in partitions if self._vetted.get(name) != self._ownership.number(name)]

    def vet(self, partition: Partition, committed: CommittedPosition) -> None:
        """Take over the note beside the committed offset; until `vetted` it may be reported again."""
        if self._marked.get(partition) == (self._ownership.number(partition), committed.metadata):
            # Our own mark, from a commit that was not answered: no worker died of it.
            return
        self._condemned.pop(partition, None)
        trial = trials.after_deaths(trials.read_note(committed.metadata), offset=committed.offset or 0)
        self._trials[partition] = trial
        if trials.is_condemned(trial):
            self._condemned[partition] = CondemnedError(
                f"the worker was killed by it: {trial.begun} attempts ended with this record alone in their "
                "checkpoint, and survived another record"
            )

    def marking(self, notes: Mapping[Partition, str]) -> None:
        """Record that these notes are about to be committed; the answer may be lost."""
        self._marked.update({name: (self._ownership.number(name), note) for name, note in notes.items()})

    def vetted(self, partitions: Iterable[Partition]) -> None:
        """Record that the notes of these are taken over, and their own marks are committed."""
        self._vetted.update({name: self._ownership.number(name) for name in partitions})

    def marks(self, positions: Mapping[Partition, int]) -> dict[Partition, str]:
        """The notes "trial begun" to commit before a batch that ends at `positions` is processed, where one is due.

        Without a limit it is due once for each partition, with or without records of it in the batch: all are marked
        together. Under a limit it is due for every batch, and has the end of the batch. If the worker dies in it, the
        suspect lies before that.
        """
        due: dict[Partition, str] = {}
        for partition, trial in self._trials.items():
            if partition not in self._condemned and (partition in positions or not trial.limit):
                if self.needs_another(partition):
                    due[partition] = replace(trial, passed=trial.passed + 1).note()
                    continue
                until = positions[partition] if trial.limit else trial.until
                due[partition] = Trial(
                    limit=trial.limit,
                    begun=trial.begun + 1,
                    until=until,
                    warm=trial.limit == 1 and (trial.warm or self._is_warm()),
                ).note()
        return due

    def needs_another(self, partition: Partition) -> bool:
        """True if this process must survive another record before it may try the lone one of this partition."""
        trial = self._trials.get(partition)
        return trial is not None and trials.needs_another(trial) and not self._is_warm()

    def passed(self, partition: Partition) -> int:
        """How often another record was tried in place of the partition's lone one, and killed the worker too."""
        trial = self._trials.get(partition)
        return 0 if trial is None else trial.passed

    def notes(self, positions: Mapping[Partition, int]) -> dict[Partition, str]:
        """The notes to commit with `positions` at the end of the checkpoint: a suspicion that continues, or nothing."""
        return {
            partition: Trial(limit=trial.limit, until=trial.until).note()
            for partition, trial in self._trials.items()
            if partition in positions and trial.limit and positions[partition] < trial.until
        }

    def committed(self, positions: Mapping[Partition, int]) -> None:
        """Record a committed checkpoint up to `positions`: its records are not suspect any more."""
        for partition, position in positions.items():
            self._condemned.pop(partition, None)
            trial = self._trials.get(partition)
            if trial is None:
                continue
            if trial.limit and position < trial.until:
                self._trials[partition] = Trial(limit=trial.limit, until=trial.until)
            else:
                del self._trials[partition]

    def refused(self, positions: Mapping[Partition, int], *, records: int, reason: object) -> None:
        """Record that the broker refused a checkpoint of `records` records up to `positions`."""
        mine = {name: position for name, position in positions.items() if name in self._ownership.owned}
        if not mine:
            # Refused inside a revoke callback, and all its partitions belong to other members now.
            return
        self._is_hunting_refused = True
        for partition, position in mine.items():
            if records > 1:
                self._trials[partition] = trials.after_refusal(records=records, until=position)
            else:
                self._has_found_refused = True
                self._trials[partition] = Trial(limit=1, until=position)
                self._condemned[partition] = CondemnedError(f"it is refused: {reason}")

    def explained(self) -> None:
        """The refusal is explained: when the search ends, the batches are not the cause."""
        self._has_found_refused = True

    def condemned(self, partition: Partition) -> CondemnedError | None:
        """The reason why the next record of this partition is treated as bad; None: it is not."""
        return self._condemned.get(partition)

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget released partitions; the notes beside their offsets go with them.

        A search for a refused record that goes with them has not ended, and shows nothing about the batches.
        """
        was_active = self.is_active
        for partition in partitions:
            self._trials.pop(partition, None)
            self._condemned.pop(partition, None)
            self._vetted.pop(partition, None)
            self._marked.pop(partition, None)
        if was_active and not self.is_active:
            self._is_hunting_refused = self._has_found_refused = False

    def take_verdict_on_batches(self) -> bool:
        """True once, when a search for a refused record has ended without one: the producer's batches are too large."""
        if not self._is_hunting_refused or self.is_active:
            return False
        found, self._is_hunting_refused, self._has_found_refused = self._has_found_refused, False, False
        return not found
