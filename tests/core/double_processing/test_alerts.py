"""A proved or likely finding is one alert of its group, also with several servers, and over an hour after the last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.core.alerts.alert import AlertKind, AlertState
from app.core.alerts.conditions import AlertBounds, SeenConditions, changes, seen
from app.core.alerts.told import FRESH_FOR
from app.core.clusters.cluster import Cluster
from app.core.journals import group_records
from app.core.observing.snapshot import ReadingPhase
from tests.support.observing import cluster, double_commits, hear, offset_batch

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
BOUNDS = AlertBounds()
CLUSTER = Cluster(
    name="c", kafka_cluster_id="K", bootstrap_servers="127.0.0.1:1", created_at=NOW, created_by="somebody"
)


def look(*groups: str, at: datetime = NOW, phase: ReadingPhase = ReadingPhase.LIVE) -> SeenConditions:
    """The findings of these groups are a minute older than NOW."""
    live, at_ms = cluster(), int(at.timestamp() * 1000)
    position = 0
    for group in groups:
        batches = double_commits(group, at=position, committed_ms=NOW_MS - 60_000)
        hear(live, *batches, topic=group_records.TOPIC, now_ms=at_ms)
        position += len(batches)
    if not groups:
        hear(live, offset_batch("other", 1, at=0), topic=group_records.TOPIC, now_ms=at_ms)
    for topic in (live.transactions.topic, live.groups.topic):
        live.enter(topic, phase, now_ms=at_ms)
    return seen([CLUSTER], {"c": live.snapshot(now_ms=at_ms)}, BOUNDS, now=at)


def test_finding_is_raised_once_for_its_group() -> None:
    new, over = changes([], look("g", "h"), registered={"K"}, now=NOW)
    assert over == []
    assert [(one.kind, one.state, one.group) for one in new] == [
        (AlertKind.DOUBLE_PROCESSING, AlertState.RAISED, "g"),
        (AlertKind.DOUBLE_PROCESSING, AlertState.RAISED, "h"),
    ]
    first = new[0]
    assert first.sentence.startswith("g: Offsets 105 to 109 of orders-0 were committed by producer 7:0 at ")
    assert (first.cause, first.confidence, first.partitions) == ("rewound", "proved", ("orders-0",))
    assert first.page == "/groups/group?cluster=c&name=g"
    assert changes(new, look("g", "h"), registered={"K"}, now=NOW) == ([], [])


@pytest.mark.parametrize("phase", [ReadingPhase.LIVE, ReadingPhase.LOST])
def test_alert_is_over_after_an_hour_without_another_if_the_journal_is_read(phase: ReadingPhase) -> None:
    raised, _ = changes([], look("g"), registered={"K"}, now=NOW)
    later = NOW + FRESH_FOR
    new, over = changes(raised, look("g", at=later, phase=phase), registered={"K"}, now=later)
    assert [one for one in new if one.kind is AlertKind.DOUBLE_PROCESSING] == []
    assert [one.state for one in over] == ([AlertState.RESOLVED] if phase is ReadingPhase.LIVE else [])


def test_old_findings_of_a_first_reading_raise_no_alert() -> None:
    assert not look("g", at=NOW + timedelta(hours=2)).conditions
