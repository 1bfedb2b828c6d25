"""A job in the browser: a person's steps from the overview to the answer, counted and timed.

One script serves three hands: a mouse, keys alone, and a browser without JavaScript.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.jobs.results import Effort, Result
from tests.support.browser import NARROW, assert_accessible, assert_fits

DESK = {"width": 1440, "height": 900}
_LAPTOP = {"width": 1024, "height": 768}
_MOST_TABS = 250
_SHORTCUT = "Control+k"
_UNSEEN = """
() => {
  const at = document.activeElement;
  if (!at || at === document.body) return "";
  const style = getComputedStyle(at), box = at.getBoundingClientRect();
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const seen = box.width > 0 && box.bottom > 0 && box.right > 0 && box.top < innerHeight && box.left < innerWidth;
  const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  const covered = hit && !at.contains(hit) && !hit.contains(at);
  const wrong = !ring ? "shows no focus" : !seen ? "is out of the window" : covered ? "is under another element" : "";
  return wrong && `${at.outerHTML.slice(0, 200)} ${wrong}`;
}
"""
"""The focused element, if a person cannot see that it is: no ring, outside of the window, or covered."""


class Hand(StrEnum):
    """How the person works. PLAIN: a mouse, in a browser without JavaScript."""

    MOUSE = "mouse"
    KEYS = "keys"
    PLAIN = "plain"


@dataclass
class Job:
    """The steps of one job. The clock runs from the overview on the screen to the end of `counted`, without `aside`."""

    page: Page
    hand: Hand
    effort: Effort
    aside_s: float = 0.0

    def follow(self, target: Locator) -> None:
        """Click a link or button; with keys, tab to it and press Enter."""
        expect(target).to_be_visible()
        if self.hand is Hand.KEYS:
            self._reach(target)
            self.press("Enter")
        else:
            target.click()
            self.effort.clicks += 1

    def fill(self, field: Locator, text: str) -> None:
        """Replace the text of a field."""
        expect(field).to_be_visible()
        if self.hand is Hand.KEYS:
            self._reach(field)
            self.page.keyboard.press("Control+a")
            self.page.keyboard.type(text)
        else:
            field.fill(text)
        self.effort.fields += 1

    def choose(self, field: Locator, label: str) -> None:
        """Choose an option by its label; with keys, by the arrow down."""
        expect(field).to_be_visible()
        if self.hand is Hand.KEYS:
            self._reach(field)
            for _ in field.locator("option").all():
                if field.locator("option:checked").inner_text() == label:
                    break
                self.page.keyboard.press("ArrowDown")
                self.effort.tabs += 1
            expect(field.locator("option:checked")).to_have_text(label)
        else:
            field.select_option(label=label)
        self.effort.fields += 1

    def find(self, name: str) -> None:
        """Open the first result of the search for a name: Ctrl-K, or the search's own page without JavaScript."""
        if self.hand is Hand.PLAIN:
            self.follow(self.page.get_by_role("link", name="Search"))
            self.fill(self.page.get_by_label("Name or id"), name)
            self.follow(self.page.get_by_role("button", name="Search"))
            self.follow(self.page.get_by_role("main").get_by_role("link", name=name, exact=True))
            return
        finder = self.page.get_by_role("dialog", name="Find anything")
        if self.hand is Hand.KEYS:
            self._esc_closes(finder)
            self.press(_SHORTCUT)
        else:
            self.follow(self.page.get_by_role("link", name="Search"))
        field = finder.get_by_role("searchbox")
        expect(field).to_be_focused()
        self.fill(field, name)
        first = finder.get_by_role("link", name=name, exact=True)
        if self.hand is Hand.KEYS:
            expect(first).to_be_visible()
            self.press("Enter")
        else:
            self.follow(first)

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.effort.keys += 1

    def sees(self, what: Locator) -> None:
        """The next step needs this on the screen: a heading, an answer."""
        expect(what.first).to_be_visible()

    def heading(self, text: str) -> None:
        """See the page of this heading."""
        self.sees(self.page.get_by_role("heading", level=1, name=text))

    def reload_if_plain(self) -> None:
        """Load the page again where no stream brings its changes."""
        if self.hand is Hand.PLAIN:
            self.page.reload()

    @contextmanager
    def aside(self) -> Generator[None]:
        """What is not the person's: brokers and instances that are played, checks of a page."""
        began = time.monotonic()
        yield
        self.aside_s += time.monotonic() - began

    def look(self, what: str) -> None:
        """Hold the page to axe at 1440 px, and to its width at 1024 and 375 px, in dark. Once: under the mouse."""
        if self.hand is not Hand.MOUSE:
            return
        with self.aside():
            assert_accessible(self.page, what=what)
            self.page.emulate_media(color_scheme="dark")
            for window in (_LAPTOP, NARROW):
                self.page.set_viewport_size(cast(Any, window))
                assert_fits(self.page, what=what)
            self.page.emulate_media(color_scheme="light")
            self.page.set_viewport_size(cast(Any, DESK))

    def _reach(self, target: Locator) -> None:
        for _ in range(_MOST_TABS):
            if target.evaluate("(target) => target === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
            self.effort.tabs += 1
            wrong = self.page.evaluate(_UNSEEN)
            assert not wrong, wrong
        pytest.fail(f"{target} is not reached in {_MOST_TABS} tabs")

    def _esc_closes(self, finder: Locator) -> None:
        """Esc closes the search, and the focus is where it was."""
        with self.aside():
            self.page.keyboard.press("Tab")
            before = self.page.evaluate("document.activeElement.outerHTML")
            self.page.keyboard.press(_SHORTCUT)
            expect(finder).to_be_visible()
            self.page.keyboard.press("Escape")
            expect(finder).to_be_hidden()
            assert self.page.evaluate("document.activeElement.outerHTML") == before, "Esc moved the focus"


@contextmanager
def counted(page: Page, name: str, hand: Hand, *, most: Effort, kept: list[Result]) -> Generator[Job]:
    """A job that begins with the overview on the screen.

    Args:
        page: shows the overview, with what the job is about on it.
        most: bounds of clicks, fields, keys and pages. Tabs depend on what else the overview lists: recorded only.
        kept: gets the result, also of a job above its bounds.

    Raises:
        AssertionError: the job needs more than `most`.
    """
    loaded: list[str] = []

    def count(request: Request) -> None:
        if request.is_navigation_request() and request.frame == page.main_frame and request.redirected_from is None:
            loaded.append(request.url)

    job = Job(page, hand, Effort())
    page.on("request", count)
    began = time.monotonic()
    yield job
    seconds = time.monotonic() - began - job.aside_s
    page.remove_listener("request", count)
    job.effort.pages = len(loaded)
    kept.append(Result(job=name, hand=hand.value, effort=job.effort, seconds=round(seconds, 1)))
    assert job.effort.is_within(most), f"{name} by {hand}: {job.effort}, at most {most}; pages {loaded}"
