"""The links from one page of a list to the others, and where they stand below it."""

from __future__ import annotations

from functools import partial

from app.kit.web.pages import screen
from app.kit.web.pages.paging import ListLinks, links_of

events = partial(screen.url_of, "webhooks", "ops")
ids = partial(screen.url_of, "transactions", cluster="demo")


def test_list_of_one_page_has_no_links() -> None:
    assert links_of(None, ids) == ListLinks(None, None)
    assert links_of(None, ids).is_whole


def test_next_page_has_the_cursor_and_keeps_the_query() -> None:
    assert links_of("abc", events) == ListLinks(None, "/webhooks/ops?after=abc")
    assert links_of("abc", ids).next == "/transactions?cluster=demo&after=abc"


def test_last_page_leads_to_the_first() -> None:
    found = links_of(None, ids, after="abc")
    assert found == ListLinks("/transactions?cluster=demo", None)
    assert not found.is_whole
