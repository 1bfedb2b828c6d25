"""A lane for each partition, without a broker: what of one lane's trouble reaches the others."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Message

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import DesiredTaskState, EventKind
from tests.workers.loop.many_lanes import NAMES, Looks, Many
from tests.workers.loop.test_checkpoint import ScriptedProducer
from workers.loop.claim.inquiry import InquiryAnswer
from workers.loop.errors import (
    AbortableError,
    FatalError,
    FencedError,
    LoopError,
    OutcomeUnknownError,
    RetriableError,
    SupersededError,
    TaskFailedError,
)
from workers.loop.records.trials import Trial
from workers.loop.slices import CallPatience
from workers.loop.vetting import Vetting


class NeverComesBack(ScriptedProducer):
    """Its flush hangs, with any bound."""

    def __init__(self) -> None:
        super().__init__()
        self.is_over = threading.Event()

    def flush(self, *, patience: CallPatience) -> None:
        self.is_over.wait(60.0)


def test_a_call_that_does_not_come_back_is_not_waited_for_for_ever() -> None:
    stuck = NeverComesBack()
    many = Many(lambda name: stuck if name == Partition("t", 1) else ScriptedProducer())
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
    assert "10 was confirmed" in (many.lane(1).obstacle or "")


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
    assert not any(lane.current for lane in opened)
    assert many.tally.totals.committed == 2


@pytest.mark.parametrize("error", [OutcomeUnknownError("no answer"), FencedError("another"), AbortableError("refused")])
def test_beginning_that_goes_wrong_in_one_lane_is_that_lanes_alone(error: LoopError) -> None:
    many = Many(lambda name: ScriptedProducer(commit=error) if name == NAMES[0] else ScriptedProducer())
    many.assign()
    begun: list[bool] = []
    for _ in range(2):
        # The second time the lane is not ready.
        is_sent = many.lanes.commit_starts(
            dict.fromkeys(NAMES, 100),
            for_others={Partition("t", 3): 7},
            together=True,
            confirmed=lambda: begun.append(True),
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
        dict.fromkeys(NAMES, 100),
        for_others={Partition("t", 3): 7},
        together=True,
        confirmed=lambda: begun.append(True),
    )
    assert begun == [True]
    assert [[entry.offset for entry in producer.offsets] for producer in made.values()] == [[100, 100, 100, 7], [], []]


def test_lanes_whose_notes_cannot_be_read_are_settled_and_the_others_go_on() -> None:
    many = Many(lambda _: ScriptedProducer())
    many.assign()
    many.lane(2).suspicion.vetted([NAMES[2]])
    many.group.is_answered = False
    vetting = Vetting(many.group, lanes=many.lanes, progress=many.progress, try_out=lambda _: None, tell=lambda _: None)
    passed = vetting.vetted([many.batch(0), many.batch(2)])
    assert [batch.lane for batch in passed] == [many.lane(2)]
    assert many.needing == [0]


def test_the_end_of_the_attempt_in_one_lane_does_not_hide_the_commits_of_the_others() -> None:
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


def test_drain_commits_open_checkpoints_before_it_waits_for_an_unknown_outcome() -> None:
    many = Many(lambda _: ScriptedProducer())
    many.assign()
    many.open(1, 2)
    many.lane(0).recovery.recover(OutcomeUnknownError("no answer"))
    many.asked[NAMES[0]].answer = InquiryAnswer(None, "not known yet")
    committed_at_poll: list[int] = []

    def polled() -> None:
        committed_at_poll.append(many.tally.totals.committed)
        many.clock[0] += 0.1

    many.group.polled = polled
    many.control.wanted = DesiredTaskState.DRAIN
    loop = many.loop()
    loop.run(["t"])
    assert committed_at_poll[0] == 2, "both were blocked by the one with an unknown outcome"
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
        asked.answer, asked.takes_s = InquiryAnswer(None, "not known yet"), 4.0
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

    def flush(self, *, patience: CallPatience) -> None:
        self._time()[0] += patience.bound_s
        super().flush(patience=patience)


def test_bound_holds_for_a_round_and_leaves_a_waiting_lane_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.loop.together._AT_ONCE", 1)
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


def test_an_attempt_that_was_away_asks_whether_it_is_current_before_it_initialises_ids_again() -> None:
    """It may have been replaced meanwhile: by its init it would fence the present owners of the partitions."""
    many = Many(lambda _: ScriptedProducer())
    many.assign(NAMES[:1])
    assert many.asked[NAMES[0]].times == 0, "who started it has just given it leave"
    many.lanes.lost(NAMES[:1])
    many.asked[NAMES[1]].answer = InquiryAnswer(False, "the server names another attempt as current")
    with pytest.raises(SupersededError):
        many.assign(NAMES[1:2])
    assert many.asked[NAMES[1]].times == 1
    assert many.lane(1).producer is None


def test_a_poll_that_comes_a_session_late_is_an_absence_too() -> None:
    """A member that has not polled for long loses its partitions in an eager group without a call of `on_lost`."""
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
    assert many.lane(2).producer is not None
    many.assign(NAMES[1:2])
    assert many.asked[NAMES[1]].times == 0, "it was asked for once, and polls"


def test_call_whose_turn_did_not_come_in_time_is_not_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.loop.together._AT_ONCE", 1)
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
    # By the same thread, after the calls that still wait for it.
    many.lanes.close()
    assert [made[name].calls for name in NAMES[1:]] == [["init", "begin", "discard"]] * 2


def test_lanes_end_in_a_revoke_with_every_answer_to_their_commits() -> None:
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


def test_open_checkpoint_of_a_lost_lane_is_aborted_and_the_others_continue() -> None:
    made: dict[Partition, ScriptedProducer] = {name: ScriptedProducer() for name in NAMES}
    many = Many(lambda name: made[name])
    many.assign()
    many.open(0, 1)
    many.lanes.lost(NAMES[:1])
    assert [lane.partition for lane in many.lanes.each] == [*NAMES[1:]]
    assert made[NAMES[0]].calls == ["init", "begin", "abort", "discard"]
    many.lanes.commit(many.lanes.each)
    assert many.tally.totals.committed == 1


def suspected(many: Many) -> Vetting:
    """A record that has killed a process which had survived nothing; what is tried in its place is written down."""
    many.assign(NAMES[:1])
    many.group.offsets[NAMES[0]] = 0
    many.group.notes[NAMES[0]] = Trial(limit=1, begun=1, until=50).note()
    return Vetting(
        many.group,
        lanes=many.lanes,
        progress=many.progress,
        try_out=lambda message: many.tried.append(message.offset() or 0),
        tell=many.told.append,
        sleep=lambda _: None,
    )


def test_suspect_that_waits_for_another_record_leaves_no_mark_of_a_trial() -> None:
    producer = ScriptedProducer()
    many = Many(lambda _: producer)
    vetting = suspected(many)
    assert vetting.vetted([many.batch(0)]) == []
    assert "send_offsets" not in producer.calls
    assert (many.tried, many.told) == ([], [])
    many.settle()
    many.group.coming = [Message(topic="t", partition=0, offset=1, value=b"x")]
    assert vetting.vetted([many.batch(0)]) == []
    [sent] = producer.offsets
    assert (sent.offset, sent.metadata) == (0, Trial(limit=1, begun=1, until=50, passed=1).note())
    assert (many.tried, many.told) == ([1], [])


def test_no_mark_is_committed_of_a_partition_that_went_and_came_back_while_another_record_was_waited_for() -> None:
    """Its owner in between may have committed more than where the suspect is."""
    producer = ScriptedProducer()
    many = Many(lambda _: producer)
    vetting = suspected(many)

    def rebalance() -> None:
        many.group.ownership.given_up(NAMES[:1])
        many.group.ownership.assigned(NAMES[:1])

    many.group.polled = rebalance
    many.group.coming = [Message(topic="t", partition=1, offset=1, value=b"x")]
    assert vetting.vetted([many.batch(0)]) == []
    assert "send_offsets" not in producer.calls
    assert many.tried == []
