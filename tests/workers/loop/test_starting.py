"""`latest` is resolved when its commit was confirmed, not when it was sent. On brokers: test_start_position.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import StartPosition
from app.core.wire.offset_events import CheckpointOutcome, Positioned, StartReason
from tests.support.offset_log import replayed
from tests.support.tasks import RecordingControl
from workers.loop.errors import PipelineStopError
from workers.loop.group.leader_epochs import LeaderEpochs
from workers.loop.group.membership import CommittedPosition, Membership, PartitionBounds
from workers.loop.group.ownership import Ownership
from workers.loop.group.remembered import Remembered
from workers.loop.group.starting import Starting
from workers.loop.telling.offset_recorder import OffsetRecorder

NAMES: tuple[Partition, ...] = (Partition("t", 0), Partition("t", 1))


class NewGroup(Membership):
    """Stopped everywhere, with nothing committed; the logs hold 100 records each and get ten more at every check."""

    def __init__(self) -> None:
        self.ownership = Ownership()
        self.recorder = OffsetRecorder(self.ownership)
        self.remembered = Remembered((), ownership=self.ownership, ask=lambda: None)
        self.epochs = LeaderEpochs(self.ownership)
        self.ownership.assigned(NAMES)
        self.offsets: dict[Partition, int] = {}
        self.restarts: list[frozenset[Partition]] = []
        self.end = 90

    @property
    def stopped(self) -> frozenset[Partition]:
        return frozenset(name for name in NAMES if name not in self.offsets)

    def truncation(self, partition: Partition) -> str | None:
        return None

    def stopped_at(self, partition: Partition) -> int | None:
        return None

    def committed(self, partitions: Iterable[Partition], *, timeout_s: float) -> dict[Partition, CommittedPosition]:
        return {name: CommittedPosition(self.offsets.get(name), "") for name in partitions}

    def bounds(self, partitions: Iterable[Partition], *, timeout_s: float) -> dict[Partition, PartitionBounds]:
        self.end += 10
        return {name: PartitionBounds(0, self.end) for name in partitions}

    def partition_counts(self, topics: Iterable[str], *, timeout_s: float) -> dict[str, int]:
        return {"t": len(NAMES)}

    def restart(self, partitions: Iterable[Partition]) -> None:
        """They stop again, unless something is committed by now."""
        self.restarts.append(frozenset(partitions))


class Commits:
    """Sends what is to be committed; `confirm` is the broker's yes."""

    def __init__(self, group: NewGroup) -> None:
        self.sent: list[dict[Partition, int]] = []
        self.is_ready = True
        self._group = group
        self._heard: list[Callable[[], None]] = []

    def __call__(
        self,
        starts: Mapping[Partition, int],
        *,
        for_others: Mapping[Partition, int],
        together: bool,
        confirmed: Callable[[], None],
    ) -> bool:
        self.sent.append({**starts, **for_others})
        self._heard.append(confirmed)
        return self.is_ready

    def confirm(self) -> None:
        self._group.offsets |= self.sent[-1]
        self._heard[-1]()


