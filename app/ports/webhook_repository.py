"""What services ask of the database about webhooks, what is on its way to them, and the alerts that last."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Protocol

import msgspec

from app.domain.alerts.alert import Alert, AlertKind
from app.domain.page import Page
from app.domain.webhooks.retry import Answered
from app.domain.webhooks.webhook import Delivery, Webhook, WebhookCounts


class WebhookRepository(Protocol):
    async def add(self, webhook: Webhook) -> None:
        """Raises ConflictError when the name is taken."""
        ...

    async def get(self, name: str, *, for_update: bool = False) -> Webhook: ...

    async def list_all(self) -> list[Webhook]:
        """By name."""
        ...

    async def save(self, webhook: Webhook) -> None:
        """Everything but when and by whom it was made."""
        ...

    async def remove(self, name: str) -> None:
        """With all that is on its way to it."""
        ...

    async def counts(self) -> dict[str, WebhookCounts]:
        """Of each webhook that anything was written for."""
        ...


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one delivery, which is this server's until its lease ends. `number` counts from 1."""

    delivery_id: str
    number: int
    alert: Alert


class DeliveryRepository(Protocol):
    """The outbox. Its times are Postgres' own, so the servers need not agree on theirs."""

    async def write(
        self, alert: Alert, *, wait_s: float = 0.0, only: str | None = None, except_for: Collection[str] = ()
    ) -> list[str]:
        """Write the alert down for every webhook that is told its kind (or for `only` one); their names."""
        ...

    async def replace_unsent(self, alert: Alert) -> set[str]:
        """Let what nobody began to send of this subject say this instead, in the state it had; for which webhooks."""
        ...

    async def take_back_unsent(self, subject: str) -> set[str]:
        """Remove what nobody began to send of what HAPPENED to this subject; for which webhooks."""
        ...

    async def list(self, webhook: str, *, after: str | None, limit: int) -> Page[Delivery]:
        """Newest first."""
        ...

    async def due(self) -> list[str]:
        """The webhooks that something is to be sent to now, by name."""
        ...

    async def begin(self, webhook: str, *, lease_s: float) -> Attempt | None:
        """Take the next delivery that is due; it belongs to the caller for `lease_s`. Commit before it is sent.

        In the order in which they were written: behind one that waits for its next attempt all wait, but for those of
        other subjects behind one that the receiver has refused.
        """
        ...

    async def note_delivered(self, attempt: Attempt, answered: Answered) -> None: ...

    async def note_failed(
        self, attempt: Attempt, *, pause_s: float, error: str, answered: Answered | None = None
    ) -> None:
        """To be tried again after `pause_s`; nothing happens when another attempt has begun meanwhile."""
        ...

    async def hurry(self, webhook: str, *, lease_s: float) -> None:
        """Try at once what waits for its next attempt; what may be on its way now, when its lease ends."""
        ...

    async def give_up(self, *, older_than: timedelta) -> dict[str, int]:
        """Give up what was written longer ago and is not being sent now; how many, by webhook."""
        ...


class RaisedAlertRepository(Protocol):
    async def add(self, alert: Alert) -> bool:
        """Keep it until it is resolved; False when it is kept already."""
        ...

    async def take(self, kind: AlertKind, subject: str) -> Alert | None:
        """Keep it no longer; None when it was not kept."""
        ...

    async def list(self, kinds: Collection[AlertKind]) -> list[Alert]: ...
