"""An application moves here: its ids are made by a formula, checked, imported, found in the registry, released."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.conftest import MakeTopic
from tests.support.browser import assert_accessible
from tests.support.topics import unique_name


def test_ids_are_imported_after_a_preview(site: Site, page: Page, make_topic: MakeTopic) -> None:
    name, topic = unique_name("moves"), make_topic(partitions=3)
    site.server.create_pipeline(
        name,
        {
            "cluster": site.cluster,
            "source_topics": [topic],
            "group_id": name,
            "sink_topic": make_topic(),
            "transform": {"kind": "identity"},
        },
    )
    page.goto(f"/pipelines/{name}")
    page.get_by_role("link", name="More", exact=True).click()
    page.get_by_role("link", name="Imported ids").click()
    expect(page.get_by_text("No imported ids")).to_be_visible()

    page.get_by_label("Formula of the ids").select_option("kafka-streams")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("needs application_id")).to_be_visible()
    page.get_by_label("application_id", exact=True).fill(f"{name}-app")
    page.get_by_label("subtopology", exact=True).fill("0")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Would import 3 of 3 lines")).to_be_visible()
    expect(page.locator("#lines tbody tr").nth(2)).to_contain_text(f"{topic}-2")
    expect(page.locator("#lines tbody tr").nth(2)).to_contain_text(f"{name}-app-0_2")
    assert_accessible(page, what="the preview of an import")

    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_text("3 imported ids")).to_be_visible()

    page.goto(f"/mappings/ids?search={name}-app")
    expect(page.locator("#ids tbody tr")).to_have_count(3)
    first = page.locator("#ids tbody tr").first
    expect(first).to_contain_text("imported")
    expect(first).to_contain_text("not on the brokers")
    # The brokers' own setting, which is 7 days by default.
    expect(page.locator(".stat").filter(has_text="Expire after")).to_contain_text("7 days")
    page.goto(f"/mappings?search={topic}-1")
    expect(page.locator("#mappings tbody tr")).to_contain_text("assigned")

    page.goto(f"/pipelines/{name}/imported-ids")
    page.get_by_text("Release…").click()
    page.locator("#why-forget").fill("tried out")
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_text("No imported ids")).to_be_visible()
