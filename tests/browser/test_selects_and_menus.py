"""Selects show each of their values whole; Esc closes menus and dialogs, and the focus is where it was."""

from __future__ import annotations

from typing import Any, cast

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_pages import PAGES
from tests.conftest import MakeTopic
from tests.support.browser import NARROW, Site
from tests.support.topics import unique_name

_DESK = {"width": 1440, "height": 900}
_ARROW_PX = 18
_CUT = """
(arrow) => {
  const pen = document.createElement("canvas").getContext("2d");
  const cut = [];
  for (const select of document.querySelectorAll("select")) {
    if (!select.getClientRects().length) continue;
    const style = getComputedStyle(select);
    pen.font = style.font;
    const isNative = style.appearance !== "none";
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    const room = select.clientWidth - padding - (isNative ? arrow : 0);
    for (const option of select.options) {
      const wide = pen.measureText(option.text).width;
      if (wide > room + 1) cut.push(`${select.id}: “${option.text}” is ${Math.round(wide - room)} px too wide`);
    }
  }
  return cut;
}
"""


@pytest.fixture
def pipeline(site: Site, make_topic: MakeTopic) -> str:
    """A pipeline that has never run, with a step that has selects."""
    name = unique_name("chosen")
    steps = [{"op": "filter", "field": "delay", "operator": "ge", "value": 15}]
    definition = {
        "cluster": site.cluster,
        "source_topics": [make_topic()],
        "group_id": name,
        "sink_topic": make_topic(),
        "transform": {"kind": "steps", "steps": steps},
    }
    site.server.create_pipeline(name, definition)
    return name


def test_no_select_cuts_a_value(site: Site, page: Page, pipeline: str, make_topic: MakeTopic) -> None:
    of_pipeline = [
        f"/pipelines/{pipeline}/{part}" for part in ("edit", "reset-offsets", "audits", "drills", "migrations")
    ]
    topics = f"/clusters/{site.cluster}/topics"
    cut: list[str] = []
    seen = 0
    for path in (*PAGES, *of_pipeline, "/migrations", topics, f"{topics}/{make_topic()}/records"):
        page.goto(path)
        expect(page.locator("h1").first).to_be_attached()
        for window in (_DESK, NARROW):
            page.set_viewport_size(cast(Any, window))
            for folded in page.locator("details:not([open]) > summary").all():
                if folded.is_visible():
                    folded.evaluate("(summary) => { summary.parentElement.open = true; }")
            seen += page.locator("select:visible").count()
            cut += [f"{path} at {window['width']} px: {one}" for one in page.evaluate(_CUT, _ARROW_PX)]
    assert not cut, "\n".join(cut)
    assert seen > 30, "the pages have selects"


def test_esc_returns_the_focus_from_each_menu_and_dialog(page: Page, pipeline: str) -> None:
    for path, label in ((f"/pipelines/{pipeline}", "Start…"), (f"/pipelines/{pipeline}/more", "Delete…")):
        page.goto(path)
        opener = page.locator("details.action > summary", has_text=label)
        opener.focus()
        page.keyboard.press("Enter")
        form = page.locator("details.action[open]")
        expect(form.get_by_label("Reason")).to_be_visible()
        page.keyboard.press("Tab")
        expect(form.get_by_label("Reason")).to_be_focused()
        page.keyboard.press("Escape")
        expect(form).to_have_count(0)
        expect(opener).to_be_focused()
        for key, dialog in (("?", "Keyboard shortcuts"), ("Control+k", "Find anything")):
            page.keyboard.press(key)
            expect(page.get_by_role("dialog", name=dialog)).to_be_visible()
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog", name=dialog)).to_be_hidden()
            expect(opener).to_be_focused()
