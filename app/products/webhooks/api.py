"""REST of webhooks: the receivers of alerts, and their deliveries."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import may
from app.core.alerts.webhook import Delivery
from app.core.runs.api.run_schemas import Reason
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NameInPath, Why
from app.kit.web.dependencies import Uow
from app.products.webhooks import service as webhooks
from app.products.webhooks.schemas import WebhookChangeGiven, WebhookGiven
from app.products.webhooks.service import WebhookLine

router = APIRouter(prefix="/webhooks", tags=["webhooks"])


@router.get("", responses=refusals())
async def list_webhooks(uow: Uow, by: Annotated[Principal, may(Verb.VIEW_WEBHOOKS)]) -> Shown[Items[WebhookLine]]:
    """List all webhooks by name, with the numbers of pending and undelivered messages."""
    return Items(await webhooks.list_webhooks(uow, by=by))


@router.post("", status_code=201, response_model=Shown[WebhookLine], responses=refusals(409, 413))
async def add_webhook(
    body: WebhookGiven, uow: Uow, wiring: WiringDep, once: OnceDep, by: Annotated[Principal, may(Verb.ADD_WEBHOOK)]
) -> Response:
    """Add a webhook; the settings must allow its host."""

    async def act() -> WebhookLine:
        await webhooks.add_webhook(
            uow,
            name=body.name,
            url=body.url,
            secrets=body.secrets,
            kinds=body.kinds,
            allowed_hosts=wiring.settings.allowed_webhook_hosts,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
        )
        return await webhooks.get_webhook(uow, body.name, by=by)

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.get("/{name}", responses=refusals(404))
async def get_webhook(
    name: NameInPath, uow: Uow, by: Annotated[Principal, may(Verb.VIEW_WEBHOOKS)]
) -> Shown[WebhookLine]:
    """Get one webhook."""
    return await webhooks.get_webhook(uow, name, by=by)


@router.put("/{name}", responses=refusals(404, 413))
async def change_webhook(
    name: NameInPath,
    body: WebhookChangeGiven,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.CHANGE_WEBHOOK)],
) -> Shown[WebhookLine]:
    """Change its address, secrets or kinds."""
    await webhooks.change_webhook(
        uow,
        name,
        url=body.url,
        secrets=body.secrets,
        kinds=body.kinds,
        allowed_hosts=wiring.settings.allowed_webhook_hosts,
        by=by,
        why=body.why,
        now=wiring.clock.now(),
    )
    changed = await webhooks.get_webhook(uow, name, by=by)
    await uow.commit()
    return changed


@router.delete("/{name}", status_code=204, responses=refusals(404))
async def remove_webhook(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.REMOVE_WEBHOOK)],
    why: Annotated[Why, Query()] = None,
) -> None:
    """Remove a webhook with its pending deliveries."""
    await webhooks.remove_webhook(uow, name, by=by, why=why, now=wiring.clock.now())
    await uow.commit()


@router.post("/{name}/pause", responses=refusals(404, 413))
async def pause_webhook(
    name: NameInPath, body: Reason, uow: Uow, wiring: WiringDep, by: Annotated[Principal, may(Verb.PAUSE_WEBHOOK)]
) -> Shown[WebhookLine]:
    """Send nothing until it is resumed. New deliveries stay pending, for a day at most."""
    await webhooks.pause_webhook(uow, name, by=by, why=body.why, now=wiring.clock.now())
    await uow.commit()
    return await webhooks.get_webhook(uow, name, by=by)


@router.post("/{name}/resume", responses=refusals(404, 413))
async def resume_webhook(
    name: NameInPath, body: Reason, uow: Uow, wiring: WiringDep, by: Annotated[Principal, may(Verb.RESUME_WEBHOOK)]
) -> Shown[WebhookLine]:
    """Send again, the oldest deliveries first."""
    await webhooks.resume_webhook(uow, name, by=by, why=body.why, now=wiring.clock.now())
    await uow.commit()
    return await webhooks.get_webhook(uow, name, by=by)


@router.post("/{name}/test", status_code=202, responses=refusals(404, 409, 413))
async def send_test(
    name: NameInPath, body: Reason, uow: Uow, wiring: WiringDep, by: Annotated[Principal, may(Verb.TEST_WEBHOOK)]
) -> Shown[WebhookLine]:
    """Send a test like any other delivery; its answer is listed with the deliveries."""
    await webhooks.send_test(uow, name, by=by, why=body.why, now=wiring.clock.now())
    await uow.commit()
    return await webhooks.get_webhook(uow, name, by=by)


@router.get("/{name}/deliveries", responses=refusals(404))
async def list_deliveries(
    name: NameInPath,
    uow: Uow,
    by: Annotated[Principal, may(Verb.VIEW_WEBHOOKS)],
    after: After = None,
    limit: Limit = 50,
) -> Shown[Page[Delivery]]:
    """List its deliveries, newest first, with the receiver's answers; kept for 14 days after their end."""
    return await webhooks.list_deliveries(uow, name, by=by, after=after, limit=limit)
