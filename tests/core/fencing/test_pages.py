"""The pages of stored fencing events: the feed with its filters, and one event."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta

import httpx
import pytest

from app.core.fencing.pages.incarnations import drawing_of
from app.core.fencing.story import Story, story_of
from app.core.wiring import Wiring
from app.kit.access import Role
from app.kit.web.pages.timeline import Tone
from tests.core.fencing.coordinator import CLUSTER, ID, Coordinator
from tests.core.fencing.scenes import epoch_event, felt, word
from tests.support.fencing import RUN_ID, clean_restart, put_down, refusal, register, takeover, timeout
from tests.support.wiring import browser_of


@pytest.fixture
async def browser(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    """A viewer's."""
    async with browser_of(wiring, Role.VIEWER) as made:
        yield made


@pytest.fixture
async def now(wiring: Wiring) -> datetime:
    """A takeover ten minutes ago on a, a timeout two days ago on b, a clean restart just now on a."""
    now = wiring.clock.now()
    await register(wiring.unit_of_work, "a", "kafka-a")
    await register(wiring.unit_of_work, "b", "kafka-b")
    cases = [
        *takeover("kafka-a", at=now - timedelta(minutes=10)),
        refusal("kafka-a", at=now - timedelta(minutes=9)),
        *timeout("kafka-b", at=now - timedelta(days=2)),
    ]
    await put_down(wiring.unit_of_work, cases, now=now)
    return now


async def shown(browser: httpx.AsyncClient, **query: str) -> list[str]:
    answer = await browser.get("/fencing", params=query)
    assert answer.status_code == 200, answer.text
    return re.findall(r'<tr id="fencing-[\w-]+">.*?class="pill \w+"[^>]*>([\w ]+)<', answer.text, re.DOTALL)


async def test_feed_shows_the_last_day_and_counts_by_cause(now: datetime, browser: httpx.AsyncClient) -> None:
    assert await shown(browser) == ["takeover"]
    text = (await browser.get("/fencing", params={"within": "week"})).text
    assert 'Events, last 7 days</dt><dd data-glow="fencing-total">2</dd>' in text
    assert "<dt>Takeover</dt><dd>1</dd>" in text
    assert "<dt>Timeout</dt><dd>1</dd>" in text


async def test_feed_is_filtered_by_cluster_pipeline_cause_and_time(now: datetime, browser: httpx.AsyncClient) -> None:
    assert await shown(browser, within="week") == ["takeover", "timeout"]
    assert await shown(browser, within="week", cluster="b") == ["timeout"]
    assert await shown(browser, within="week", pipeline="delayed-flights") == ["takeover"]
    assert await shown(browser, within="week", cause="timeout", cluster="") == ["timeout"]
    assert await shown(browser, within="hour", cause="") == ["takeover"]
    assert await shown(browser, within="week", id=ID, cluster="a") == ["takeover"]
    assert await shown(browser, within="week", id=ID[:-1]) == []


async def test_other_events_are_shown_by_their_cause_only(wiring: Wiring, browser: httpx.AsyncClient) -> None:
    at = wiring.clock.now()
    await put_down(wiring.unit_of_work, clean_restart("kafka-a", at=at - timedelta(minutes=1)), now=at)
    assert await shown(browser) == []
    assert await shown(browser, cause="clean_restart") == ["clean restart"]


async def test_empty_feed_explains_itself(browser: httpx.AsyncClient) -> None:
    text = (await browser.get("/fencing")).text
    assert "No events in the last 24 hours" in text
    assert "appears here with its cause and its evidence" in text
    assert 'href="/fencing?within=month"' in text
    assert "Show the last 30 days" not in (await browser.get("/fencing", params={"within": "month"})).text


async def test_unknown_cluster_is_reported(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/fencing", params={"cluster": "nobody"})
    assert answer.status_code == 404
    assert "there is no cluster nobody" in answer.text


async def test_event_has_cause_confidence_owner_and_next_steps(now: datetime, browser: httpx.AsyncClient) -> None:
    (path,) = re.findall(r'href="(/fencing/[\w-]+)"', (await browser.get("/fencing")).text)
    text = (await browser.get(path)).text
    assert "A new producer took" in text
    assert "<strong>Certain</strong>: the evidence allows no other cause." in text
    assert 'href="/pipelines/delayed-flights"' in text
    assert f'href="/runs/{RUN_ID}"' in text
    assert f'<a href="/runs/{RUN_ID}#task-0-1">instance 0 · task 1</a> · lease 1 · attempt 2 · on w1' in text
    assert 'href="/clusters/a/log/delayed/0"' in text
    assert text.count("<li>") - text.split('<ol class="runbook">')[0].count("<li>") == 3
    assert "__transaction_state-" in text
    assert f'data-copy="{ID}"' in text
    assert f'href="/transactions/id?cluster=a&amp;id={ID}"' in text


async def test_event_of_an_unknown_owner_is_shown(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/fencing/00000000-0000-0000-0000-000000000000")
    assert answer.status_code == 404
    assert "kept for 30 days" in answer.text


async def test_correction_is_shown_with_the_earlier_verdict(wiring: Wiring, browser: httpx.AsyncClient) -> None:
    now = wiring.clock.now()
    at = now - timedelta(minutes=1)
    await put_down(wiring.unit_of_work, clean_restart("kafka-a", at=at), now=now)
    await put_down(wiring.unit_of_work, [refusal("kafka-a", at=now)], now=now)
    (path,) = re.findall(r'href="(/fencing/[\w-]+)"', (await browser.get("/fencing")).text)
    before = (await browser.get(path)).text.split("Earlier causes")[1]
    assert "clean restart" in before
    assert "no longer registered" in (await browser.get(path)).text


def taken_over(*, is_refused_later: bool = False) -> Story:
    coordinator = Coordinator()
    coordinator.begin()
    coordinator.init(after_ms=300)
    coordinator.begin()
    more = [felt(coordinator.live, word(), epoch=0)] if is_refused_later else []
    assert coordinator.live.transactional_id == ID
    return story_of(epoch_event(coordinator.live, 0, *more))


def test_drawing_has_both_producers_in_order() -> None:
    drawing = drawing_of(taken_over())
    old, new = drawing.lanes
    assert [bar.tone for lane in drawing.lanes for bar in lane.bars] == [Tone.OLD, Tone.NEW]
    assert (old.bars[0].left, old.bars[0].width) == (0, drawing.cut)
    assert drawing.cut is not None
    assert drawing.cut < new.bars[0].left
    assert new.bars[0].left + new.bars[0].width == 100
    assert list(old.marks) == sorted(old.marks, key=lambda mark: mark.left)
    assert all(0 <= mark.left <= 100 for lane in drawing.lanes for mark in lane.marks)


def test_drawing_shows_an_old_producer_that_continued() -> None:
    old = drawing_of(taken_over(is_refused_later=True)).lanes[0]
    had, went_on = old.bars
    assert went_on.tone is Tone.LATE
    assert went_on.left == had.left + had.width
    assert went_on.left + went_on.width == pytest.approx(max(mark.left for mark in old.marks))


def test_drawing_of_a_single_moment_is_in_the_middle() -> None:
    event = epoch_event(Coordinator().live, 0, felt(Coordinator().live, word(), epoch=0))
    assert event.key.kafka_cluster_id == CLUSTER
    (lane,) = drawing_of(story_of(event)).lanes
    assert [mark.left for mark in lane.marks] == [50]
