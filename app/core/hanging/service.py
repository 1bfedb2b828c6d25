"""Store each hanging transaction once for any number of servers, and report its detection and its end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from app.core.alerts.alert import AlertKind
from app.core.alerts.service import raise_alert, resolve_alert
from app.core.alerts.told import hanging_alert, hanging_subject
from app.core.clusters.store import ClusterStore
from app.core.hanging.hanging_transaction import HangingOutcome, HangingTransaction
from app.core.hanging.pending import PendingHold, pending_holds
from app.core.hanging.record import HangingRecord
from app.core.hanging.report import HangingLine, SearchReport
from app.core.hanging.store import HangingStore
from app.core.observing.service.observations import Observations
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.page import Page, checked_limit

NOTICE = "hanging"


class HangingLook(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster's hanging transactions and pending offsets. pending_problem: the reason for which offsets may be
    missing.
    """

    bootstrap_servers: str
    search: SearchReport
    pending: tuple[PendingHold, ...]
    pending_problem: str


async def lines_of_all(uow: UnitOfWork) -> list[HangingLine]:
    """Return the hanging transactions of all registered clusters, as found by any server."""
    names = await _names(uow)
    return [
        HangingLine(cluster=names[one.key.kafka_cluster_id], transaction=one)
        for one in await uow.of(HangingStore).open_ones()
        if one.key.kafka_cluster_id in names
    ]


async def record_found(
    uow: UnitOfWork, found: Iterable[HangingTransaction], *, now: datetime
) -> list[HangingTransaction]:
    """Store the transactions, and return those that were not stored before. Only these are reported."""
    new = [one for one in _in_one_order(found) if await uow.of(HangingStore).add(one, now=now)]
    names = await _names(uow) if new else {}
    for one in new:
        await raise_alert(uow, hanging_alert(one, cluster=names.get(one.key.kafka_cluster_id)))
        uow.notify(NOTICE, one.key.kafka_cluster_id)
    return new


async def record_ended(uow: UnitOfWork, ended: Iterable[HangingOutcome], *, now: datetime) -> list[HangingOutcome]:
    """Store their ends, and return those that were not stored before."""
    new = [
        one
        for one in sorted(ended, key=lambda one: one.transaction.key)
        if await uow.of(HangingStore).end(one, now=now)
    ]
    for one in new:
        await resolve_alert(uow, AlertKind.TRANSACTION_HANGING, hanging_subject(one.transaction.key), now=now)
        uow.notify(NOTICE, one.transaction.key.kafka_cluster_id)
    return new


async def look(uow: UnitOfWork, observations: Observations, *, cluster: str, now: datetime) -> HangingLook:
    """Return this server's current results. Raises NotFoundError if the cluster does not exist."""
    entry = await uow.of(ClusterStore).get(cluster)
    search, snapshot = observations.search_of(cluster), observations.of(cluster)
    pending = pending_holds(snapshot, search.hanging, now_ms=int(now.timestamp() * 1000))
    return HangingLook(
        bootstrap_servers=entry.bootstrap_servers,
        search=search,
        pending=pending,
        pending_problem=snapshot.group_journal.problem,
    )


async def list_records(
    uow: UnitOfWork, *, cluster: str, after: str | None = None, limit: int = 50
) -> Page[HangingRecord]:
    """All that were found, ended ones too, newest first. Raises NotFoundError, InvalidError."""
    kafka_cluster_id = (await uow.of(ClusterStore).get(cluster)).kafka_cluster_id
    return await uow.of(HangingStore).list(kafka_cluster_id, after=after, limit=checked_limit(limit))


async def _names(uow: UnitOfWork) -> dict[str, str]:
    """By the id that brokers report; the first of several names for one cluster."""
    return {one.kafka_cluster_id: one.name for one in reversed(await uow.of(ClusterStore).list_all())}


def _in_one_order(found: Iterable[HangingTransaction]) -> list[HangingTransaction]:
    """Rows are locked in one order, so that two servers with the same results take turns."""
    return sorted(found, key=lambda one: one.key)
