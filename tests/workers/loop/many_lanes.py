"""A task of lanes, one for each partition, without a broker: what they ask is scripted, and time is a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from confluent_kafka import KafkaError, Message

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import ErrorHandling
from tests.support.tasks import RecordingControl
from workers.loop.checkpoint_size import CheckpointSize
from workers.loop.claim.inquiry import ClaimStanding, Inquiry, InquiryAnswer
from workers.loop.errors import RetriableError
from workers.loop.group.confirmed import ConfirmedOffsets
from workers.loop.group.member_metadata import MemberMetadata
from workers.loop.group.membership import CommittedPosition, Hold, Membership
from workers.loop.group.ownership import Ownership
from workers.loop.lane import Lane
from workers.loop.lane_of_each import LaneOfEach
from workers.loop.lanes import Batch, Lanes, OneLane
from workers.loop.loop import TaskLoop
from workers.loop.producing.output_topics import OutputTopics
from workers.loop.producing.producers import TaskProducer
from workers.loop.records.batching import BatchSize
from workers.loop.records.failures import BadRecords
from workers.loop.records.polled import PolledMessages, Records
from workers.loop.records.processing import Processing
from workers.loop.records.suspicion import Suspicion
from workers.loop.recovery import Recovery
from workers.loop.settling import Settling
from workers.loop.slices import CommitBounds
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.loop.telling.progress import ProgressReporter
from workers.loop.telling.tally import WorkTally
from workers.transforms.identity import IdentityTransform

NAMES: tuple[Partition, ...] = (Partition("t", 0), Partition("t", 1), Partition("t", 2))
NO_CONSUMER: Any = None


class Group(Membership):
    """Owns the partitions of the test, which also sets committed offsets and positions."""

    def __init__(self) -> None:
        ownership = Ownership()
        super().__init__(
            NO_CONSUMER,
            ownership=ownership,
            confirmed=ConfirmedOffsets(ownership),
            end_checkpoint=lambda _: None,
            announce=RecordingControl().event,
            recorder=OffsetRecorder(ownership),
        )
        self.offsets: dict[Partition, int] = {}
        self.notes: dict[Partition, str] = {}
        self.at: dict[Partition, int] = {}
        self.calls: list[tuple[str, Partition, int | None]] = []
        self.refuses_to_seek = False
        self.is_answered = True
        self.generation_now: int | None = 1
        self.stopped_now: frozenset[Partition] = frozenset()
        self.polled: Callable[[], None] = lambda: None
        self.coming: list[Message] = []

    @property
    def stopped(self) -> frozenset[Partition]:
        return self.stopped_now

    def positions(self) -> dict[Partition, int]:
        return self.at

    def committed(self, partitions: Iterable[Partition], *, timeout_s: float) -> dict[Partition, CommittedPosition]:
        if not self.is_answered:
            raise RetriableError("the coordinator moves")
        found = {name: CommittedPosition(self.offsets.get(name), self.notes.get(name, "")) for name in partitions}
        if self.confirmed is not None:
            self.confirmed.refuse_older({name: committed.offset for name, committed in found.items()})
        return found

    def consume(self, count: int, timeout_s: float) -> tuple[Records, list[KafkaError]]:
        self.polled()
        came, self.coming = self.coming[:count], []
        return PolledMessages(came), []

    def seek(self, partition: Partition, offset: int) -> bool:
        self.calls.append(("seek", partition, offset))
        return not self.refuses_to_seek

    def restart(self, partitions: Iterable[Partition]) -> None:
        self.calls.extend(("restart", name, None) for name in partitions)

    def hold(self, reason: Hold) -> None:
        """Nothing is read anyway."""

    def release(self, reason: Hold) -> None:
        """Nothing is read anyway."""

    def hold_back(self, partition: Partition) -> None:
        """Nothing is read anyway."""

    def unhold(self, partition: Partition) -> None:
        """Nothing is read anyway."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """It is assigned what the test says."""

    def generation(self) -> int | None:
        return self.generation_now


class NoTopics:
    obstacle: str | None = None

    def look(self) -> None:
        """They are there."""


class Looks:
    """A Starting that writes down what may begin."""

    is_due = True

    def __init__(self) -> None:
        self.ready: list[frozenset[Partition]] = []

    def step(self, stopped: frozenset[Partition]) -> None:
        self.ready.append(stopped)


class Metadata(MemberMetadata):
    """No ownership check; waiting takes only the time of the test's clock."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(NO_CONSUMER)
        self._clock = clock

    def serve(self, timeout_s: float) -> None:
        super().serve(0.01)
        self._clock[0] += 0.5