def starting(
    group: NewGroup,
    commits: Commits,
    start_position: StartPosition = StartPosition.LATEST,
    *,
    control: RecordingControl | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Starting:
    return Starting(
        group,
        start_position=start_position,
        source_topics=["t"],
        pipeline="p",
        group="g",
        commit_starts=commits,
        announce=(control or RecordingControl()).event,
        clock=clock,
    )


def test_end_of_a_new_group_is_resolved_again_when_its_commit_was_refused() -> None:
    group = NewGroup()
    commits = Commits(group)
    resolving = starting(group, commits)
    resolving.step(group.stopped)
    resolving.step(group.stopped)
    commits.confirm()
    assert commits.sent == [dict.fromkeys(NAMES, 100), dict.fromkeys(NAMES, 110)]
    assert not group.stopped


def test_end_of_a_new_group_is_resolved_again_when_its_commit_could_not_be_sent() -> None:
    group = NewGroup()
    commits = Commits(group)
    commits.is_ready = False
    resolving = starting(group, commits)
    resolving.step(group.stopped)
    assert group.restarts == []
    commits.is_ready = True
    resolving.step(group.stopped)
    assert commits.sent == [dict.fromkeys(NAMES, 100), dict.fromkeys(NAMES, 110)]
    assert group.restarts == [frozenset(NAMES)]


def test_end_of_a_new_group_is_not_resolved_while_its_first_partition_has_no_producer() -> None:
    group = NewGroup()
    commits = Commits(group)
    starting(group, commits).step(frozenset(NAMES[1:]))
    assert (commits.sent, group.restarts) == ([], [])


def test_those_without_a_producer_go_on_being_stopped() -> None:
    group = NewGroup()
    commits = Commits(group)
    starting(group, commits, StartPosition.EARLIEST).step(frozenset(NAMES[:1]))
    assert (commits.sent, group.restarts) == ([{NAMES[0]: 0}], [frozenset(NAMES[:1])])


def test_offsets_that_are_gone_after_the_group_has_begun_do_not_begin_it_again() -> None:
    """A recreated topic: the records that it has by now are not skipped."""
    group = NewGroup()
    commits = Commits(group)
    resolving = starting(group, commits)
    resolving.step(group.stopped)
    commits.confirm()
    group.offsets.clear()
    resolving.step(group.stopped)
    assert commits.sent[1:] == [dict.fromkeys(NAMES, 0)]


class BegunByAnother(NewGroup):
    """Another task has the first partition, and this one waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.ownership = Ownership()
        self.recorder = OffsetRecorder(self.ownership)
        self.ownership.assigned(NAMES[1:])
        self.recorder.assigned(NAMES[1:], generation=1)

        self.restarted: set[Partition] = set()

    @property
    def stopped(self) -> frozenset[Partition]:
        return self.ownership.owned - self.restarted

    def restart(self, partitions: Iterable[Partition]) -> None:
        self.restarted |= set(partitions)


def test_beginning_that_another_task_resolved_is_recorded_as_one() -> None:
    """Or what the group had committed here before it forgot its offsets would seem to end in a gap."""
    group = BegunByAnother()
    resolving = starting(group, Commits(group))
    resolving.step(group.stopped)
    group.offsets = dict.fromkeys(NAMES, 100)
    resolving.step(group.stopped)
    resolving.step(group.stopped)
    (told,) = group.recorder.untold(100)
    assert [(event.offset, event.found) for event in told.events if isinstance(event, Positioned)] == [
        (100, StartReason.NOTHING_COMMITTED)
    ]


def test_a_start_for_a_partition_without_an_owner_is_no_gap_for_its_next_owner() -> None:
    """The group had committed up to 50 there and has forgotten it; who gets it finds 100 committed."""
    group = NewGroup()
    group.ownership = Ownership()
    group.recorder = OffsetRecorder(group.ownership)
    group.ownership.assigned(NAMES[:1])
    group.recorder.assigned(NAMES[:1], generation=7)
    starting(group, Commits(group)).step(group.stopped)
    earlier, later = attempt(generation=6, start=0, end=50), attempt(generation=8, start=100, end=120)
    reports = [earlier.untold(100), group.recorder.untold(100), later.untold(100)]
    assert replayed(reports)[NAMES[1]].contradictions == ()
    assert replayed([reports[0], reports[2]])[NAMES[1]].contradictions, "without its report it is one"


def attempt(*, generation: int, start: int, end: int) -> OffsetRecorder:
    """One that finds `start` committed in the second partition, and commits `end`."""
    ownership = Ownership()
    recorder = OffsetRecorder(ownership)
    ownership.assigned(NAMES[1:])
    recorder.assigned(NAMES[1:], generation=generation)
    recorder.begins(NAMES[1], start)
    recorder.add({NAMES[1]: end}, records=end - start, span=(start, end - 1))
    recorder.ended(CheckpointOutcome.COMMITTED)
    return recorder


def test_partition_that_stopped_without_an_offset_and_has_one_by_now_was_begun_by_another() -> None:
    """Its task had not looked before the other began the group."""
    group = BegunByAnother()
    group.offsets = dict.fromkeys(NAMES, 100)
    starting(group, Commits(group)).step(group.stopped)
    (told,) = group.recorder.untold(100)
    assert [(event.offset, event.found) for event in told.events if isinstance(event, Positioned)] == [
        (100, StartReason.NOTHING_COMMITTED)
    ]


class Refused(NewGroup):
    """A broker has reported that it does not have the offset 100, which the group has committed under epoch 3."""

    def __init__(self, *, end: int, epoch: int = 3) -> None:
        super().__init__()
        self.offsets = dict.fromkeys(NAMES, 100)
        self.log_end = end
        self.epochs.note(NAMES[0], 100, epoch)

    @property
    def stopped(self) -> frozenset[Partition]:
        return frozenset(NAMES[:1])

    def stopped_at(self, partition: Partition) -> int | None:
        return 100

    def bounds(self, partitions: Iterable[Partition], *, timeout_s: float) -> dict[Partition, PartitionBounds]:
        return {name: PartitionBounds(0, self.log_end) for name in partitions}

    def restart(self, partitions: Iterable[Partition]) -> None:
        super().restart(partitions)
        self.ownership.assigned(partitions)

    def begin(self) -> None:
        self.epochs.begins(NAMES[0], 100)


def test_offset_that_a_broker_lacked_and_the_leader_has_is_read_and_compared_before_a_commit() -> None:
    """A former leader that was frozen has answered: the log is whole."""
    group = Refused(end=120)
    control = RecordingControl()
    resolving = starting(group, Commits(group), StartPosition.EARLIEST, control=control)
    for _ in range(2):
        resolving.step(group.stopped)
    assert group.restarts == [frozenset(NAMES[:1])] * 2
    assert [event.message.split(" of ")[0] for event in control.events] == [
        "a broker did not have the committed offset 100"
    ]
    group.begin()
    group.epochs.note(NAMES[0], 110, 3)
    assert group.epochs.must_ask({NAMES[0]: 110}), "its epoch alone would not show a cut"
    assert group.epochs.of_seek(NAMES[0], 100) == 3
    assert not group.epochs.must_ask({NAMES[0]: 110}), "once for each doubt"
    group.begin()
    assert not group.epochs.must_ask({NAMES[0]: 120})


def test_offset_without_an_epoch_that_a_broker_lacked_stops_the_pipeline() -> None:
    group = Refused(end=120, epoch=-1)
    with pytest.raises(PipelineStopError, match="ends at 120, and has ended before the next offset 100"):
        starting(group, Commits(group), StartPosition.EARLIEST).step(group.stopped)


def test_an_end_before_the_committed_offset_stops_the_pipeline_when_it_stays() -> None:
    group = Refused(end=90)
    now = [0.0]
    resolving = starting(group, Commits(group), StartPosition.EARLIEST, clock=lambda: now[0])
    for now[0] in (0.0, 2.0, 4.9):
        resolving.step(group.stopped)
    assert group.restarts == []
    now[0] = 5.0
    with pytest.raises(PipelineStopError, match="ends at 90, and has ended before the next offset 100"):
        resolving.step(group.stopped)


def test_an_end_before_the_committed_offset_is_a_former_leaders_if_it_does_not_stay() -> None:
    group = Refused(end=90)
    now = [0.0]
    resolving = starting(group, Commits(group), StartPosition.EARLIEST, clock=lambda: now[0])
    resolving.step(group.stopped)
    now[0], group.log_end = 4.0, 120
    resolving.step(group.stopped)
    assert group.restarts[-1] == frozenset(NAMES[:1])
    # Each doubt has its own time.
    now[0], group.log_end = 6.0, 90
    resolving.step(group.stopped)
