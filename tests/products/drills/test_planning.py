"""What is expected of a drill follows from the definition that runs."""

from __future__ import annotations

import pytest

from app.core.pipelines.pipeline import FileSink, GroupProtocol, ProcessingGuarantee
from app.products.drills.drill import DrillKind, Plan
from app.products.drills.planning import UNKNOWN, BrokerTimes, plan_of
from tests.support.definitions import a_definition

FREEZE, KILL, SERVER = DrillKind.FREEZE_INSTANCE, DrillKind.KILL_INSTANCE, DrillKind.FREEZE_SERVER
V1 = ProcessingGuarantee.EXACTLY_ONCE
FILES = FileSink(root="file:///data", rotate_ms=5_000, upload_timeout_ms=20_000)


def plan(
    kind: DrillKind, *, for_s: float = 15.0, others: int = 1, times: BrokerTimes = UNKNOWN, **fields: object
) -> Plan:
    definition = a_definition(**{"session_timeout_ms": 6_000, "transaction_timeout_ms": 10_000, **fields})
    return plan_of(definition, kind, for_s=for_s, cluster="demo", others=others, own=1, times=times)


@pytest.mark.parametrize(
    ("made", "bound_s"),
    [
        (plan(KILL), 9.0),
        (plan(FREEZE, for_s=3.0), 6.0),
        # Offsets of the frozen one may be pending until its transaction times out, or until it is thawed.
        (plan(FREEZE, for_s=15.0), 18.0),
        (plan(FREEZE, for_s=60.0), 23.0),
        # Its new owner takes its id, which decides them at once.
        (plan(FREEZE, for_s=60.0, processing_guarantee=V1), 9.0),
        (plan(FREEZE, for_s=60.0, others=0), 90.0),
        (plan(SERVER), 3.0),
        # A commit that was due when it began, and the one after it.
        (plan(KILL, commit_interval_ms=2_000), 12.0),
        (plan(SERVER, commit_interval_ms=2_000), 6.0),
        # Files are rotated instead, and uploaded before they are committed.
        (plan(KILL, commit_interval_ms=60_000, files=FILES), 38.0),
        (plan(SERVER, files=FILES), 32.0),
        (plan(FREEZE, for_s=60.0, group_protocol=GroupProtocol.CONSUMER), None),
        (plan(KILL, group_protocol=GroupProtocol.CONSUMER, times=BrokerTimes(session_s=45.0)), 48.0),
        # The definition's own has no effect there, and the brokers' none with the classic protocol.
        (plan(KILL, times=BrokerTimes(session_s=45.0)), 9.0),
        (plan(FREEZE, for_s=60.0, times=BrokerTimes(abort_sweep_s=2.0)), 15.0),
    ],
)
def test_how_long_records_may_stand_still(made: Plan, bound_s: float | None) -> None:
    assert made.stands_still_s == bound_s
    assert any(one.within_s == bound_s for one in made.expected)


def test_records_flow_no_more_often_than_they_are_committed() -> None:
    assert plan(KILL, commit_interval_ms=2_000).commits_every_s == 2.0
    assert plan(KILL, commit_interval_ms=2_000, files=FILES).commits_every_s == 5.0


@pytest.mark.parametrize(
    ("made", "because"),
    [
        (plan(KILL), "session timeout 6 s"),
        (plan(FREEZE, for_s=3.0), "the thaw"),
        (plan(FREEZE, for_s=15.0), "the thaw, which comes before the abort"),
        (plan(FREEZE, for_s=60.0), "the brokers' abort of what was open"),
        (plan(FREEZE, for_s=60.0, processing_guarantee=V1), "session timeout 6 s"),
        (plan(FREEZE, for_s=60.0, others=0), "the thaw"),
        (plan(FREEZE, for_s=60.0, group_protocol=GroupProtocol.CONSUMER), "the brokers' own session timeout"),
    ],
)
def test_what_ends_the_standstill_is_named(made: Plan, because: str) -> None:
    assert made.expected[-1].because == because


def test_a_freeze_shorter_than_the_session_is_expected_to_go_unnoticed() -> None:
    assert "nobody but you notices" in plan(FREEZE, for_s=3.0).expected[0].sentence
    assert "new generation" in plan(FREEZE, for_s=7.0).expected[0].sentence


def test_a_freeze_that_ends_within_a_heartbeat_of_the_session_may_be_noticed() -> None:
    assert "may go unnoticed" in plan(FREEZE, for_s=3.1).expected[0].sentence


def test_what_the_brokers_have_is_named_as_theirs() -> None:
    made = plan(FREEZE, for_s=60.0, group_protocol=GroupProtocol.CONSUMER, times=BrokerTimes(session_s=45.0))
    assert made.expected[0].because == ("the brokers' session timeout of 45 s, unless the group has been given another")


def test_what_the_brokers_decide_is_not_given_a_number() -> None:
    (first, *_) = plan(FREEZE, group_protocol=GroupProtocol.CONSUMER).expected
    assert (first.within_s, first.because) == (None, "the brokers' own session timeout")


def test_a_pipeline_without_the_guarantee_is_not_promised_it() -> None:
    made = plan(FREEZE, processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    assert "no guarantee" in made.expected[1].sentence
    assert not any("transaction" in one.sentence for one in made.expected)
