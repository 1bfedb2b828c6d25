"""Fencing events by the registered names of clusters."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from app.core.clusters.store import ClusterStore
from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.record import FencingFilter, FencingRecord, GroupLosses
from app.core.fencing.service import events as fencing_events
from app.core.fencing.store import FencingStore
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.page import Page
from app.kit.storable import storable_text

_OF_A_GROUP = 20
_ASKED_AGAIN = timedelta(seconds=1)


class FencingLine(msgspec.Struct, frozen=True, kw_only=True):
    """cluster: the registered name of its Kafka cluster; None if it is no longer registered."""

    cluster: str | None
    record: FencingRecord


async def list_lines(
    uow: UnitOfWork, wanted: FencingFilter, *, cluster: str | None, after: str | None = None, limit: int = 50
) -> Page[FencingLine]:
    """Newest first, of one cluster or of all. Raises NotFoundError for an unknown cluster, InvalidError."""
    wanted = await _of_cluster(uow, wanted, cluster)
    page = await fencing_events.list_events(uow, wanted, after=after, limit=limit)
    names = await _names(uow)
    items = tuple(FencingLine(cluster=_name_of(record, names, cluster), record=record) for record in page.items)
    return Page(items=items, next_cursor=page.next_cursor)


class GroupFencings:
    """The losses of a group's members and of the ids that store its offsets, for views that refresh many times a
    second. The database is queried once a second, or when the group has other ids.
    """

    def __init__(self, *, cluster: str, group: str) -> None:
        self._cluster = cluster
        self._group = group
        self._lines: tuple[FencingLine, ...] = ()
        self._asked: tuple[datetime, tuple[str, ...]] | None = None

    async def newest(
        self, uow: UnitOfWork, *, transactional_ids: tuple[str, ...], now: datetime
    ) -> tuple[FencingLine, ...]:
        """Newest first. Raises NotFoundError for an unknown cluster."""
        if self._is_old(transactional_ids, now):
            losses = GroupLosses(
                group_id=storable_text(self._group),
                transactional_ids=tuple(name for name in transactional_ids if name),
            )
            wanted = FencingFilter(of_group=losses)
            self._lines = (await list_lines(uow, wanted, cluster=self._cluster, limit=_OF_A_GROUP)).items
            self._asked = now, transactional_ids
        return self._lines

    def _is_old(self, transactional_ids: tuple[str, ...], now: datetime) -> bool:
        if self._asked is None:
            return True
        asked_at, asked_ids = self._asked
        return asked_ids != transactional_ids or not timedelta() <= now - asked_at < _ASKED_AGAIN


async def count_by_cause(uow: UnitOfWork, wanted: FencingFilter, *, cluster: str | None) -> dict[FencingCause, int]:
    """The most frequent cause first. Raises NotFoundError for an unknown cluster."""
    counts = await uow.of(FencingStore).count_by_cause(await _of_cluster(uow, wanted, cluster))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


async def told_by_cluster(uow: UnitOfWork) -> dict[str, dict[FencingCause, int]]:
    """Return the number of events with each cause for each registered cluster; 0 without any."""
    told = await uow.of(FencingStore).told()
    return {
        one.name: {cause: told.get((one.kafka_cluster_id, cause), 0) for cause in FencingCause}
        for one in await uow.of(ClusterStore).list_all()
    }


async def get_line(uow: UnitOfWork, record_id: str) -> FencingLine:
    """Raises NotFoundError."""
    record = await fencing_events.get_event(uow, record_id)
    return FencingLine(cluster=_name_of(record, await _names(uow), None), record=record)


async def _of_cluster(uow: UnitOfWork, wanted: FencingFilter, cluster: str | None) -> FencingFilter:
    if cluster is None:
        return wanted
    return msgspec.structs.replace(wanted, kafka_cluster_id=(await uow.of(ClusterStore).get(cluster)).kafka_cluster_id)


async def _names(uow: UnitOfWork) -> dict[str, str]:
    """By the id that brokers report; the first of several names for one cluster."""
    return {one.kafka_cluster_id: one.name for one in reversed(await uow.of(ClusterStore).list_all())}


def _name_of(record: FencingRecord, names: dict[str, str], asked: str | None) -> str | None:
    return asked or names.get(record.event.key.kafka_cluster_id)
