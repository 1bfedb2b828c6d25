"""The expectations of a drill follow from the definition that runs."""

from __future__ import annotations

import pytest

from app.core.pipelines.pipeline import FileSink, GroupProtocol, ProcessingGuarantee
from app.products.drills.drill import DrillKind, DrillPlan
from app.products.drills.planning import UNKNOWN, BrokerTimes, plan_of
from tests.support.definitions import a_definition

FREEZE, KILL, SERVER = DrillKind.FREEZE_INSTANCE, DrillKind.KILL_INSTANCE, DrillKind.FREEZE_SERVER
V1 = ProcessingGuarantee.EXACTLY_ONCE
FILES = FileSink(root="file:///data", rotate_ms=5_000, upload_timeout_ms=20_000)


def plan(
    kind: DrillKind, *, for_s: float = 15.0, others: int = 1, times: BrokerTimes = UNKNOWN, **fields: object
) -> DrillPlan:
    definition = a_definition(**{"session_timeout_ms": 6_000, "transaction_timeout_ms": 10_000, **fields})
    return plan_of(definition, kind, for_s=for_s, cluster="demo", others=others, own=1, times=times)


@pytest.mark.parametrize(
    ("made", "bound_s"),
    [
        (plan(KILL), 9.0),
        (plan(FREEZE, for_s=3.0), 6.0),
        # Offsets of the frozen task may be pending until the transaction timeout, or until the thaw.
        (plan(FREEZE, for_s=15.0), 18.0),
        (plan(FREEZE, for_s=60.0), 23.0),
        # The new owner initialises the same id, which aborts them at once.
        (plan(FREEZE, for_s=60.0, processing_guarantee=V1), 9.0),
        (plan(FREEZE, for_s=60.0, others=0), 90.0),
        (plan(SERVER), 3.0),
        # A commit that was due at the start, and the one after it.
        (plan(KILL, commit_interval_ms=2_000), 12.0),
        (plan(SERVER, commit_interval_ms=2_000), 6.0),
        # Files have a rotation instead, and are uploaded before the commit.
        (plan(KILL, commit_interval_ms=60_000, files=FILES), 38.0),
        (plan(SERVER, files=FILES), 32.0),
        (plan(FREEZE, for_s=60.0, group_protocol=GroupProtocol.CONSUMER), None),
        (plan(KILL, group_protocol=GroupProtocol.CONSUMER, times=BrokerTimes(session_s=45.0)), 48.0),
        # The definition's session timeout has no effect there, and the brokers' has none with the classic protocol.
        (plan(KILL, times=BrokerTimes(session_s=45.0)), 9.0),
        (plan(FREEZE, for_s=60.0, times=BrokerTimes(abort_sweep_s=2.0)), 15.0),
    ],
)
def test_longest_expected_recovery_time(made: DrillPlan, bound_s: float | None) -> None:
    assert made.stands_still_s == bound_s
    assert any(one.within_s == bound_s for one in made.expected)


def test_plan_has_the_commit_interval() -> None:
    assert plan(KILL, commit_interval_ms=2_000).commits_every_s == 2.0
    assert plan(KILL, commit_interval_ms=2_000, files=FILES).commits_every_s == 5.0


@pytest.mark.parametrize(
    ("made", "because"),
    [
        (plan(KILL), "session timeout 6 s"),
        (plan(FREEZE, for_s=3.0), "the thaw"),
        (plan(FREEZE, for_s=15.0), "the thaw, which comes before the abort"),
        (plan(FREEZE, for_s=60.0), "the brokers' abort of the open transaction"),
        (plan(FREEZE, for_s=60.0, processing_guarantee=V1), "session timeout 6 s"),
        (plan(FREEZE, for_s=60.0, others=0), "the thaw"),
        (plan(FREEZE, for_s=60.0, group_protocol=GroupProtocol.CONSUMER), "the brokers' session timeout"),
    ],
)
def test_bound_of_the_recovery_time_is_named(made: DrillPlan, because: str) -> None:
    assert made.expected[-1].because == because


def test_freeze_shorter_than_the_session_timeout_causes_no_rebalance() -> None:
    assert "no rebalance" in plan(FREEZE, for_s=3.0).expected[0].sentence
    assert "new generation" in plan(FREEZE, for_s=7.0).expected[0].sentence


def test_freeze_within_a_heartbeat_of_the_session_timeout_may_cause_a_rebalance() -> None:
    assert "perhaps a rebalance" in plan(FREEZE, for_s=3.1).expected[0].sentence


def test_session_timeout_of_the_brokers_is_named_as_theirs() -> None:
    made = plan(FREEZE, for_s=60.0, group_protocol=GroupProtocol.CONSUMER, times=BrokerTimes(session_s=45.0))
    assert made.expected[0].because == "the brokers' session timeout of 45 s, unless the group has its own"


def test_unknown_session_timeout_of_the_brokers_has_no_number() -> None:
    (first, *_) = plan(FREEZE, group_protocol=GroupProtocol.CONSUMER).expected
    assert (first.within_s, first.because) == (None, "the brokers' session timeout")


def test_at_least_once_has_no_guarantee() -> None:
    made = plan(FREEZE, processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    assert "no guarantee" in made.expected[1].sentence
    assert not any("transaction" in one.sentence for one in made.expected)
