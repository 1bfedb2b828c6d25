"""A broken audit is reported, and marks its pipeline."""

from __future__ import annotations

from app.core.alerts.alert import AlertKind
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Webhook
from app.core.overview import service as overview
from app.core.overview.product_views import NeedsOf
from app.products.audits.audit import MARKED_FOR
from app.products.audits.service.needs import audit_needs
from app.products.audits.wire import AuditEnd
from tests.support.audit_samples import broken_result
from tests.support.auditing import Audited
from tests.support.needs import NEEDS


async def test_lost_id_is_reported_by_webhook(audited: Audited) -> None:
    webhook = Webhook(
        name="pager", url="https://x/y", secrets=("env:X",), kinds=(), created_at=audited.plane.now, created_by="a"
    )
    async with audited.uow() as uow:
        await uow.of(WebhookStore).add(webhook)
        await uow.commit()
    asked = await audited.ask_and_claim()
    await audited.tell(asked.id, AuditEnd.DONE, broken_result(asked.id))
    await audited.tell(asked.id, AuditEnd.DONE, broken_result(asked.id))
    async with audited.uow() as uow:
        deliveries = (await uow.of(DeliveryStore).list("pager", after=None, limit=10)).items
    assert [one.type for one in deliveries] == [f"{AlertKind.AUDIT}.happened"], (
        "once, also if the outcome is sent again"
    )
    assert deliveries[0].sentence == (
        "The audit of flights: 2 outputs lost (of 1 id) and 1 output duplicated, of 9 expected."
    )


async def test_pipeline_with_a_broken_audit_has_an_issue(audited: Audited) -> None:
    asked = await audited.ask_and_claim()
    await audited.tell(asked.id, AuditEnd.DONE, broken_result(asked.id))

    async def needs(asked: tuple[NeedsOf, ...] = NEEDS) -> list[str]:
        async with audited.uow() as uow:
            return [need.sentence for need in (await overview.overview(uow, needs=asked, now=audited.plane.now)).needs]

    assert await needs() == ["an audit has proven outputs lost, duplicated, unexpected or different"]
    assert await needs(tuple(one for one in NEEDS if one is not audit_needs)) == [], (
        "the issue is from the audits' function"
    )
    audited.plane.pass_time(MARKED_FOR.total_seconds() + 1)
    assert await needs() == []
