"""Webhooks: administrators define them; operators pause, resume and test them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from app.core.access.service import command_log
from app.core.alerts import service as alerts
from app.core.alerts.alert import AlertKind
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.told import trial_alert
from app.core.alerts.webhook import MAX_WEBHOOKS, Delivery, Webhook, WebhookCounts, check_webhook
from app.kit.access import Principal, Role, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError
from app.kit.page import Page, checked_limit
from app.products.webhooks.retry import DeliveryPace


class WebhookLine(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook with its deliveries. `address` is its complete URL for administrators, else its origin."""

    webhook: Webhook
    counts: WebhookCounts
    address: str


async def add_webhook(
    uow: UnitOfWork,
    *,
    name: str,
    url: str,
    secrets: Sequence[str],
    kinds: Collection[AlertKind],
    allowed_hosts: Collection[str],
    by: Principal,
    why: str | None,
    now: datetime,
) -> Webhook:
    """Add a webhook, which gets alerts from now on. Raises InvalidError with all problems, ConflictError."""
    require(by, Verb.ADD_WEBHOOK)
    _refuse_wrong(name=name, url=url, secrets=secrets, kinds=kinds, allowed_hosts=allowed_hosts)
    if len(await uow.of(WebhookStore).list_all()) >= MAX_WEBHOOKS:
        raise ConflictError(f"the limit of {MAX_WEBHOOKS} webhooks is reached: remove one first")
    webhook = Webhook(
        name=name,
        url=url,
        secrets=tuple(secrets),
        kinds=_in_order(kinds),
        created_at=now,
        created_by=by.name,
    )
    await uow.of(WebhookStore).add(webhook)
    await _log(uow, webhook, Verb.ADD_WEBHOOK, by=by, why=why, now=now, outcome=f"sends to {webhook.origin}")
    return webhook


async def change_webhook(
    uow: UnitOfWork,
    name: str,
    *,
    url: str | None = None,
    secrets: Sequence[str] | None = None,
    kinds: Collection[AlertKind] | None = None,
    allowed_hosts: Collection[str],
    by: Principal,
    why: str | None,
    now: datetime,
) -> Webhook:
    """Change the given fields. Pending deliveries go to the new address at once, signed with the new secrets."""
    require(by, Verb.CHANGE_WEBHOOK)
    before = await uow.of(WebhookStore).get(name, for_update=True)
    after = msgspec.structs.replace(
        before,
        url=before.url if url is None else url,
        secrets=before.secrets if secrets is None else tuple(secrets),
        kinds=before.kinds if kinds is None else _in_order(kinds),
    )
    _refuse_wrong(name=after.name, url=after.url, secrets=after.secrets, kinds=after.kinds, allowed_hosts=allowed_hosts)
    changed = [field for field in ("url", "secrets", "kinds") if getattr(before, field) != getattr(after, field)]
    if changed:
        await uow.of(WebhookStore).save(after)
        await uow.of(DeliveryStore).hurry(name, lease_s=DeliveryPace().lease_s)
        await _log(uow, after, Verb.CHANGE_WEBHOOK, by=by, why=why, now=now, outcome=f"changed: {', '.join(changed)}")
    return after


async def remove_webhook(uow: UnitOfWork, name: str, *, by: Principal, why: str | None, now: datetime) -> None:
    """Remove it with its pending deliveries."""
    require(by, Verb.REMOVE_WEBHOOK)
    webhook = await uow.of(WebhookStore).get(name, for_update=True)
    await uow.of(WebhookStore).remove(name)
    await _log(uow, webhook, Verb.REMOVE_WEBHOOK, by=by, why=why, now=now, outcome="removed")


async def pause_webhook(uow: UnitOfWork, name: str, *, by: Principal, why: str | None, now: datetime) -> Webhook:
    """Send nothing until it is resumed; new deliveries stay pending. A second pause changes nothing."""
    require(by, Verb.PAUSE_WEBHOOK)
    webhook = await uow.of(WebhookStore).get(name, for_update=True)
    if webhook.paused_at is not None:
        return webhook
    reason = f"{by.name} paused it" + (f": {why.strip()}" if why and why.strip() else "")
    webhook = msgspec.structs.replace(webhook, paused_at=now, pause_reason=reason)
    await uow.of(WebhookStore).save(webhook)
    await _log(uow, webhook, Verb.PAUSE_WEBHOOK, by=by, why=why, now=now, outcome="nothing is sent until it is resumed")
    return webhook


