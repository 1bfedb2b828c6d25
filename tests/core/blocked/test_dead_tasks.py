"""Whose word makes a task dead, and which of its transactions are to be ended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.blocked.dead_tasks import DeadEnd, DeadProducer, dead_producer, left_by, why_gone
from app.core.blocked.facts import KnownTransaction
from app.core.runs.instance import ENDED, Instance, InstanceState
from app.core.runs.observation import MasterWord, Observation, ProcessWord
from app.core.runs.task import TaskReport, TaskState
from tests.support.reconciliation import (
    ALIVE,
    ELSEWHERE,
    GONE_FINISHED,
    GONE_RUNNING,
    GONE_UNKNOWN,
    GONE_UNREACHABLE,
    NOW,
    ended,
)
from tests.support.reports import REPORT

S = InstanceState
KNOWN = KnownTransaction("tx", 1, "Ongoing", 7, 4, 10_000, 0, frozenset({("out", 0)}))


def over(state: InstanceState = S.FAILED, *, ended_s: float = 60) -> Instance:
    return ended(state, lease=1, lived_s=600, ended_s=ended_s)


def dead() -> DeadProducer:
    found = dead_producer(REPORT, pipeline="flights", why="it is gone")
    assert found is not None
    return found


@pytest.mark.parametrize("state", sorted(ENDED))
def test_driver_that_is_gone_and_an_application_that_has_ended_are_gone(state: InstanceState) -> None:
    assert "by the resource manager's word" in (why_gone(over(state), GONE_FINISHED, now=NOW) or "")


@pytest.mark.parametrize(
    ("one", "seen"),
    [
        pytest.param(over(), ALIVE, id="its process lives"),
        pytest.param(over(S.LOST), ELSEWHERE, id="its process is out of sight"),
        pytest.param(
            over(S.LOST),
            Observation(process=ProcessWord.UNKNOWN, master=MasterWord.FINISHED),
            id="its process is out of sight, whatever the master says",
        ),
        pytest.param(over(S.LOST), GONE_RUNNING, id="the master counts it as running"),
        pytest.param(over(S.LOST), GONE_UNREACHABLE, id="the master is silent"),
        pytest.param(over(S.FAILED), GONE_UNKNOWN, id="the master has begun anew and knows of nobody"),
        pytest.param(over(ended_s=1), GONE_FINISHED, id="its executors may live on for a moment"),
        pytest.param(replace(over(), state=S.UNREACHABLE), GONE_FINISHED, id="it is silent, and has not ended"),
        pytest.param(replace(over(), claimed_at=None), GONE_FINISHED, id="it never ran a task"),
    ],
)
def test_silence_is_not_gone(one: Instance, seen: Observation) -> None:
    assert why_gone(one, seen, now=NOW) is None


def test_application_that_no_master_has_known_for_long_is_gone() -> None:
    assert why_gone(over(S.LOST), GONE_UNKNOWN, now=NOW) is not None


@pytest.mark.parametrize(
    "report",
    [
        replace(REPORT, state=TaskState.DRAINED),
        replace(REPORT, state=TaskState.SUPERSEDED),
        replace(REPORT, transactional_id=None),
        replace(REPORT, producer_id=None, producer_epoch=None),
    ],
    ids=["drained", "superseded", "at least once", "before its init"],
)
def test_task_that_left_nothing_has_nothing_to_end(report: TaskReport) -> None:
    assert dead_producer(report, pipeline="flights", why="it is gone") is None


def test_open_transaction_at_its_own_producer_and_epoch_is_to_be_ended() -> None:
    assert left_by(dead(), KNOWN) is None


@pytest.mark.parametrize(
    ("known", "result"),
    [
        (replace(KNOWN, producer_epoch=5), DeadEnd.MOVED_ON),
        (replace(KNOWN, producer_epoch=3), DeadEnd.MOVED_ON),
        (replace(KNOWN, producer_id=8), DeadEnd.MOVED_ON),
        (replace(KNOWN, state="Empty"), DeadEnd.NOTHING_OPEN),
        (replace(KNOWN, state="CompleteCommit"), DeadEnd.NOTHING_OPEN),
        (replace(KNOWN, state="PrepareAbort"), DeadEnd.NOTHING_OPEN),
        (None, DeadEnd.NOTHING_OPEN),
    ],
)
def test_everything_else_is_left_alone(known: KnownTransaction | None, result: DeadEnd) -> None:
    assert left_by(dead(), known) is result
    assert result.is_final


@pytest.mark.parametrize("result", [DeadEnd.REFUSED, DeadEnd.UNANSWERED])
def test_what_was_refused_or_not_answered_is_tried_again(result: DeadEnd) -> None:
    assert not result.is_final
