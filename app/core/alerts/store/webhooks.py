"""Webhooks, and the raised alerts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from app.core.alerts.alert import Alert, AlertKind
from app.core.alerts.tables import raised_alerts, webhook_deliveries, webhooks
from app.core.alerts.webhook import DeliveryState, Webhook, WebhookCounts
from app.kit.db.store import DatabaseStore
from app.kit.errors import NotFoundError

_W = webhooks.c
_D = webhook_deliveries.c


class WebhookStore(DatabaseStore):
    async def add(self, webhook: Webhook) -> None:
        """Raises ConflictError if the name is taken."""
        await self._db.execute(
            sa.insert(webhooks).values(
                name=webhook.name, created_at=webhook.created_at, created_by=webhook.created_by, **_changeable(webhook)
            )
        )

    async def get(self, name: str, *, for_update: bool = False) -> Webhook:
        statement = sa.select(webhooks).where(_W.name == name)
        # This lock does not block writers of its alerts.
        row = await self._db.row(statement.with_for_update(key_share=True) if for_update else statement)
        if row is None:
            raise NotFoundError(f"there is no webhook {name}; `fenceline webhooks list` shows all webhooks")
        return _webhook(row)

    async def list_all(self) -> list[Webhook]:
        """Return them by name."""
        return [_webhook(row) for row in await self._db.rows(sa.select(webhooks).order_by(_W.name))]

    async def save(self, webhook: Webhook) -> None:
        """Write everything except its creation's time and user."""
        await self._db.execute(sa.update(webhooks).where(_W.name == webhook.name).values(**_changeable(webhook)))

    async def remove(self, name: str) -> None:
        """Remove it with all its deliveries."""
        await self._db.execute(sa.delete(webhooks).where(_W.name == name))

    async def counts(self) -> dict[str, WebhookCounts]:
        """Return the counts of each webhook with deliveries."""

        def of(state: DeliveryState) -> sa.ColumnElement[int]:
            return sa.func.count().filter(_D.state == state)

        rows = await self._db.rows(
            sa.select(
                _D.webhook,
                *(of(state).label(state.value) for state in DeliveryState),
                sa.func.min(_D.written_at).filter(_D.state == DeliveryState.PENDING).label("oldest_pending_at"),
            ).group_by(_D.webhook)
        )
        return {
            row.webhook: WebhookCounts(
                pending=row.pending,
                delivered=row.delivered,
                given_up=row.given_up,
                oldest_pending_at=row.oldest_pending_at,
            )
            for row in rows
        }


class RaisedAlertStore(DatabaseStore):
    async def add(self, alert: Alert) -> bool:
        """Keep it until it is resolved; False if it is kept already."""
        statement = postgresql.insert(raised_alerts).values(
            kind=alert.kind, subject=alert.subject, alert=msgspec.to_builtins(alert)
        )
        added = statement.on_conflict_do_nothing(constraint="pk_raised_alerts").returning(raised_alerts.c.kind)
        return await self._db.row(added) is not None

    async def take(self, kind: AlertKind, subject: str) -> Alert | None:
        """Remove and return it; None if it was not kept."""
        row = await self._db.row(
            sa.delete(raised_alerts)
            .where(raised_alerts.c.kind == kind, raised_alerts.c.subject == subject)
            .returning(raised_alerts.c.alert)
        )
        return None if row is None else msgspec.convert(row.alert, Alert)

    async def list(self, kinds: Collection[AlertKind]) -> list[Alert]:
        rows = await self._db.rows(
            sa.select(raised_alerts.c.alert)
            .where(raised_alerts.c.kind.in_(kinds))
            .order_by(raised_alerts.c.kind, raised_alerts.c.subject)
        )
        return [msgspec.convert(row.alert, Alert) for row in rows]


def _changeable(webhook: Webhook) -> dict[str, Any]:
    return {
        "url": webhook.url,
        "secrets": list(webhook.secrets),
        "kinds": list(webhook.kinds),
        "paused_at": webhook.paused_at,
        "pause_reason": webhook.pause_reason,
    }


def _webhook(row: sa.Row[Any]) -> Webhook:
    return Webhook(
        name=row.name,
        url=row.url,
        secrets=tuple(row.secrets),
        kinds=tuple(AlertKind(kind) for kind in row.kinds),
        created_at=row.created_at,
        created_by=row.created_by,
        paused_at=row.paused_at,
        pause_reason=row.pause_reason,
    )