async def resume_webhook(uow: UnitOfWork, name: str, *, by: Principal, why: str | None, now: datetime) -> Webhook:
    """Send again at once, the oldest deliveries first."""
    require(by, Verb.RESUME_WEBHOOK)
    webhook = await uow.of(WebhookStore).get(name, for_update=True)
    if webhook.paused_at is None:
        return webhook
    webhook = msgspec.structs.replace(webhook, paused_at=None, pause_reason=None)
    await uow.of(WebhookStore).save(webhook)
    await uow.of(DeliveryStore).hurry(name, lease_s=DeliveryPace().lease_s)
    await _log(uow, webhook, Verb.RESUME_WEBHOOK, by=by, why=why, now=now, outcome="resumed")
    return webhook


async def send_test(uow: UnitOfWork, name: str, *, by: Principal, why: str | None, now: datetime) -> Webhook:
    """Add a test delivery, sent as any other; earlier ones are retried at once.

    Raises ConflictError while the webhook is paused.
    """
    require(by, Verb.TEST_WEBHOOK)
    webhook = await uow.of(WebhookStore).get(name)
    if webhook.paused_at is not None:
        raise ConflictError(f"the webhook {name} is paused: resume it before a test")
    await uow.of(DeliveryStore).hurry(name, lease_s=DeliveryPace().lease_s)
    await alerts.tell_one(uow, trial_alert(name, by=by.name, now=now), webhook=name)
    await _log(uow, webhook, Verb.TEST_WEBHOOK, by=by, why=why, now=now, outcome="a test is pending")
    return webhook


async def list_webhooks(uow: UnitOfWork, *, by: Principal) -> list[WebhookLine]:
    """List all, by name."""
    require(by, Verb.VIEW_WEBHOOKS)
    counts = await uow.of(WebhookStore).counts()
    return [_line(webhook, counts, by) for webhook in await uow.of(WebhookStore).list_all()]


async def get_webhook(uow: UnitOfWork, name: str, *, by: Principal) -> WebhookLine:
    """Get one. Raises NotFoundError."""
    require(by, Verb.VIEW_WEBHOOKS)
    return _line(await uow.of(WebhookStore).get(name), await uow.of(WebhookStore).counts(), by)


async def list_deliveries(
    uow: UnitOfWork, name: str, *, by: Principal, after: str | None = None, limit: int = 50
) -> Page[Delivery]:
    """List deliveries, newest first. Raises NotFoundError, InvalidError."""
    require(by, Verb.VIEW_WEBHOOKS)
    await uow.of(WebhookStore).get(name)
    return await uow.of(DeliveryStore).list(name, after=after, limit=checked_limit(limit))


def _line(webhook: Webhook, counts: dict[str, WebhookCounts], by: Principal) -> WebhookLine:
    return WebhookLine(
        webhook=webhook,
        counts=counts.get(webhook.name, WebhookCounts()),
        address=webhook.url if by.role.includes(Role.ADMINISTRATOR) else webhook.origin,
    )


def _in_order(kinds: Collection[AlertKind]) -> tuple[AlertKind, ...]:
    return tuple(kind for kind in AlertKind if kind in kinds)


def _refuse_wrong(
    *, name: str, url: str, secrets: Sequence[str], kinds: Collection[AlertKind], allowed_hosts: Collection[str]
) -> None:
    problems = check_webhook(name=name, url=url, secrets=secrets, kinds=kinds, allowed_hosts=allowed_hosts)
    if problems:
        raise InvalidError(f"webhook {name}: {problems[0].message}", problems=problems)


async def _log(
    uow: UnitOfWork, webhook: Webhook, verb: Verb, *, by: Principal, why: str | None, now: datetime, outcome: str
) -> None:
    await command_log.record(
        uow,
        by=by,
        verb=verb,
        target=f"webhook:{webhook.name}",
        why=why,
        now=now,
        outcome=outcome,
        details={"origin": webhook.origin, "secrets": list(webhook.secrets), "kinds": list(webhook.kinds)},
    )
    uow.notify(alerts.NOTICE, webhook.name)
