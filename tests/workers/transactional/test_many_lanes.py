"""A lane for each partition, without a broker: what of one lane's trouble reaches the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message

from app.domain.pipelines.pipeline import ErrorHandling
from app.wire.heartbeat import DesiredTaskState, EventKind
from tests.support.tasks import RecordingControl
from tests.workers.transactional.test_checkpoint import ScriptedProducer
from workers.transactional.checkpoints import Bounds, Checkpoints
from workers.transactional.claim.inquiry import Answer, Inquiry, Standing
from workers.transactional.errors import (
    AbortableError,
    FatalError,
    FencedError,
    LoopError,
    OutcomeUnknownError,
    RetriableError,
    SupersededError,
    TaskFailedError,
)
from workers.transactional.group.confirmed import Confirmed
from workers.transactional.group.member_metadata import MemberMetadata
from workers.transactional.group.membership import Committed, Membership
from workers.transactional.group.ownership import Ownership, Partition
from workers.transactional.lane_of_each import LaneOfEach
from workers.transactional.lanes import Batch, Lane
from workers.transactional.loop import TaskLoop
from workers.transactional.producing.producers import TaskProducer
from workers.transactional.records.batching import BatchSize
from workers.transactional.records.failures import BadRecords
from workers.transactional.records.processing import Processing
from workers.transactional.records.suspicion import Suspicion
from workers.transactional.recovery import Recovery
from workers.transactional.settling import Settling
from workers.transactional.slices import Patience
from workers.transactional.telling.offset_recorder import OffsetRecorder
from workers.transactional.telling.progress import Progress
from workers.transactional.telling.tally import Tally
from workers.transactional.vetting import Vetting
from workers.transforms.identity import IdentityTransform

NAMES: tuple[Partition, ...] = (("t", 0), ("t", 1), ("t", 2))
NO_CONSUMER: Any = None


class Group(Membership):
    """Owns what it is given. What the group has committed and where it is read is what the test says."""

    def __init__(self) -> None:
        ownership = Ownership()
        super().__init__(
            NO_CONSUMER,
            ownership=ownership,
            confirmed=Confirmed(ownership),
            end_checkpoint=lambda _: None,
            announce=RecordingControl().event,
            recorder=OffsetRecorder(ownership),
        )
        self.offsets: dict[Partition, int] = {}
        self.at: dict[Partition, int] = {}
        self.calls: list[tuple[str, Partition, int | None]] = []
        self.refuses_to_seek = False
        self.is_answered = True
        self.stopped_now: frozenset[Partition] = frozenset()
        self.polled: Callable[[], None] = lambda: None

    @property
    def stopped(self) -> frozenset[Partition]:
        return self.stopped_now

    def positions(self) -> dict[Partition, int]:
        return self.at

    def committed(self, partitions: Iterable[Partition], *, timeout_s: float) -> dict[Partition, Committed]:
        if not self.is_answered:
            raise RetriableError("the coordinator moves")
        found = {name: Committed(self.offsets.get(name), "") for name in partitions}
        if self.confirmed is not None:
            self.confirmed.refuse_older({name: committed.offset for name, committed in found.items()})
        return found

    def consume(self, count: int, timeout_s: float) -> tuple[list[Message], list[KafkaError]]:
        self.polled()
        return [], []

    def seek(self, partition: Partition, offset: int) -> bool:
        self.calls.append(("seek", partition, offset))
        return not self.refuses_to_seek

    def restart(self, partitions: Iterable[Partition]) -> None:
        self.calls.extend(("restart", name, None) for name in partitions)

    def hold_back(self, partition: Partition) -> None:
        """Nothing is read anyway."""

    def let_go(self, partition: Partition) -> None:
        """Nothing is read anyway."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """It is assigned what the test says."""

    def generation(self) -> int | None:
        return 1


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
    """Nobody asks; waiting takes no time but that of the test's clock."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(NO_CONSUMER)
        self._clock = clock

    def serve(self, timeout_s: float) -> None:
        super().serve(0.01)
        self._clock[0] += 0.5


