"""An open checkpoint, ended from inside the revoke callback: within its bound, with an error at each step."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import ErrorHandling
from tests.support.tasks import RecordingControl
from tests.workers.loop.test_checkpoint import ScriptedProducer
from workers.loop.checkpoint_size import CheckpointSize
from workers.loop.errors import AbortableError
from workers.loop.group.membership import Membership
from workers.loop.group.ownership import Ownership
from workers.loop.lane import Lane
from workers.loop.records.batching import BatchSize
from workers.loop.records.failures import BadRecords
from workers.loop.records.suspicion import Suspicion
from workers.loop.recovery import Recovery
from workers.loop.settling import Settling
from workers.loop.slices import CallPatience, CommitBounds
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.loop.telling.progress import ProgressReporter
from workers.loop.telling.tally import WorkTally

NO_CONSUMER: Any = None
NO_PRODUCERS: Any = None


class SlowProducer(ScriptedProducer):
    """Its flush uses up some of the time and fails then."""

    def __init__(self, clock: list[float], takes_s: float) -> None:
        super().__init__(flush=AbortableError("not delivered"))
        self.abort_bound_s = 0.0
        self._clock, self._takes_s = clock, takes_s

    def flush(self, *, patience: CallPatience) -> None:
        self._clock[0] += self._takes_s
        super().flush(patience=patience)

    def abort(self, *, patience: CallPatience) -> None:
        self.abort_bound_s = patience.bound_s


@pytest.mark.parametrize(("flush_takes_s", "left_s"), [(2.0, 8.0), (9.9, 1.0), (30.0, 1.0)])
def test_abort_inside_the_callback_gets_what_is_left_of_the_bound(flush_takes_s: float, left_s: float) -> None:
    clock = [0.0]
    control = RecordingControl()
    ownership = Ownership()
    ownership.assigned([Partition("t", 0)])
    tally = WorkTally()
    progress = ProgressReporter(control, tally)
    membership = Membership(
        NO_CONSUMER,
        ownership=ownership,
        confirmed=None,
        end_checkpoint=lambda _: None,
        announce=control.event,
        recorder=OffsetRecorder(ownership),
    )
    lane = Lane(
        None,
        membership=membership,
        settling=Settling(membership, NO_PRODUCERS, None, announce=control.event, learn=progress.learned),
        recovery=lambda lane: Recovery(
            lane, batch_size=BatchSize(target_s=0.1), announce=control.event, progress=progress
        ),
        suspicion=Suspicion(ownership),
        bad_records=BadRecords(ErrorHandling(), announce=control.event),
        tally=tally,
        progress=progress,
        size=CheckpointSize(timeout_s=10.0, bound_s=10.0),
        bounds=CommitBounds(transaction_timeout_s=10.0, max_poll_interval_s=300.0),
        clock=lambda: clock[0],
    )
    producer = SlowProducer(clock, flush_takes_s)
    lane.producer = producer
    lane.add({Partition("t", 0): 5}, records=5)
    with pytest.raises(AbortableError):
        lane.end_for_revoke()
    assert producer.abort_bound_s == left_s
