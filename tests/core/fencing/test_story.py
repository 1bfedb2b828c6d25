"""The history of a fencing event: each piece of evidence once, on its side, in order."""

from __future__ import annotations

import pytest

from app.core.fencing.cases import joined
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import CommandVerb, CommandWord, GroupRecord, MarkerRecord
from app.core.fencing.fencing_event import (
    Case,
    Confidence,
    FencingCause,
    FencingEvent,
    FencingKey,
    FencingKind,
    FencingVerdict,
)
from app.core.fencing.runbook import runbook
from app.core.fencing.steps import cases_of
from app.core.fencing.story import Story, StorySide, story_of
from app.core.journals.record_batch import MarkerType
from tests.core.fencing.coordinator import CLUSTER, ID, Client, Coordinator
from tests.core.fencing.scenes import both_versions, felt, recorded_ids, word


def event_of(coordinator: Coordinator, *more: Case) -> FencingEvent:
    (case,) = joined([*cases_of(coordinator.live, kafka_cluster_id=CLUSTER), *more])
    event = judge_case(case)
    assert event is not None
    return event


def sides(story: Story) -> list[tuple[StorySide, str]]:
    return [(moment.side, moment.what.split(" at ")[0]) for moment in story.moments]


def test_takeover_has_both_sides() -> None:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.init(after_ms=300)
    coordinator.begin()
    event = event_of(coordinator)
    story = story_of(event)
    assert sides(story) == [
        (StorySide.OLD, "had a transaction open"),
        (StorySide.OLD, "had its transaction aborted"),
        (StorySide.OLD, "had its transaction aborted"),
        (StorySide.NEW, "was initialised"),
        (StorySide.NEW, "had a transaction open"),
    ]
    assert story.new is not None
    assert (story.old.producer_epoch, story.new.producer_epoch) == (0, 2)
    assert [moment.at_ms for moment in story.moments] == sorted(moment.at_ms for moment in story.moments)
    assert "delayed-0, delayed-1" in story.moments[0].what


def test_journal_order_holds_at_any_clock_skew() -> None:
    """The id moves to a broker whose clock is behind."""
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.now_ms -= 900_000
    coordinator.init(after_ms=300)
    story = story_of(event_of(coordinator, felt(coordinator.live, word(), epoch=0)))
    assert sides(story)[:4] == [
        (StorySide.OLD, "had a transaction open"),
        (StorySide.OLD, "had its transaction aborted"),
        (StorySide.OLD, "had its transaction aborted"),
        (StorySide.NEW, "was initialised"),
    ]
    assert len(story.moments) == 5
    assert story.moments[4].is_own_word


def test_init_over_an_idle_producer_begins_the_new_side() -> None:
    coordinator = Coordinator()
    coordinator.init(after_ms=1_000)
    story = story_of(event_of(coordinator))
    assert [side for side, _ in sides(story)] == [StorySide.OLD, StorySide.NEW]


def test_client_that_ended_its_own_transaction_has_no_successor() -> None:
    coordinator = Coordinator(Client.TV_2)
    coordinator.begin()
    coordinator.abort()
    coordinator.begin()
    story = story_of(event_of(coordinator))
    assert story.new is None
    assert {moment.side for moment in story.moments} == {StorySide.OLD}


def test_client_report_is_on_the_old_side() -> None:
    coordinator = Coordinator()
    coordinator.init(after_ms=1_000)
    story = story_of(event_of(coordinator, felt(coordinator.live, word(), epoch=0)))
    (refused,) = [moment for moment in story.moments if moment.source.startswith("reported by")]
    assert refused.side is StorySide.OLD
    assert refused.what == "was refused: could not commit"
    assert refused.source == "reported by instance 0 task 1 attempt 2 on w1"


def test_commands_markers_and_generations_have_their_sources() -> None:
    key = FencingKey(
        kafka_cluster_id=CLUSTER, transactional_id=ID, producer_id=7, producer_epoch=0, kind=FencingKind.MARKER
    )
    evidence = (
        GroupRecord(group="g", number=8, is_epoch=False, members=2, partition=3, offset=40, at_ms=1),
        MarkerRecord(topic="t", partition=0, offset=9, at_ms=2, type=MarkerType.ABORT, coordinator_epoch=4),
        CommandWord(command_id=5, verb=CommandVerb.END, at_ms=3, who="ann", why="it hung", partitions=("t-0",)),
    )
    verdict = FencingVerdict(cause=FencingCause.HANGING_ENDED, confidence=Confidence.CERTAIN, at_ms=2, sentence="")
    story = story_of(FencingEvent(key=key, verdict=verdict, evidence=evidence))
    assert [(moment.side, moment.what, moment.source) for moment in story.moments] == [
        (StorySide.GROUP, "g reached generation 8 with 2 members", "__consumer_offsets-3, offset 40"),
        (StorySide.OLD, "got the marker ABORT in t-0, of coordinator epoch 4", "t-0, offset 9"),
        (StorySide.OPERATOR, "ann ended it in t-0, because: it hung", "command 5 of the command log"),
    ]


@both_versions
def test_every_recorded_event_has_all_of_its_evidence(version: str) -> None:
    count = 0
    for live in recorded_ids(version).values():
        for case in cases_of(live, kafka_cluster_id=CLUSTER):
            event = judge_case(case)
            if event is not None:
                count += 1
                assert len(story_of(event).moments) == len(event.evidence)
    assert count >= 3


@pytest.mark.parametrize("cause", list(FencingCause))
def test_every_cause_has_three_next_steps(cause: FencingCause) -> None:
    lines = runbook(cause)
    assert len({*lines}) == 3
    for line in lines:
        assert line.endswith(".")
        assert line.count("`") % 2 == 0
