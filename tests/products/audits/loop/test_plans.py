"""The audits of a plan."""

from __future__ import annotations

from app.products.audits.audit import AuditState
from app.products.audits.plan import time_window
from app.products.audits.wire import AuditEnd
from tests.support.audit_samples import HOUR, result
from tests.support.auditing import Audited


async def test_plan_audits_window_after_window(audited: Audited) -> None:
    plane = audited.plane
    begin = (await audited.make_plan()).decided_until
    await audited.turn()
    assert await audited.all() == []
    plane.now = begin + HOUR
    await audited.turn()
    (first,) = await audited.all()
    assert (first.is_scheduled, first.asked_by, first.window) == (True, "auditor", time_window(begin, begin + HOUR))
    await audited.turn()
    await audited.claim(first.id)
    plane.pass_time(3 * 3600)
    await audited.turn()
    assert len(await audited.all()) == 1, "never two at once"
    await audited.tell(first.id, AuditEnd.DONE, result(first.id))
    await audited.turn()
    newest, missed, _ = await audited.all()
    if newest.state is AuditState.SKIPPED:
        newest, missed = missed, newest
    assert newest.window == time_window(begin + 3 * HOUR, begin + 4 * HOUR)
    assert (missed.state, missed.window) == (AuditState.SKIPPED, time_window(begin + HOUR, begin + 3 * HOUR))
    kept = await audited.plan()
    assert kept.shown_until == begin + HOUR
    assert kept.decided_until == begin + 4 * HOUR


async def test_audit_on_request_does_not_count_for_the_plan(audited: Audited) -> None:
    """It may have another window or another id."""
    await audited.make_plan()
    by_hand = await audited.ask_and_claim()
    await audited.tell(by_hand.id, AuditEnd.DONE, result(by_hand.id))
    assert (await audited.plan()).shown_until is None
