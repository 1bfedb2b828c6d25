"""A commit in two parts: the wait for brokers, and the rest on the loop's thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.core.clusters.partition import Partition
from workers.loop.checkpoint import Checkpoint
from workers.loop.producing.producers import SendsFor
from workers.loop.slices import CallPatience


class PendingCommit:
    """A commit to be made in two parts, so that those of many producers can be waited for together.

    send      on any thread, while the loop's thread polls nothing; waits for brokers, and raises as Checkpoint.commit
    conclude  on the loop's thread, after `send`: the other changes at the end of the checkpoint

    Args:
        notes: offset metadata.
        confirmed: called on the loop's thread, with the time at which the broker confirmed the commit. In
            at_least_once that may be long after `conclude`.
        then: called by `conclude`.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        sends_for: SendsFor,
        notes: Mapping[Partition, str],
        confirmed: Callable[[float], None],
        then: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.checkpoint = checkpoint
        self.notes = notes
        self._sends_for = sends_for
        self._confirmed = confirmed
        self._then = then
        self._clock = clock
        self._confirmed_at: float | None = None
        self._is_concluded = False

    def send(self, patience: CallPatience) -> None:
        self.checkpoint.commit(self._sends_for, patience=patience, metadata=self.notes, confirmed=self.heard)

    def heard(self) -> None:
        """Record the broker's confirmation."""
        self._confirmed_at = self._clock()
        if self._is_concluded:
            self._confirmed(self._confirmed_at)

    def conclude(self) -> None:
        self._is_concluded = True
        if self._confirmed_at is not None:
            self._confirmed(self._confirmed_at)
        self._then()