class Asked(Inquiry):
    """Gives the test's answers after the test's delays; counts."""

    def __init__(self, clock: list[float]) -> None:
        self.answer = InquiryAnswer(True, "the server says so")
        self.takes_s = 0.0
        self.times = 0
        self._now = clock

    def ask(self, standing: ClaimStanding) -> InquiryAnswer:
        self.times += 1
        self._now[0] += self.takes_s
        return self.answer

    def give_up(self) -> None:
        """Nothing is held."""


class Many:
    """Lanes of NAMES, each with the producer that `producers` has for it."""

    def __init__(self, producers: Callable[[Partition], TaskProducer]) -> None:
        self.clock = [100.0]
        self.control = RecordingControl()
        self.group = Group()
        self.tried: list[int] = []
        self.told: list[str] = []
        self.asked = {name: Asked(self.clock) for name in NAMES}
        self.tally = WorkTally()
        self.progress = ProgressReporter(self.control, self.tally)
        self.bounds = CommitBounds(transaction_timeout_s=10.0, max_poll_interval_s=300.0, abort_s=2.0)
        self._producers = producers
        self.lanes = LaneOfEach(
            self._lane,
            id_of=lambda name: f"{name[0]}-{name[1]}",
            refusal=None,
            membership=self.group,
            metadata=Metadata(self.clock),
            progress=self.progress,
            bounds=self.bounds,
            session_s=10.0,
            sends_for_group_alone=True,
            clock=self.now,
        )

    def now(self) -> float:
        return self.clock[0]

    def assign(self, names: Sequence[Partition] = NAMES) -> None:
        self.lanes.assigned(names)
        self.group.ownership.assigned(names)

    def lane(self, number: int) -> Lane:
        found = self.lanes.lane_of(Partition("t", number))
        assert found is not None
        return found

    def batch(self, number: int) -> Batch:
        message = Message(topic="t", partition=number, offset=0, value=b"x")
        return Batch(self.lane(number), PolledMessages([message]), {Partition("t", number): 1})

    def open(self, *numbers: int) -> list[Lane]:
        """A checkpoint of ten records in each of these."""
        for number in numbers:
            self.lane(number).add({Partition("t", number): 10}, records=10)
        return [self.lane(number) for number in numbers]

    def settle(self) -> None:
        """As long as something is to be settled, like the loop's turns."""
        for _ in range(20):
            self.clock[0] += 6.0
            self.lanes.settle()
            self.lanes.begin_again()

    def one_lane(self) -> OneLane:
        """Commit offsets of all partitions, with the producer of the first of NAMES."""
        return OneLane(self._lane(NAMES[0], is_only=False), progress=self.progress)

    def loop(self, *, starting: Any = None, lanes: Lanes | None = None) -> TaskLoop:
        """The loop over these lanes; it reads nothing and knows no time but the test's."""
        no_outputs = OutputTopics("out", ask=lambda _topics: {})
        return TaskLoop(
            membership=self.group,
            lanes=lanes or self.lanes,
            starting=starting,
            source_topics=cast(Any, NoTopics()),
            output_topics=no_outputs,
            processing=Processing(IdentityTransform(), source_topics=["t"], sink_topic="out", topics=no_outputs),
            batch_size=BatchSize(target_s=0.1),
            control=self.control,
            commit_interval_s=1.0,
            drain_bound_s=20.0,
            progress=self.progress,
            clock=self.now,
        )

    @property
    def needing(self) -> list[int]:
        return [lane.partition[1] for lane in self.lanes.each if lane.partition and lane.settling.is_needed]

    def _lane(self, partition: Partition, *, is_only: bool = True) -> Lane:
        only = partition if is_only else None
        ownership, group, control = self.group.ownership, self.group, self.control
        size = CheckpointSize(timeout_s=10.0, bound_s=10.0, clock=self.now)
        settling = Settling(
            group,
            lambda _: self._producers(partition),
            self.asked[partition],
            announce=control.event,
            learn=self.progress.learned,
            only=only,
            clock=self.now,
        )
        self.progress.watch(only, size)
        return Lane(
            only,
            membership=group,
            settling=settling,
            recovery=lambda lane: Recovery(
                lane,
                batch_size=BatchSize(target_s=0.1),
                announce=control.event,
                progress=self.progress,
                clock=self.now,
            ),
            suspicion=Suspicion(ownership),
            bad_records=BadRecords(ErrorHandling(), announce=control.event),
            tally=WorkTally(self.tally.totals),
            progress=self.progress,
            bounds=self.bounds,
            size=size,
            sends_for=NO_CONSUMER,
            clock=self.now,
        )
