"""A group that refused a member, or continued without it (docs/fencing.md)."""

from __future__ import annotations

import pytest

from app.core.fencing.cases import case_of_word, generations_of
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import ClientWord, GroupRecord
from app.core.fencing.fencing_event import Case, Confidence, FencingCause, FencingEvent, FencingKind
from app.core.runs.task import EventKind
from tests.core.fencing.coordinator import CLUSTER, ID
from tests.core.fencing.scenes import both_versions, recorded_group, word


@both_versions
@pytest.mark.parametrize("error", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"])
def test_stale_generation_is_joined_with_the_group(version: str, error: str) -> None:
    group = recorded_group(version, "classic")
    reached = generations_of(group)
    said = word(EventKind.ABORTED, error=error, generation=reached[0].number, group="classic")
    event = membership_event(said, reached)
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.STALE_GENERATION, Confidence.CERTAIN)
    assert [one.number for one in event.evidence if isinstance(one, GroupRecord)] == [reached[1].number]
    assert f"at generation {reached[0].number}, the group reached {reached[1].number}" in event.verdict.sentence


@both_versions
def test_stale_member_epoch_is_joined_with_the_group(version: str) -> None:
    reached = generations_of(recorded_group(version, "modern"))
    said = word(EventKind.ABORTED, error="STALE_MEMBER_EPOCH", generation=reached[0].number, group="modern")
    event = membership_event(said, reached)
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.STALE_MEMBER_EPOCH, Confidence.CERTAIN)


def test_stale_generation_without_the_groups_journal_is_likely() -> None:
    event = membership_event(word(EventKind.ABORTED, error="UNKNOWN_MEMBER_ID"), ())
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.STALE_GENERATION, Confidence.LIKELY)


def test_member_that_lost_its_partitions() -> None:
    event = membership_event(word(EventKind.LOST), ())
    assert event.verdict.cause is FencingCause.STALE_GENERATION
    assert "continued without instance 0 task 1 attempt 2 on w1 and lost flights-0" in event.verdict.sentence


def test_rebalance_in_progress_is_no_fencing() -> None:
    assert membership_case(word(EventKind.ABORTED, error="REBALANCE_IN_PROGRESS"), ()) is None
    assert membership_case(word(EventKind.REVOKED), ()) is None


def membership_case(said: ClientWord, reached: tuple[GroupRecord, ...]) -> Case | None:
    return case_of_word(
        said, kafka_cluster_id=CLUSTER, transactional_id=ID, producer_id=7, producer_epoch=0, generations=reached
    )


def membership_event(said: ClientWord, reached: tuple[GroupRecord, ...]) -> FencingEvent:
    case = membership_case(said, reached)
    assert case is not None
    event = judge_case(case)
    assert event is not None
    assert event.key.kind is FencingKind.MEMBERSHIP
    return event
