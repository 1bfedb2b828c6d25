"""The form of a pipeline of files: with the keyboard, with errors, without scripts, on a phone, light and dark."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site, assert_accessible
from tests.support.topics import unique_name


def fill_in(page: Page, name: str, make_topic: MakeTopic) -> None:
    page.goto("/new-pipeline")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Source topics").fill(make_topic())
    page.get_by_label("Sink topic").fill(make_topic())


def test_files_are_defined_with_their_columns_and_described_in_words(
    site: Site, page: Page, make_topic: MakeTopic
) -> None:
    name = unique_name("files")
    fill_in(page, name, make_topic)
    expect(page.get_by_label("Root")).to_have_count(0)
    outputs = page.get_by_label("Outputs", exact=True)
    # The findings about the topics are there before the server is stopped.
    expect(page.locator(".field", has=page.get_by_label("Sink topic")).locator(".problem")).to_be_visible()
    outputs.focus()
    top = outputs.bounding_box()
    # As with the keyboard: the field that was chosen keeps the focus and its place.
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Root")).to_be_visible()
    expect(outputs).to_be_focused()
    assert outputs.bounding_box() == top
    expect(page.locator(".problem:not(.is-warning)")).to_have_count(0)

    page.get_by_role("button", name="Add a column").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#column-0")).to_be_visible()
    expect(page.get_by_role("button", name="Add a column")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#column-1")).to_be_visible()
    page.locator("#column-0").get_by_label("Field").fill("carrier..x")
    page.locator("#column-1").get_by_label("Column 2").select_option("date")
    expect(page.locator("#column-1").get_by_label("Field")).to_have_count(0)
    page.get_by_label("Upload timeout").fill("200000")
    page.get_by_role("button", name="Create the pipeline").click()

    expect(page.get_by_role("alert")).to_contain_text("4 fields below need a change")
    root = page.locator(".field", has=page.get_by_label("Root"))
    expect(root.locator(".problem")).to_contain_text("Files need a root")
    expect(page.get_by_label("Root")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#column-0 .problem").first).to_contain_text("empty name between its dots")
    expect(page.get_by_label("Upload timeout")).to_have_value("200000")
    uploads = page.locator(".field", has=page.get_by_label("Upload timeout"))
    expect(uploads.locator(".problem")).to_contain_text("100000 of 300000 ms")
    assert_accessible(page, what="files with errors")
    site.picture(page, "files-errors", height=2_000)
    page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] - a dict of the same two numbers
    assert_accessible(page, what="files with errors on a phone")
    page.set_viewport_size({"width": 1280, "height": 900})

    page.get_by_label("Root").fill("s3://flights/files")
    page.locator("#column-0").get_by_label("Field").fill("carrier")
    page.get_by_label("Upload timeout").fill("20000")
    page.get_by_role("button", name="Create the pipeline").click()
    page.wait_for_url(re.compile(f"/pipelines/{name}"))
    expect(page.locator(".flow")).to_contain_text("Avro files by carrier and date")
    expect(page.get_by_text(f"s3://flights/files/{name}/…")).to_be_visible()
    assert_accessible(page, what="a pipeline of files")

    page.goto(f"/pipelines/{name}/edit")
    expect(page.locator("#column-1").get_by_label("Name")).to_have_value("date")
    page.get_by_role("button", name="Remove column 1").click()
    expect(page.locator("#column-1")).to_have_count(0)
    expect(page.locator("#column-0").get_by_label("Name")).to_have_value("date")


def test_files_can_be_defined_without_scripts(site: Site, logged_in: Any, make_topic: MakeTopic) -> None:
    name = unique_name("plain-files")
    with site.visitor(storage=logged_in, has_javascript=False) as visitor:
        page = visitor.new_page()
        fill_in(page, name, make_topic)
        page.get_by_label("Outputs", exact=True).select_option("files")
        page.get_by_role("button", name="Check without saving").click()
        page.get_by_label("Root").fill("file:///data/files")
        page.get_by_role("button", name="Add a column").click()
        page.locator("#column-0").get_by_label("Column 1").select_option("hour")
        page.get_by_role("button", name="Create the pipeline").click()
        page.wait_for_url(re.compile(f"/pipelines/{name}"))
        expect(page.locator(".flow")).to_contain_text("Avro files by hour")
