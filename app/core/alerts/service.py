"""Write alerts for the webhooks in the transaction of their cause, so that both are stored, or neither.

`tell` is for single events. A lasting condition is raised and resolved: `raise_alert` and `resolve_alert` may be called
repeatedly and by several servers; each alert is written once. The caller commits.
"""

from __future__ import annotations

from datetime import datetime

from app.core.alerts.alert import CONDITIONS, Alert, AlertKind, AlertState, bounded
from app.core.alerts.conditions import resolved
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import RaisedAlertStore
from app.core.alerts.told import fencing_alert, fencing_subject, is_alerting
from app.core.clusters.store import ClusterStore
from app.core.fencing.fencing_event import FencingVerdict
from app.core.fencing.record import FencingRecord
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.storable import storable

NOTICE = "webhook"
SETTLE_S = 5.0
"""How long a fencing event waits for its correction: a takeover begins as an abort without a known cause."""


async def tell(uow: UnitOfWork, alert: Alert) -> None:
    """Write an event for every webhook with its kind."""
    _notify(uow, await uow.of(DeliveryStore).write(bounded(storable(alert))))


async def tell_one(uow: UnitOfWork, alert: Alert, *, webhook: str) -> None:
    """Write it for this webhook, with any kind."""
    _notify(uow, await uow.of(DeliveryStore).write(bounded(storable(alert)), only=webhook))


async def raise_alert(uow: UnitOfWork, alert: Alert) -> bool:
    """Write that a condition began, unless it is raised already. Return True if it is new."""
    _refuse_what_does_not_last(alert.kind)
    alert = bounded(storable(alert))
    is_new = await uow.of(RaisedAlertStore).add(alert)
    if is_new:
        _notify(uow, await uow.of(DeliveryStore).write(alert))
    return is_new


async def resolve_alert(uow: UnitOfWork, kind: AlertKind, subject: str, *, now: datetime) -> bool:
    """Write that the condition has ended; False if it was not raised, or another server has resolved it."""
    _refuse_what_does_not_last(kind)
    raised = await uow.of(RaisedAlertStore).take(kind, subject)
    if raised is None:
        return False
    _notify(uow, await uow.of(DeliveryStore).write(bounded(resolved(raised, now=now))))
    return True


async def tell_of_fencing(
    uow: UnitOfWork, record: FencingRecord, before: FencingVerdict | None, *, now: datetime
) -> None:
    """Write a fencing event that cost work, or the correction of an earlier alert.

    A correction before sending began replaces the first alert. `before` is the earlier verdict. The caller has locked
    the event's row, so that two corrections come one after the other.
    """
    was_told = before is not None and is_alerting(before, now=now)
    verdict = record.event.verdict
    if before is not None and before.cause is verdict.cause:
        return
    is_told = is_alerting(verdict, now=now)
    if not is_told and not was_told:
        return
    cause_before = before.cause if before is not None and was_told else None
    clusters = await uow.of(ClusterStore).list_all()
    names = [one.name for one in clusters if one.kafka_cluster_id == record.event.key.kafka_cluster_id]
    state = AlertState.CORRECTED if was_told else AlertState.HAPPENED
    alert = bounded(
        storable(fencing_alert(record, state=state, before=cause_before, cluster=names[0] if names else None))
    )
    settled: set[str] = set()
    if not is_told:
        settled |= await uow.of(DeliveryStore).take_back_unsent(fencing_subject(record))
    settled |= await uow.of(DeliveryStore).replace_unsent(alert)
    _notify(uow, await uow.of(DeliveryStore).write(alert, wait_s=SETTLE_S, except_for=settled))


def _refuse_what_does_not_last(kind: AlertKind) -> None:
    if kind not in CONDITIONS:
        raise ValueError(f"{kind} happens, and is neither raised nor resolved: use tell")


def _notify(uow: UnitOfWork, webhooks: list[str]) -> None:
    for name in webhooks:
        uow.notify(NOTICE, name)
