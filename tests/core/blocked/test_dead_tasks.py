"""The reports that make a task dead, and the transactions to end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.core.blocked.dead_tasks import DeadEnd, DeadMember, DeadProducer, DeadTask, dead_task, left_by, why_gone
from app.core.blocked.facts import KnownTransaction
from app.core.clusters.partition import Partition
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
KNOWN = KnownTransaction("tx", 1, "Ongoing", 7, 4, 10_000, 0, frozenset({Partition("out", 0)}))


def over(state: InstanceState = S.FAILED, *, ended_s: float = 60) -> Instance:
    return ended(state, lease=1, lived_s=600, ended_s=ended_s)


def dead(report: TaskReport = REPORT) -> DeadTask | None:
    return dead_task(report, pipeline="flights", group="g", why="it is gone")


def producer() -> DeadProducer:
    found = dead()
    assert found is not None
    assert found.producer is not None
    return found.producer


@pytest.mark.parametrize("state", sorted(ENDED))
def test_lease_is_dead_once_driver_and_application_have_ended(state: InstanceState) -> None:
    assert "the cluster manager reports" in (why_gone(over(state), GONE_FINISHED, now=NOW) or "")


@pytest.mark.parametrize(
    ("one", "seen"),
    [
        pytest.param(over(), ALIVE, id="process alive"),
        pytest.param(over(S.LOST), ELSEWHERE, id="process on another host"),
        pytest.param(
            over(S.LOST),
            Observation(process=ProcessWord.UNKNOWN, master=MasterWord.FINISHED),
            id="process unknown, application finished",
        ),
        pytest.param(over(S.LOST), GONE_RUNNING, id="application running"),
        pytest.param(over(S.LOST), GONE_UNREACHABLE, id="no answer of the master"),
        pytest.param(over(S.FAILED), GONE_UNKNOWN, id="master restarted, application unknown"),
        pytest.param(over(ended_s=1), GONE_FINISHED, id="ended a second ago"),
        pytest.param(replace(over(), state=S.UNREACHABLE), GONE_FINISHED, id="unreachable, not ended"),
        pytest.param(replace(over(), claimed_at=None), GONE_FINISHED, id="never claimed"),
    ],
)
def test_lease_without_a_report_of_its_end_is_not_dead(one: Instance, seen: Observation) -> None:
    assert why_gone(one, seen, now=NOW) is None


def test_lost_lease_with_an_unknown_application_is_dead() -> None:
    assert why_gone(over(S.LOST), GONE_UNKNOWN, now=NOW) is not None


@pytest.mark.parametrize(
    "report",
    [
        replace(REPORT, state=TaskState.DRAINED),
        replace(REPORT, state=TaskState.SUPERSEDED),
        replace(REPORT, producer_id=None, producer_epoch=None, member_id=None),
    ],
    ids=["drained", "superseded", "before its init"],
)
def test_task_without_producer_and_member_left_nothing(report: TaskReport) -> None:
    assert dead(report) is None


@pytest.mark.parametrize(
    "report",
    [replace(REPORT, transactional_id=None), replace(REPORT, producer_id=None, producer_epoch=None)],
    ids=["at least once", "before its init"],
)
def test_task_without_a_producer_left_its_member(report: TaskReport) -> None:
    found = dead(report)
    assert found is not None
    assert (found.producer, found.group, found.member_id) == (None, "g", "member")


def test_task_without_a_member_left_its_transaction() -> None:
    found = dead(replace(REPORT, member_id=None))
    assert found is not None
    assert (found.producer, found.member_id) == (producer(), None)


def test_open_transaction_at_its_own_producer_and_epoch_is_to_be_ended() -> None:
    assert left_by(producer(), KNOWN) is None


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
def test_every_other_answer_ends_nothing(known: KnownTransaction | None, result: DeadEnd) -> None:
    assert left_by(producer(), known) is result
    assert result.is_final


@pytest.mark.parametrize("result", [DeadEnd.REFUSED, DeadEnd.UNANSWERED, DeadMember.REFUSED, DeadMember.UNANSWERED])
def test_refused_and_unanswered_ends_are_repeated(result: DeadEnd | DeadMember) -> None:
    assert not result.is_final
