"""REST shapes of webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.core.alerts import webhook
from app.core.alerts.alert import AlertKind
from app.kit.web.api.bodies import Answer, Body
from app.kit.web.api.shown import shows, stands_for
from app.kit.web.api.words import Name, Why
from app.products.webhooks.service import WebhookLine

Url = Annotated[
    str, Field(min_length=1, max_length=1000, examples=["https://hooks.example.com/alerts"], description="Its address.")
]
Secrets = Annotated[
    list[str],
    Field(
        min_length=1,
        max_length=2,
        description="One reference, or two during a change of secrets: `env:FENCELINE_SECRET_…`, `file:…`.",
    ),
]
Kinds = Annotated[
    list[Annotated[AlertKind, Field(strict=False)]], Field(description="Kinds of alerts to send; empty: all.")
]


class WebhookGiven(Body):
    """A webhook to add; it gets alerts from then on."""

    name: Name
    url: Url
    secrets: Secrets
    kinds: Kinds = Field(default=[])
    why: Why = None


class WebhookChangeGiven(Body):
    """All changeable fields; pending deliveries go to the new address with the new signatures."""

    url: Url
    secrets: Secrets
    kinds: Kinds = Field(default=[])
    why: Why = None


class Webhook(Answer):
    """address: complete for administrators, else without its path, which is often a secret of its own."""

    name: str
    address: str
    secrets: list[str]
    kinds: list[AlertKind]
    created_at: datetime
    created_by: str
    paused_at: datetime | None
    pause_reason: str | None
    pending: int
    delivered: int
    given_up: int
    oldest_pending_at: datetime | None

    @classmethod
    def of_line(cls, line: WebhookLine) -> Webhook:
        counts = line.counts
        return cls.of(
            line.webhook,
            address=line.address,
            pending=counts.pending,
            delivered=counts.delivered,
            given_up=counts.given_up,
            oldest_pending_at=counts.oldest_pending_at,
        )


stands_for(WebhookLine, Webhook, Webhook.of_line)


@shows(webhook.Delivery)
class Delivery:
    """id: the receiver's `webhook-id`. answer: the start of the receiver's newest answer."""
