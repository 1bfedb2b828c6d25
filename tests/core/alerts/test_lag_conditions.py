"""Alerts of lag: by pattern, once, over below half of the threshold, and never by what is not known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from app.core.alerts.alert import Alert, AlertKind
from app.core.alerts.conditions import AlertBounds, SeenConditions, changes
from app.core.alerts.lag_conditions import MOST_RAISED, lag_conditions
from app.core.clusters.cluster import Cluster
from app.core.lag.movement import LagState
from app.core.lag.report import GroupLag, LagReport
from tests.core.lag.details import AT_MS, report_of, total_lag

NOW = datetime.fromtimestamp(AT_MS / 1000, UTC)
CLUSTER = Cluster(name="c", kafka_cluster_id="K", bootstrap_servers="b:1", created_at=NOW, created_by="anna")
BOUNDS = AlertBounds(lag_s=("orders-*=60", "*=3600"), lag_growing_s=("orders-*=600",))


def told(
    *groups: GroupLag, raised: tuple[Alert, ...] = (), report: LagReport | None = None, now: datetime = NOW
) -> tuple[list[Alert], list[Alert]]:
    """What is raised, and what is resolved."""
    reports = {"c": report or report_of(*groups)}
    found, unknown = lag_conditions([CLUSTER], reports, BOUNDS, raised=raised, now=now)
    seen = SeenConditions(
        conditions=tuple(found), transactions_of=frozenset(), groups_of=frozenset(), undecided=unknown
    )
    return changes(raised, seen, registered={"K"}, now=now)


@pytest.mark.parametrize(
    ("group", "lag_s", "is_raised"),
    [("orders-1", 59, False), ("orders-1", 60, True), ("billing", 60, False), ("billing", 3_600, True)],
)
def test_first_matching_pattern_has_the_threshold(group: str, lag_s: int, is_raised: bool) -> None:
    raised, _ = told(total_lag(group, lag_ms=lag_s * 1000))
    assert bool(raised) is is_raised


def test_alert_says_how_far_the_group_is_behind() -> None:
    (alert,), _ = told(total_lag("orders-1", LagState.SLOW, lag_records=1_200, lag_ms=90_000, is_bound=True))
    assert alert.kind is AlertKind.LAG
    assert alert.sentence == "orders-1 on c is 1,200 records and at least 90 s behind (slow); the threshold is 60 s."
    assert (alert.group, alert.lag_records, alert.lag_s) == ("orders-1", 1_200, 90)
    assert alert.page == "/groups/group?cluster=c&name=orders-1"


def test_alert_is_raised_once_and_over_below_half_of_the_threshold() -> None:
    (alert,), _ = told(total_lag("orders-1", lag_ms=70_000))
    assert told(total_lag("orders-1", lag_ms=31_000), raised=(alert,)) == ([], [])
    _, (over,) = told(total_lag("orders-1", lag_ms=29_000), raised=(alert,))
    assert over.type == "lag.resolved"


def test_lag_that_has_grown_for_long_is_raised() -> None:
    grown = total_lag("orders-1", growing_ms=AT_MS - 660_000, lag_ms=10_000)
    (alert,), _ = told(grown)
    assert (alert.kind, alert.at) == (AlertKind.LAG_GROWING, NOW - timedelta(minutes=11))
    assert alert.sentence.startswith("The lag of orders-1 on c has grown for 11 min:")
    _, (over,) = told(msgspec.structs.replace(grown, growing_ms=None), raised=(alert,))
    assert over.type == "lag_growing.resolved"


def test_paused_pipeline_raises_nothing_and_ends_its_alert() -> None:
    (alert,), _ = told(total_lag("orders-1", lag_ms=70_000))
    paused = total_lag("orders-1", LagState.PAUSED, lag_ms=9_000_000, growing_ms=1, pipeline="orders")
    raised, over = told(paused, raised=(alert,))
    assert (raised, [one.type for one in over]) == ([], ["lag.resolved"])


@pytest.mark.parametrize(
    "report",
    [
        report_of(problem="no broker answers"),
        LagReport(cluster="c"),
        report_of(at_ms=AT_MS - 120_000),
        report_of(total_lag("orders-1", lag_ms=0, known=3)),
    ],
    ids=["no broker", "just started", "old", "a silent leader"],
)
def test_unknown_lag_resolves_no_alert(report: LagReport) -> None:
    (alert,), _ = told(total_lag("orders-1", lag_ms=70_000))
    assert told(raised=(alert,), report=report) == ([], [])
    assert told(raised=(alert,), report=report_of())[1], "the control: a group that has expired"


def test_thousands_of_groups_raise_a_bounded_number_the_longest_first() -> None:
    groups = [total_lag(f"orders-{number}", lag_ms=60_000 + number) for number in range(1_000)]
    raised, _ = told(*groups)
    assert [one.group for one in raised] == [f"orders-{999 - number}" for number in range(MOST_RAISED)]
    again, over = told(*groups, raised=tuple(raised))
    assert (again, over) == ([], [])
