"""The alerts of groups with great or growing lag, by the thresholds of the settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import urlencode

from app.core.alerts.alert import Alert, AlertKind, AlertState, subject_of
from app.core.alerts.conditions import AlertBounds
from app.core.clusters.cluster import Cluster
from app.core.lag.movement import LagState
from app.core.lag.report import GroupLag, LagReport
from app.kit.storable import moment_of_ms
from app.kit.words import count, duration

MOST_RAISED = 20
"""The most alerts of one cluster and kind: a dead broker lets thousands of groups fall behind, for one reason."""


class _Great(NamedTuple):
    """A group at its threshold, or above the half of it."""

    lag: GroupLag
    kind: AlertKind
    value_ms: int
    bound_ms: int


def lag_conditions(
    clusters: Iterable[Cluster],
    reports: Mapping[str, LagReport],
    bounds: AlertBounds,
    *,
    raised: Collection[Alert],
    now: datetime,
) -> tuple[list[Alert], frozenset[str]]:
    """Return the conditions, and the subjects that cannot be judged now.

    A raised alert is over below half of its threshold, so that it does not flap. A group of a paused pipeline has no
    alert. Reports are by the names of their clusters.
    """
    now_ms = int(now.timestamp() * 1000)
    told = {(alert.kind, alert.subject): alert for alert in raised if alert.group is not None}
    found: list[Alert] = []
    unknown: set[str] = set()
    for cluster in clusters:
        report = reports.get(cluster.name) or LagReport(cluster=cluster.name)
        of_cluster = [alert for alert in told.values() if alert.kafka_cluster_id == cluster.kafka_cluster_id]
        if not report.is_current(now_ms=now_ms):
            unknown |= {alert.subject for alert in of_cluster}
            continue
        unknown |= {
            alert.subject
            for alert in of_cluster
            if (lag := report.groups.get(alert.group or "")) is not None and lag.known < lag.partitions
        }
        room: dict[AlertKind, int] = dict.fromkeys((AlertKind.LAG, AlertKind.LAG_GROWING), MOST_RAISED)
        new: list[tuple[_Great, str]] = []
        for one in _great(report, bounds, now_ms):
            subject = subject_of(one.kind, cluster.kafka_cluster_id, one.lag.group)
            if (one.kind, subject) in told:
                room[one.kind] -= 1
                found.append(_alert(cluster, one, subject, now_ms))
            elif one.value_ms >= one.bound_ms:
                new.append((one, subject))
        for one, subject in sorted(new, key=lambda item: -item[0].value_ms):
            if room[one.kind] > 0:
                room[one.kind] -= 1
                found.append(_alert(cluster, one, subject, now_ms))
    return found, frozenset(unknown)


def _great(report: LagReport, bounds: AlertBounds, now_ms: int) -> Iterator[_Great]:
    for one in report.groups.values():
        if one.state is LagState.PAUSED:
            continue
        bound_ms = _bound_ms(bounds.lag_s, one.group)
        if bound_ms is not None and one.lag_ms is not None and one.lag_ms >= bound_ms / 2:
            yield _Great(one, AlertKind.LAG, one.lag_ms, bound_ms)
        bound_ms = _bound_ms(bounds.lag_growing_s, one.group)
        if bound_ms is not None and one.growing_ms is not None:
            yield _Great(one, AlertKind.LAG_GROWING, now_ms - one.growing_ms, bound_ms)


def _bound_ms(bounds: Iterable[str], group: str) -> int | None:
    """Return the threshold of the first pattern that matches; None without one."""
    pairs = (one.rpartition("=") for one in bounds)
    return next((int(float(seconds) * 1000) for pattern, _, seconds in pairs if fnmatchcase(group, pattern)), None)


def _alert(cluster: Cluster, one: _Great, subject: str, now_ms: int) -> Alert:
    lag, lag_records = one.lag, one.lag.lag_records or 0
    behind = (
        f"{count(lag_records, 'record')} and {'at least ' if lag.is_bound else ''}{duration(lag.lag_ms or 0)} behind"
    )
    sentence = (
        f"{lag.group} on {cluster.name} is {behind} ({lag.state}); the threshold is {duration(one.bound_ms)}."
        if one.kind is AlertKind.LAG
        else f"The lag of {lag.group} on {cluster.name} has grown for {duration(one.value_ms)}: it is {behind} "
        f"({lag.state})."
    )
    return Alert(
        kind=one.kind,
        state=AlertState.RAISED,
        subject=subject,
        at=moment_of_ms(now_ms - one.value_ms if one.kind is AlertKind.LAG_GROWING else now_ms),
        sentence=sentence,
        page="/groups/group?" + urlencode({"cluster": cluster.name, "name": lag.group}),
        cluster=cluster.name,
        kafka_cluster_id=cluster.kafka_cluster_id,
        group=lag.group,
        lag_records=lag.lag_records,
        lag_s=None if lag.lag_ms is None else lag.lag_ms // 1000,
    )
