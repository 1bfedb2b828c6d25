"""The markers of charts: fencing events, and the rebalances of a group."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from app.core.fencing.record import FencingFilter
from app.core.fencing.service import feed
from app.core.fencing.service.feed import FencingLine
from app.core.journals.live_groups import LiveGroup
from app.core.observing.pages.tracks import generations_of, mark_of
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.web.pages.charts import ChartMarker, MarkerKind

MOST_EVENTS = 50
"""The most events of one kind that a chart marks: the newest."""
_ASKED_AGAIN = timedelta(seconds=1)


def fencing_markers(lines: Iterable[FencingLine]) -> list[ChartMarker]:
    """Return a marker of each event, with a link to its page."""
    points = [mark_of(line.record) for line in lines]
    return [ChartMarker(one.at, MarkerKind.FENCING, one.title, one.href or "") for one in points]


def rebalance_markers(group: LiveGroup, *, cluster: str) -> list[ChartMarker]:
    """Return a marker of each known generation but the first, with a link to the group's page."""
    track = generations_of(group, cluster=cluster)
    newest = track.spans[1:][-MOST_EVENTS:]
    return [ChartMarker(one.at, MarkerKind.REBALANCE, one.title, track.href or "") for one in newest]


class ClusterFencings:
    """The markers of a cluster's fencing events, for views that refresh many times a second: asked once a second."""

    def __init__(self) -> None:
        self._markers: list[ChartMarker] = []
        self._asked_at: datetime | None = None

    async def since(self, uow: UnitOfWork, since: datetime, *, cluster: str, now: datetime) -> list[ChartMarker]:
        """Return those since then, always of the same cluster. Raises NotFoundError for an unknown one."""
        if self._asked_at is None or not timedelta() <= now - self._asked_at < _ASKED_AGAIN:
            wanted = FencingFilter(since=since)
            lines = await feed.list_lines(uow, wanted, cluster=cluster, limit=MOST_EVENTS)
            self._markers, self._asked_at = fencing_markers(lines.items), now
        return self._markers
