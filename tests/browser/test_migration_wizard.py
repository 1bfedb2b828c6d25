"""The wizard, walked in a browser from the plan to the end, and back. Tasks and journals are played."""

from __future__ import annotations

import re
from typing import Any, cast

from playwright.sync_api import Page, expect

from app.products.migrations.look import AuditNow
from app.products.migrations.migration import MigrationState, Stage
from tests.browser.test_verification_pages import tab_to
from tests.support.browser import NARROW, WIDE, assert_accessible, assert_fits
from tests.support.walked import Walked

WORDS = {
    Stage.FIRST_BOUNCE: "first bounce",
    Stage.SECOND_BOUNCE: "second bounce",
    Stage.VERIFY: "verify",
}


def test_the_wizard_is_walked_from_the_preflight_to_verify_and_back(walked: Walked, walker: Page) -> None:
    page = walker
    page.set_viewport_size(cast(Any, WIDE))
    page.goto("/pipelines/flights")
    page.get_by_role("link", name="More", exact=True).click()
    page.get_by_role("link", name="Migrate", exact=True).click()
    assert_accessible(page, what="where a migration is begun")
    page.get_by_role("link", name="Plan to exactly_once_v2").click()
    expect(page.locator("#plan")).to_contain_text("bounce instance 0 from group_only to generation")
    assert_accessible(page, what="a plan")
    tab_to(page, page.locator("#begin-why"))
    page.keyboard.type("the new producers")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/migrations/[0-9a-f-]{36}"))
    current = page.locator(".stages [aria-current=step]")
    expect(current).to_contain_text("preflight")
    # From here on the page is not reloaded: changes come by the stream.
    for stage, words in WORDS.items():
        walked.until(stage)
        expect(current).to_contain_text(words)
        expect(page.locator("#gate")).to_be_visible()
        assert_accessible(page, what=f"a migration in {words}")
    expect(page.locator("#mode-0, [data-glow=mode-0]").first).to_have_text("v2")
    expect(page.locator("#ids")).to_contain_text("Fenceline's fence, step 5")
    page.set_viewport_size(cast(Any, NARROW))
    assert_fits(page, what="a migration on a phone")
    page.set_viewport_size(cast(Any, WIDE))

    page.locator("#done a").first.click()
    expect(page.locator("#e1")).to_contain_text("On to first bounce")
    expect(page.locator("#e1")).to_contain_text("3 @ 41")
    assert_accessible(page, what="evidence")
    page.go_back()

    tab_to(page, page.locator("#act-rollback summary"))
    page.keyboard.press("Enter")
    page.locator("#rollback-to").select_option("group_only")
    page.locator("#why-rollback").fill("it is slower here")
    page.locator("#act-rollback").get_by_role("button", name="Roll back").click()
    expect(current).to_contain_text("back to generation")
    walked.until(Stage.BACK_TO_GROUP_ONLY)
    expect(current).to_contain_text("back to group only")
    walked.migrating.audit_now = AuditNow(audit_id="", is_through=True, expected=40)
    walked.until(Stage.VERIFY)
    expect(current).to_contain_text("verify")
    walked.migrating.audit_now = AuditNow(audit_id="a1", is_through=True, expected=40)
    walked.until_state(MigrationState.DONE)
    expect(page.locator(".title .pill")).to_have_text("done")
    assert walked.newest().goal == "group_only"
