"""A running sender on a test's own database, what it has to tell, and what became of that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import NoReturn

from app.core.alerts import service as alerts
from app.core.alerts.alert import Alert, AlertKind, AlertState
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Delivery, DeliveryState, Webhook
from app.edges.db.database import Database
from app.kit.clock import SystemClock
from app.products.webhooks.loop import WebhookSender
from app.products.webhooks.post import HttpWebhookPost, KeysByReference
from app.products.webhooks.retry import DeliveryPace
from tests.support.waiting import wait_for_async
from tests.support.webhook_receiver import OTHER_SECRET, SECRET

HASTY = DeliveryPace(first_s=0.05, longest_s=0.1, timeout_s=0.5, lease_s=1.0)
ENVIRONMENT = {"FENCELINE_SECRET_ONE": SECRET, "FENCELINE_SECRET_TWO": OTHER_SECRET}
NAME = "pager"


def sender_of(
    database: Database, *, pace: DeliveryPace = HASTY, where: str = "one", timeout_s: float | None = None
) -> WebhookSender:
    return WebhookSender(
        unit_of_work=database.unit_of_work,
        post=HttpWebhookPost(
            allowed_hosts=("127.0.0.1",),
            allowed_networks=("127.0.0.1",),
            timeout_s=timeout_s or pace.timeout_s,
            user_agent="fenceline/test",
        ),
        keys=KeysByReference(environment=ENVIRONMENT, secrets_dir=None),
        clock=SystemClock(),
        where=where,
        server_url="https://fenceline.example.com",
        chance=lambda: 0.5,
        pace=pace,
    )


async def turn_for_ever(sender: WebhookSender) -> NoReturn:
    """As the supervisor turns it, only that it rests for less."""
    while True:
        await sender.turn()
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running(*senders: WebhookSender) -> AsyncGenerator[None]:
    tasks = [asyncio.create_task(turn_for_ever(sender)) for sender in senders]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for sender in senders:
            await sender.close()


async def add(database: Database, url: str, *, name: str = NAME, secrets: tuple[str, ...] = ("ONE",)) -> None:
    async with database.unit_of_work() as uow:
        await uow.of(WebhookStore).add(
            Webhook(
                name=name,
                url=url,
                secrets=tuple(f"env:FENCELINE_SECRET_{one}" for one in secrets),
                created_at=datetime.now(UTC),
                created_by="anna",
            )
        )
        await uow.commit()


async def tell(database: Database, *sentences: str, subject: str | None = None) -> None:
    for sentence in sentences:
        async with database.unit_of_work() as uow:
            await alerts.tell(
                uow,
                Alert(
                    kind=AlertKind.RUN_FAILED,
                    state=AlertState.HAPPENED,
                    subject=subject or sentence,
                    at=datetime(2026, 11, 21, 12, tzinfo=UTC),
                    sentence=sentence,
                    page="/pipelines/p",
                ),
            )
            await uow.commit()


async def deliveries(database: Database, name: str = NAME) -> list[Delivery]:
    """Oldest first."""
    async with database.unit_of_work() as uow:
        return list(reversed((await uow.of(DeliveryStore).list(name, after=None, limit=100)).items))


async def until(
    database: Database, holds: Callable[[list[Delivery]], bool], what: str, *, deadline_s: float = 10.0
) -> list[Delivery]:
    found: list[Delivery] = []

    async def look() -> list[Delivery]:
        nonlocal found
        found = await deliveries(database)
        return found if holds(found) else []

    return await wait_for_async(look, deadline_s, lambda: f"{what}; there is {found}")


def all_are(state: DeliveryState) -> Callable[[list[Delivery]], bool]:
    return lambda found: bool(found) and all(one.state is state for one in found)