class Asked(Inquiry):
    """Answers as it is told, after as long as it is told; counts."""

    def __init__(self, clock: list[float]) -> None:
        self.answer = Answer(True, "the server says so")
        self.takes_s = 0.0
        self.times = 0
        self._now = clock

    def ask(self, standing: Standing) -> Answer:
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
        self.asked = {name: Asked(self.clock) for name in NAMES}
        self.tally = Tally()
        self.progress = Progress(self.control, self.tally)
        self.bounds = Bounds(transaction_timeout_s=10.0, max_poll_interval_s=300.0, abort_s=2.0)
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
        found = self.lanes.lane_of(("t", number))
        assert found is not None
        return found

    def batch(self, number: int) -> Batch:
        message = Message(topic="t", partition=number, offset=0, value=b"x")
        return Batch(self.lane(number), [message], {("t", number): 1})

    def open(self, *numbers: int) -> list[Lane]:
        """A checkpoint of ten records in each of these."""
        for number in numbers:
            self.lane(number).checkpoints.add({("t", number): 10}, records=10)
        return [self.lane(number) for number in numbers]

    def settle(self) -> None:
        """As long as something is to be settled, like the loop's turns."""
        for _ in range(20):
            self.clock[0] += 6.0
            self.lanes.settle()
            self.lanes.begin_again()

    def loop(self, *, starting: Any = None) -> TaskLoop:
        """What the loop makes of these lanes; it reads nothing and knows no time but the test's."""
        return TaskLoop(
            membership=self.group,
            lanes=self.lanes,
            starting=starting,
            source_topics=cast(Any, NoTopics()),
            processing=Processing(IdentityTransform(), source_topics=["t"], sink_topic="out"),
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

    def _lane(self, partition: Partition) -> Lane:
        ownership, group, control = self.group.ownership, self.group, self.control
        suspicion, own = Suspicion(ownership), Tally(self.tally.totals)
        bad_records = BadRecords(ErrorHandling(), announce=control.event)
        checkpoints = Checkpoints(
            membership=group,
            suspicion=suspicion,
            bad_records=bad_records,
            tally=own,
            progress=self.progress,
            bounds=self.bounds,
            sends_for=NO_CONSUMER,
            clock=self.now,
        )
        settling = Settling(
            group,
            lambda _: self._producers(partition),
            self.asked[partition],
            announce=control.event,
            learn=self.progress.learned,
            only=partition,
            clock=self.now,
        )
        recovery = Recovery(
            checkpoints=checkpoints,
            settling=settling,
            suspicion=suspicion,
            batch_size=BatchSize(target_s=0.1),
            announce=control.event,
            tally=own,
            progress=self.progress,
            of=partition,
            clock=self.now,
        )
        return Lane(partition, checkpoints, settling, recovery, suspicion, bad_records, own)


class NeverComesBack(ScriptedProducer):
    """Its flush hangs, whatever it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = threading.Event()

    def flush(self, *, patience: Patience) -> None:
        self.is_over.wait(60.0)


def test_a_call_that_does_not_come_back_is_not_waited_for_for_ever() -> None:
    stuck = NeverComesBack()
    many = Many(lambda name: stuck if name == ("t", 1) else ScriptedProducer())
    many.assign()
    began_at = many.now()
    try:
        many.lanes.commit(many.open(0, 1, 2))
        assert stuck.calls == ["init", "begin", "discard"]
    finally:
        stuck.is_over.set()
    assert 20.0 <= many.now() - began_at < 25.0
    assert many.needing == [1]
    assert [event.kind for event in many.control.events] == [EventKind.OUTCOME_UNKNOWN]
    assert many.tally.totals.committed == 2


class ReadyLater(ScriptedProducer):
    """Its init is answered when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = False

    def init(self, timeout_s: float) -> None:
        if not self.is_ready:
            raise RetriableError("the coordinator is not there yet")
        super().init(timeout_s)


def test_lane_that_is_settled_twice_before_a_record_comes_is_not_read_where_an_old_coordinator_says() -> None:
    many = Many(lambda _: ScriptedProducer())
    many.assign()
    many.lanes.commit(many.open(1))
    many.group.offsets = dict.fromkeys(NAMES, 10)
    for _ in range(2):
        # A seek leaves no position until the next record.
        many.lane(1).recovery.recover(RetriableError("the coordinator moves"))
        many.settle()
    many.group.offsets[NAMES[1]] = 9
    many.lane(1).recovery.recover(RetriableError("the coordinator moves"))
    many.settle()
    assert many.group.calls == [("seek", NAMES[1], 10)] * 2
    assert many.needing == [1]
    assert "10 has been confirmed" in (many.lane(1).obstacle or "")


@pytest.mark.parametrize(("committed", "refuses"), [(None, False), (10, True)])
def test_lane_begins_again_only_where_there_is_nothing_to_seek_or_the_client_does_not(
    committed: int | None, refuses: bool
) -> None:
    many = Many(lambda _: ScriptedProducer())
    many.assign()
    if committed is not None:
        many.group.offsets[NAMES[0]] = committed
    many.group.refuses_to_seek = refuses
    many.lane(0).recovery.recover(RetriableError("the coordinator moves"))
    many.settle()
    assert many.group.calls == [("seek", NAMES[0], 10)] * refuses + [("restart", NAMES[0], None)]
    assert many.needing == []


def test_late_init_begins_its_partition_again_at_the_end_of_a_turn_when_nothing_is_open() -> None:
    late = ReadyLater()
    many = Many(lambda name: late if name == NAMES[0] else ScriptedProducer())
    many.assign()
    many.group.offsets = dict.fromkeys(NAMES, 0)
    assert many.needing == [0]
    late.is_ready = True
    opened = many.open(1, 2)
    for _ in range(2):
        many.clock[0] += 6.0
        many.lanes.settle()
    assert (many.needing, many.group.calls) == ([0], []), "before the end of the turn nothing is begun again"
    many.lanes.begin_again()
    assert (many.needing, many.group.calls) == ([], [("restart", NAMES[0], None)])
    assert not any(lane.checkpoints.current for lane in opened)
    assert many.tally.totals.committed == 2


@pytest.mark.parametrize("error", [OutcomeUnknownError("no answer"), FencedError("another"), AbortableError("refused")])
def test_beginning_that_goes_wrong_in_one_lane_is_that_lanes_alone(error: LoopError) -> None:
    many = Many(lambda name: ScriptedProducer(commit=error) if name == NAMES[0] else ScriptedProducer())
    many.assign()
    begun: list[bool] = []
    for _ in range(2):
        # The second time the lane is not ready.
        is_sent = many.lanes.commit_starts(
            dict.fromkeys(NAMES, 100), for_others={("t", 3): 7}, together=True, confirmed=lambda: begun.append(True)
        )
        assert not is_sent
    assert (many.needing, begun) == ([0], [])
    assert len(many.control.events) == 1


def test_beginning_is_committed_whole_by_the_first_lane() -> None:
    made = {name: ScriptedProducer() for name in NAMES}
    many = Many(lambda name: made[name])
    many.assign()
    begun: list[bool] = []
    assert many.lanes.commit_starts(
        dict.fromkeys(NAMES, 100), for_others={("t", 3): 7}, together=True, confirmed=lambda: begun.append(True)
    )
    assert begun == [True]
    assert [[entry.offset for entry in producer.offsets] for producer in made.values()] == [[100, 100, 100, 7], [], []]


def test_lanes_whose_notes_cannot_be_read_are_settled_and_the_others_go_on() -> None:
    many = Many(lambda _: ScriptedProducer())
    many.assign()
    many.lane(2).suspicion.vetted([NAMES[2]])
    many.group.is_answered = False
    vetting = Vetting(many.group, lanes=many.lanes, progress=many.progress)
    passed = vetting.vetted([many.batch(0), many.batch(2)])
    assert [batch.lane for batch in passed] == [many.lane(2)]
    assert many.needing == [0]


def test_what_ends_the_attempt_in_one_lane_does_not_hide_what_the_others_have_committed() -> None:
    broken = ScriptedProducer(send_offsets=FatalError("not allowed"))
    made = {NAMES[0]: broken, NAMES[1]: ScriptedProducer(), NAMES[2]: ScriptedProducer()}
    many = Many(lambda name: made[name])
    many.assign()
    opened = many.open(0, 1, 2)
    with pytest.raises(TaskFailedError, match="not allowed"):
        many.lanes.commit(opened)
    assert many.tally.totals.committed == 2
    assert many.group.confirmed is not None
    with pytest.raises(RetriableError):
        many.group.confirmed.refuse_older({NAMES[2]: 9})
    many.lanes.close()
    assert many.tally.totals.aborted == 1
    assert ["abort" in producer.calls for producer in made.values()] == [True, False, False]


def test_drain_commits_what_is_open_before_it_waits_for_a_lane_that_is_undecided() -> None:
    many = Many(lambda _: ScriptedProducer())
    many.assign()
    many.open(1, 2)
    many.lane(0).recovery.recover(OutcomeUnknownError("no answer"))
    many.asked[NAMES[0]].answer = Answer(None, "not known yet")
    committed_at_poll: list[int] = []

    def polled() -> None:
        committed_at_poll.append(many.tally.totals.committed)
        many.clock[0] += 0.1

    many.group.polled = polled
    many.control.wanted = DesiredTaskState.DRAIN
    loop = many.loop()
    loop.run(["t"])
    assert committed_at_poll[0] == 2, "both were held back by the undecided one"
    assert loop.may_have_left_open


def test_stopped_partition_begins_though_the_lane_of_another_stopped_one_is_not_ready() -> None:
    late = ReadyLater()
    many = Many(lambda name: late if name == NAMES[0] else ScriptedProducer())
    many.assign()
    many.group.stopped_now = frozenset(NAMES[:2])
    looks = Looks()

    def polled() -> None:
        many.clock[0] += 1.0
        if looks.ready or many.clock[0] > 200.0:
            many.control.wanted = DesiredTaskState.DRAIN

    many.group.polled = polled
    many.loop(starting=looks).run(["t"])
    assert looks.ready[0] == {NAMES[1]}


def test_questions_of_many_lanes_take_a_turn_no_longer_than_one_and_all_get_theirs() -> None:
    many = Many(lambda _: ScriptedProducer())
    many.assign()
    for lane in many.lanes.each:
        lane.recovery.recover(OutcomeUnknownError("no answer"))
    for asked in many.asked.values():
        asked.answer, asked.takes_s = Answer(None, "not known yet"), 4.0
    for turn in range(3):
        many.clock[0] += 6.0
        began_at = many.now()
        many.lanes.settle()
        assert many.now() - began_at < 5.0
        assert [asked.times for asked in many.asked.values()] == [1] * (turn + 1) + [0] * (2 - turn)


class TakesAllItsTime(ScriptedProducer):
    """Its flush uses up what it is given, and fails."""

    def __init__(self, clock: Callable[[], list[float]]) -> None:
        super().__init__(flush=AbortableError("not delivered", code=KafkaError._TIMED_OUT))
        self._time = clock

    def flush(self, *, patience: Patience) -> None:
        self._time()[0] += patience.bound_s
        super().flush(patience=patience)


def test_bound_holds_for_a_round_and_leaves_who_had_to_wait_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.transactional.lane_of_each._TOGETHER", 1)
    made: dict[Partition, ScriptedProducer] = {
        NAMES[0]: TakesAllItsTime(lambda: many.clock),
        NAMES[1]: TakesAllItsTime(lambda: many.clock),
        NAMES[2]: ScriptedProducer(),
    }
    many = Many(lambda name: made[name])
    many.assign()
    many.lanes.commit(many.open(0, 1, 2))
    assert [producer.bounds_s[0] for producer in made.values()][1:] == [1.0, 1.0]
    assert many.needing == [0, 1]
    assert many.tally.totals.committed == 1


def test_who_was_away_asks_whether_it_is_still_the_one_before_it_initialises_ids_again() -> None:
    """It may have been replaced meanwhile: by its init it would take the ids from whoever has the partitions now."""
    many = Many(lambda _: ScriptedProducer())
    many.assign(NAMES[:1])
    assert many.asked[NAMES[0]].times == 0, "who started it has just given it leave"
    many.lanes.lost(NAMES[:1])
    many.asked[NAMES[1]].answer = Answer(False, "the server names another attempt as current")
    with pytest.raises(SupersededError):
        many.assign(NAMES[1:2])
    assert many.asked[NAMES[1]].times == 1
    assert many.lane(1).checkpoints.producer is None


def test_a_poll_that_comes_a_session_late_is_an_absence_too() -> None:
    """Of a member that has not polled for long an eager group takes its partitions without calling them lost."""
    many = Many(lambda _: ScriptedProducer())
    many.assign(NAMES[:1])
    many.clock[0] += 9.0
    many.lanes.polled()
    many.assign(NAMES[1:2])
    assert many.asked[NAMES[1]].times == 0
    many.clock[0] += 11.0
    many.lanes.polled()
    many.assign(NAMES[2:])
    assert many.asked[NAMES[2]].times == 1
    assert many.lane(2).checkpoints.producer is not None
    many.assign(NAMES[1:2])
    assert many.asked[NAMES[1]].times == 0, "it was asked for once, and polls"


def test_call_whose_turn_did_not_come_in_time_is_not_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.transactional.lane_of_each._TOGETHER", 1)
    stuck = NeverComesBack()
    made: dict[Partition, ScriptedProducer] = {
        NAMES[0]: stuck,
        NAMES[1]: ScriptedProducer(),
        NAMES[2]: ScriptedProducer(),
    }
    many = Many(lambda name: made[name])
    many.assign()
    try:
        many.lanes.commit(many.open(0, 1, 2))
    finally:
        stuck.is_over.set()
    assert many.needing == [0, 1, 2]
    # By the same thread, after whatever still waits for it.
    many.lanes.close()
    assert [made[name].calls for name in NAMES[1:]] == [["init", "begin", "discard"]] * 2


def test_lanes_end_in_a_revoke_whatever_their_commits_were_answered() -> None:
    made: dict[Partition, ScriptedProducer] = {
        NAMES[0]: ScriptedProducer(flush=FatalError("not allowed")),
        NAMES[1]: ScriptedProducer(),
        NAMES[2]: ScriptedProducer(),
    }
    many = Many(lambda name: made[name])
    many.assign()
    many.open(0, 1, 2)
    with pytest.raises(TaskFailedError, match="not allowed"):
        many.lanes.end_for_revoke(NAMES[:2])
    assert [lane.partition for lane in many.lanes.each] == [NAMES[2]]
    assert [made[name].calls[-2:] for name in NAMES] == [["abort", "discard"], ["commit", "discard"], ["init", "begin"]]


def test_what_is_open_in_a_lane_that_is_lost_is_aborted_and_the_others_go_on() -> None:
    made: dict[Partition, ScriptedProducer] = {name: ScriptedProducer() for name in NAMES}
    many = Many(lambda name: made[name])
    many.assign()
    many.open(0, 1)
    many.lanes.lost(NAMES[:1])
    assert [lane.partition for lane in many.lanes.each] == [*NAMES[1:]]
    assert made[NAMES[0]].calls == ["init", "begin", "abort", "discard"]
    many.lanes.commit(many.lanes.each)
    assert many.tally.totals.committed == 1
