"""Send the deliveries of the outbox. Every server does; a lease assigns each delivery to one server at a time.

1. begin: take the next delivery, counted and leased, and commit. If the server dies after this, another sends it again.
2. sign and send it, within less than the lease.
3. record the receiver's answer. Only then is it delivered: the receiver may get it twice, but never not at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from app.core.alerts.alert import message_of
from app.core.alerts.service import NOTICE
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Answered, DeliveryAttempt, Webhook
from app.kit.clock import Clock
from app.kit.db.unit_of_work import UnitOfWorkFactory
from app.kit.errors import FencelineError
from app.kit.storable import storable_text
from app.products.webhooks.ports import SigningKeys, WebhookPost
from app.products.webhooks.retry import DeliveryPace
from app.products.webhooks.signature import headers_of

log = logging.getLogger(__name__)


class WebhookSender:
    """Sends to each webhook in a task of its own, so that webhooks do not wait for each other.

    Args:
        where: the name of this server; every server sends, so each has a loop of its own.
        server_url: the address of this server for users, for the links in the messages.
        chance: a number from 0 to 1 for each pause, so that deliveries that failed together are retried apart.
    """

    wakes = frozenset({NOTICE})

    def __init__(
        self,
        *,
        unit_of_work: UnitOfWorkFactory,
        post: WebhookPost,
        keys: SigningKeys,
        clock: Clock,
        where: str,
        server_url: str,
        chance: Callable[[], float],
        pace: DeliveryPace | None = None,
        period_s: float = 1.0,
    ) -> None:
        self.name = f"webhooks of {where}"
        self.period_s = period_s
        self.is_idle = False
        self._unit_of_work = unit_of_work
        self._post = post
        self._keys = keys
        self._clock = clock
        self._server_url = server_url
        self._chance = chance
        self._pace = pace or DeliveryPace()
        self._sending: dict[str, asyncio.Task[None]] = {}

    async def turn(self) -> None:
        """Begin to send to every webhook with due deliveries; the sending continues after the turn."""
        failed = [task for task in self._sending.values() if task.done()]
        self._sending = {name: task for name, task in self._sending.items() if not task.done()}
        async with self._unit_of_work() as uow:
            given_up = await uow.of(DeliveryStore).give_up(older_than=self._pace.give_up_after)
            for name in given_up:
                uow.notify(NOTICE, name)
            await uow.commit()
            due = await uow.of(DeliveryStore).due()
            # A pending delivery becomes due without a notice.
            self.is_idle = not due and not await uow.of(DeliveryStore).is_any_pending()
        for name, count in given_up.items():
            hours = self._pace.give_up_after.total_seconds() / 3600
            log.error("the webhook %s: %d deliveries not delivered after %g h", name, count, hours)
        for name in due:
            if name not in self._sending:
                self._sending[name] = asyncio.create_task(self._send_due(name), name=f"webhook {name}")
        for task in failed:
            # After all others have begun: the loop reports one webhook's error without delaying the others.
            task.result()

    def interrupted(self) -> None:
        """Continue the current sending: its lease is held independently of the loop's lock."""

    async def close(self) -> None:
        """Cancel the current sending; it is repeated when its lease is over."""
        sending, self._sending = list(self._sending.values()), {}
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)

    async def _send_due(self, name: str) -> None:
        while True:
            async with self._unit_of_work() as uow:
                attempt = await uow.of(DeliveryStore).begin(
                    name, lease_s=self._pace.lease_s, retry_limit=self._pace.give_up_after
                )
                if attempt is None:
                    return
                webhook = await uow.of(WebhookStore).get(name)
                uow.notify(NOTICE, name)
                await uow.commit()
            try:
                answered = await self._send(webhook, attempt)
            except FencelineError as error:
                await self._note_failed(webhook, attempt, error.message)
            else:
                await self._note_answer(webhook, attempt, answered)

    async def _send(self, webhook: Webhook, attempt: DeliveryAttempt) -> Answered:
        body = message_of(attempt.alert, server_url=self._server_url)
        headers = headers_of(
            attempt.delivery_id,
            body,
            timestamp_s=int(self._clock.now().timestamp()),
            keys=await self._keys(webhook.secrets),
        )
        return await self._post(webhook.url, headers=headers, body=body)

    async def _note_answer(self, webhook: Webhook, attempt: DeliveryAttempt, answered: Answered) -> None:
        answered = msgspec.structs.replace(answered, text=storable_text(answered.text))
        if not answered.is_taken:
            await self._note_failed(webhook, attempt, answered.problem, answered)
            return
        async with self._unit_of_work() as uow:
            await uow.of(DeliveryStore).note_delivered(attempt, answered)
            uow.notify(NOTICE, webhook.name)
            await uow.commit()
        log.info("the webhook %s: %s delivered at attempt %d", webhook.name, attempt.alert.type, attempt.number)

    async def _note_failed(
        self, webhook: Webhook, attempt: DeliveryAttempt, error: str, answered: Answered | None = None
    ) -> None:
        pause_s = self._pace.pause_s(attempts=attempt.number, chance=self._chance())
        async with self._unit_of_work() as uow:
            await uow.of(DeliveryStore).note_failed(attempt, pause_s=pause_s, error=error, answered=answered)
            if answered is not None and answered.is_gone:
                now = await uow.of(WebhookStore).get(webhook.name, for_update=True)
                paused = msgspec.structs.replace(now, paused_at=self._clock.now(), pause_reason=answered.problem)
                await uow.of(WebhookStore).save(paused)
            uow.notify(NOTICE, webhook.name)
            await uow.commit()
        log.warning(
            "the webhook %s: %s was not delivered at attempt %d, retried in %.0f s: %s",
            webhook.name,
            attempt.alert.type,
            attempt.number,
            pause_s,
            error,
        )
