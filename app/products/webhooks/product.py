"""The record of webhooks (app/core/product.py)."""

from __future__ import annotations

import os
import random

from app.products.webhooks import schemas  # first: it declares what the routes show

# isort: split
from app.core.product import Product, Routes, ServerParts, Tag
from app.kit.access import Verb
from app.kit.loops.supervisor import Loop
from app.kit.web.pages.navigation import Door, Place
from app.products.webhooks import api, pages
from app.products.webhooks.loop import WebhookSender
from app.products.webhooks.metrics import webhook_metrics
from app.products.webhooks.post import HttpWebhookPost, KeysByReference
from app.products.webhooks.retry import DeliveryPace

__all__ = ["WEBHOOKS", "schemas"]


def _loops(server: ServerParts) -> tuple[Loop, ...]:
    settings = server.settings
    pace = DeliveryPace()
    sender = WebhookSender(
        unit_of_work=server.unit_of_work,
        post=HttpWebhookPost(
            allowed_hosts=settings.allowed_webhook_hosts,
            allowed_networks=settings.allowed_webhook_networks,
            timeout_s=pace.timeout_s,
            user_agent=f"fenceline/{server.version}",
        ),
        keys=KeysByReference(environment=os.environ, secrets_dir=settings.secrets_dir),
        clock=server.clock,
        where=server.where,
        server_url=server.users_url,
        chance=random.random,
        pace=pace,
    )
    return (sender,)


WEBHOOKS = Product(
    name="webhooks",
    api=(Routes(after="transforms", routers=(api.router,)),),
    tags=(
        Tag(
            after="transform sources",
            name="webhooks",
            text="Receivers of signed alerts, and deliveries with their retries.",
        ),
    ),
    pages=(Routes(after="commands", routers=(pages.router,)),),
    navigation=(Place(door=Door.ADMIN, path="/webhooks", title="Webhooks", verb=Verb.VIEW_WEBHOOKS),),
    sentences={
        "webhook-added": "Added. It gets alerts from now on; send a test to check it.",
        "webhook-changed": "Saved. Pending deliveries go there too.",
        "webhook-paused": "Paused. New deliveries stay pending.",
        "webhook-resumed": "Resumed.",
        "webhook-removed": "Removed.",
        "webhook-test": "The test is pending; the receiver's answer appears below.",
    },
    loops=_loops,
    metrics=webhook_metrics,
)
