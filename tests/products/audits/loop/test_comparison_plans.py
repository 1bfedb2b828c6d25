"""Comparisons by a plan: beside the audits of the same pipeline, with a verdict, counters and an alert of their own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Webhook
from app.core.allow_lists.options import AllowedOptions
from app.kit.errors import InvalidError
from app.products.audits.audit import AuditState
from app.products.audits.comparison import Comparison, FileFormat, FilesBaseline
from app.products.audits.plan import AuditPlan, time_window
from app.products.audits.service import asking, planning
from app.products.audits.service.asking import Wish
from app.products.audits.specification import OffsetRange, OffsetWindow
from app.products.audits.store import AuditPlanStore, AuditStore
from app.products.audits.wire import AuditEnd
from tests.support.audit_samples import BY_ID, COMPARED, HOUR, compared_result, result
from tests.support.auditing import Audited
from tests.support.control_plane import ANNA


async def comparison_plan(audited: Audited) -> AuditPlan:
    async with audited.uow() as uow:
        return await planning.get_plan(uow, "flights", of_comparisons=True)


async def test_each_hour_is_audited_and_compared(audited: Audited) -> None:
    plane = audited.plane
    begin = (await audited.make_plan()).decided_until
    await audited.make_plan(comparison=COMPARED)
    plane.now = begin + HOUR
    await audited.turn()
    await audited.turn()
    (first,) = await audited.all()
    await audited.claim(first.id)
    await audited.turn()
    assert len(await audited.all()) == 1, "one audit of a pipeline at a time"
    await audited.tell(first.id, AuditEnd.DONE, result(first.id))
    await audited.turn()
    await audited.turn()
    found = await audited.all()
    assert {one.window for one in found} == {time_window(begin, begin + HOUR)}
    (audit,) = [one for one in found if one.comparison is None]
    (compared,) = [one for one in found if one.comparison is not None]
    assert (audit.is_scheduled, compared.is_scheduled, compared.comparison) == (True, True, COMPARED)
    order = audited.spark.submitted[-1].specification
    assert (order.comparison, order.source_topics) == (COMPARED, ("old-payments",))
    assert audited.spark.submitted[0].specification.comparison is None
    await audited.claim(compared.id)
    await audited.tell(compared.id, AuditEnd.DONE, result(compared.id, baseline="the topic old-payments"))
    assert (await comparison_plan(audited)).shown_until == begin + HOUR
    async with audited.uow() as uow:
        counts = (await uow.of(AuditStore).counts())["flights"]
        newest = await uow.of(AuditStore).newest_comparison("flights")
    assert (counts["audits_clean"], counts["comparisons_clean"], counts["compared_expected"]) == (1, 1, 8)
    assert newest is not None
    assert newest.id == compared.id


async def test_plans_are_changed_and_removed_one_by_one(audited: Audited) -> None:
    await audited.make_plan()
    await audited.make_plan(comparison=COMPARED, every_s=60)
    async with audited.uow() as uow:
        assert [(one.every_s, one.comparison) for one in await uow.of(AuditPlanStore).scheduled()] == [
            (3600, None),
            (60, COMPARED),
        ]
        await planning.remove_plan(uow, pipeline="flights", by=ANNA, why=None, now=audited.plane.now)
        await uow.commit()
    async with audited.uow() as uow:
        assert await uow.of(AuditPlanStore).find("flights") is None
        assert await uow.of(AuditPlanStore).find("flights", of_comparisons=True) is not None


async def test_difference_is_reported_by_webhook(audited: Audited) -> None:
    plane = audited.plane
    webhook = Webhook(
        name="pager", url="https://x/y", secrets=("env:X",), kinds=(), created_at=plane.now, created_by="a"
    )
    async with audited.uow() as uow:
        await uow.of(WebhookStore).add(webhook)
        await uow.commit()
    asked = await audited.ask(is_comparison=True, comparison=COMPARED)
    await audited.turn()
    await audited.claim(asked.id)
    await audited.tell(asked.id, AuditEnd.DONE, compared_result(asked.id))
    async with audited.uow() as uow:
        (told,) = (await uow.of(DeliveryStore).list("pager", after=None, limit=10)).items
    assert told.sentence.startswith("The comparison of flights: 1 output lost and 1 output different: 10 records in ")


async def test_windows_before_a_long_outage_are_one_skipped_comparison(audited: Audited) -> None:
    begin = (await audited.make_plan(comparison=COMPARED)).decided_until
    audited.plane.now = begin + 4 * HOUR
    await audited.turn()
    skipped = [one for one in await audited.all() if one.state is AuditState.SKIPPED]
    assert [(one.window, one.comparison) for one in skipped] == [(time_window(begin, begin + 3 * HOUR), COMPARED)]


async def test_baseline_that_is_no_longer_allowed_is_not_read(audited: Audited) -> None:
    files = Comparison(baseline=FilesBaseline(format=FileFormat.CSV, location="file:///old"), baseline_time_field="at")
    allowed = AllowedOptions(baseline_roots=frozenset({"file:///old"}))
    begin = (await audited.make_plan(comparison=files, allowed=allowed)).decided_until
    narrowed = AllowedOptions(baseline_roots=frozenset({"s3://other/*"}))
    async with audited.uow() as uow:
        with pytest.raises(InvalidError, match="`file:///old` is not on the list"):
            await planning.take_due_window(
                uow, pipeline="flights", now=begin + HOUR, of_comparisons=True, allowed=narrowed
            )


async def test_comparison_requires_a_baseline_and_a_window_of_time(audited: Audited) -> None:
    now = audited.plane.now
    window = time_window(now - timedelta(hours=1), now)
    offsets = OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=0, end=5),))
    for wish, field in (
        (Wish(window=window, is_comparison=True, id_place=BY_ID), "comparison"),
        (Wish(window=offsets, is_comparison=True, comparison=COMPARED, id_place=BY_ID), "window"),
    ):
        async with audited.uow() as uow:
            with pytest.raises(InvalidError) as refused:
                await asking.ask_audit(uow, pipeline="flights", wish=wish, by=ANNA, why=None, now=now)
        assert (refused.value.field or refused.value.problems[0].field) == field
