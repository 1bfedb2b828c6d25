"""For any number of viewers of the same page, one view is made for each change, and all get it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from app.edges.db.changes import ChangeSubscription
from app.kit.web.pages.screen import TEMPLATES_DIR
from app.kit.web.pages.shared_looks import (
    LOOK_AGAIN_S,
    OBSERVED,
    SHARE_LEFT_TO_OTHERS,
    Frame,
    Rhythm,
    SeenFrame,
    SharedLooks,
    TakeLook,
    Watching,
)

SOON_S = LOOK_AGAIN_S / 2


class Feed:
    """A change feed that the test speaks through."""

    def __init__(self) -> None:
        self.subscriptions: set[ChangeSubscription] = set()

    @asynccontextmanager
    async def subscribe(self, wants: Callable[[str], bool] = lambda _: True) -> AsyncGenerator[ChangeSubscription]:
        subscription = ChangeSubscription(wants)
        self.subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self.subscriptions.discard(subscription)

    def tell(self, notice: str) -> None:
        for subscription in self.subscriptions:
            subscription.tell(notice)


class Thing:
    """The data of a view; `looks` counts the views."""

    def __init__(self) -> None:
        self.is_now = "first"
        self.looks = 0
        self.concerns: frozenset[str] | None = None

    async def take(self) -> SeenFrame:
        self.looks += 1
        return SeenFrame(frame=Frame(data=self.is_now), concerns=self.concerns)


@asynccontextmanager
async def watching(looks: SharedLooks, take: TakeLook, feed: Feed, *, number: int) -> AsyncGenerator[list[Watching]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(looks.watch("key", take, feed)) for _ in range(number)]


async def newest(viewers: list[Watching]) -> set[str | None]:
    frames = await asyncio.gather(*(viewer.newer(timeout_s=SOON_S) for viewer in viewers))
    return {frame and frame.data for frame in frames}


async def test_twenty_viewers_cost_one_view_a_change_and_all_get_it() -> None:
    thing, feed = Thing(), Feed()
    async with watching(SharedLooks(), thing.take, feed, number=20) as viewers:
        assert await newest(viewers) == {"first"}
        assert thing.looks == 1
        thing.is_now = "second"
        feed.tell("run:1")
        assert await newest(viewers) == {"second"}
        assert thing.looks == 2


async def test_a_viewer_who_comes_later_is_not_shown_what_was_seen_before_he_came() -> None:
    thing, feed, looks = Thing(), Feed(), SharedLooks()
    async with watching(looks, thing.take, feed, number=1) as viewers:
        assert await newest(viewers) == {"first"}
        thing.is_now = "second"
        async with watching(looks, thing.take, feed, number=1) as later:
            assert await newest(later) == {"second"}


async def test_changes_of_another_pipeline_cost_nothing() -> None:
    thing, feed = Thing(), Feed()
    thing.concerns = frozenset({"pipeline:mine"})
    async with watching(SharedLooks(), thing.take, feed, number=1) as viewers:
        assert await newest(viewers) == {"first"}
        thing.is_now = "second"
        feed.tell("pipeline:other")
        assert await newest(viewers) == {None}
        assert thing.looks == 1
        feed.tell("pipeline:mine")
        assert await newest(viewers) == {"second"}


@pytest.mark.parametrize("notice", ["pipeline:mine", "command:7", "cluster:demo", "*:*"])
async def test_changes_of_its_subject_wake_a_view(notice: str) -> None:
    thing, feed = Thing(), Feed()
    thing.concerns = frozenset({"pipeline:mine"})
    async with watching(SharedLooks(), thing.take, feed, number=1) as viewers:
        await newest(viewers)
        thing.is_now = "second"
        feed.tell(notice)
        assert await newest(viewers) == {"second"}


@pytest.mark.parametrize("concerns", [None, frozenset({"pipeline:mine"})], ids=["anything", "a pipeline"])
async def test_constant_broker_changes_wake_only_views_that_ask_for_them(concerns: frozenset[str] | None) -> None:
    thing, feed = Thing(), Feed()
    thing.concerns = concerns
    async with watching(SharedLooks(), thing.take, feed, number=1) as viewers:
        assert await newest(viewers) == {"first"}
        thing.is_now = "second"
        feed.tell("observed:c")
        assert await newest(viewers) == {None}
        thing.concerns = frozenset({"observed:c"})
        feed.tell("*:*")
        assert await newest(viewers) == {"second"}
        thing.is_now = "third"
        feed.tell("observed:c")
        assert await newest(viewers) == {"third"}


@pytest.mark.parametrize("frames_per_s", [2, 10])
async def test_a_view_has_a_shortest_interval_under_any_load(frames_per_s: int) -> None:
    looks, feed, thing = SharedLooks(), Feed(), Thing()

    async def take() -> SeenFrame:
        return replace(await thing.take(), rhythm=Rhythm(frames_per_s=frames_per_s, share_of_time=0.5))

    began = time.monotonic()
    async with asyncio.timeout(10 + 3 / frames_per_s), watching(looks, take, feed, number=1):
        while thing.looks < 4:
            feed.tell("pipeline:other")
            await asyncio.sleep(0)
    assert time.monotonic() - began >= 3 / frames_per_s


async def test_a_slow_view_is_made_less_often() -> None:
    looks, feed, thing = SharedLooks(), Feed(), Thing()
    takes_s, share = 0.05, 0.25

    async def take() -> SeenFrame:
        await asyncio.sleep(takes_s)
        return replace(await thing.take(), rhythm=Rhythm(frames_per_s=100, share_of_time=share))

    began = time.monotonic()
    async with watching(looks, take, feed, number=1):
        while thing.looks < 4:
            feed.tell("pipeline:other")
            await asyncio.sleep(0)
    assert time.monotonic() - began >= 3 * takes_s / share


async def test_views_and_their_many_viewers_leave_most_of_the_time_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks, feed, thing = SharedLooks(), Feed(), Thing()
    busy_s, frames = 0.3, 3
    spent_s = 0.0
    monkeypatch.setattr("app.kit.web.pages.shared_looks.time.process_time", lambda: spent_s)

    async def take() -> SeenFrame:
        return replace(await thing.take(), rhythm=OBSERVED)

    async with watching(looks, take, feed, number=1) as [viewer]:
        began = time.monotonic()
        for number in range(frames):
            thing.is_now = str(number)
            feed.tell("pipeline:other")
            assert await viewer.newer(timeout_s=10 * LOOK_AGAIN_S) == Frame(data=str(number))
            spent_s += busy_s
    assert time.monotonic() - began >= (frames - 1) * busy_s / (1 - SHARE_LEFT_TO_OTHERS)


async def test_a_frame_is_encoded_once_for_all_viewers() -> None:
    looks, feed, thing = SharedLooks(), Feed(), Thing()
    thing.is_now = "two\nlines"
    async with watching(looks, thing.take, feed, number=20) as viewers:
        frames = await asyncio.gather(*(viewer.newer(timeout_s=SOON_S) for viewer in viewers))
    encoded = [frame.encoded for frame in frames if frame is not None]
    assert encoded[0] == b"data: two\r\ndata: lines\r\n\r\n"
    assert len(encoded) == len(viewers)
    assert len({id(one) for one in encoded}) == 1


async def test_a_view_is_repeated_without_notices() -> None:
    thing, feed = Thing(), Feed()
    async with watching(SharedLooks(), thing.take, feed, number=1) as [viewer]:
        await viewer.newer(timeout_s=SOON_S)
        thing.is_now = "silent"
        seen = await viewer.newer(timeout_s=5 * LOOK_AGAIN_S)
        assert seen == Frame(data="silent")


async def test_unannounced_changes_are_viewed_at_the_requested_interval() -> None:
    looks, feed, thing = SharedLooks(), Feed(), Thing()

    async def take() -> SeenFrame:
        return replace(await thing.take(), look_again_s=SOON_S / 10)

    async with watching(looks, take, feed, number=1) as viewers:
        assert await newest(viewers) == {"first"}
        thing.is_now = "silent"
        assert await newest(viewers) == {"silent"}


async def test_no_view_is_made_after_the_last_viewer_has_left() -> None:
    thing, feed, looks = Thing(), Feed(), SharedLooks()
    async with watching(looks, thing.take, feed, number=2) as viewers:
        await newest(viewers)
        assert feed.subscriptions
    assert not feed.subscriptions
    async with watching(looks, thing.take, feed, number=1) as viewers:
        assert await newest(viewers) == {"first"}


async def test_an_error_of_the_view_reaches_every_present_viewer() -> None:
    class BugError(Exception):
        pass

    async def fail() -> SeenFrame:
        raise BugError

    thing, feed, looks = Thing(), Feed(), SharedLooks()
    async with watching(looks, fail, feed, number=2) as viewers:
        for viewer in viewers:
            with pytest.raises(BugError):
                await viewer.newer(timeout_s=SOON_S)
        async with watching(looks, thing.take, feed, number=1) as later:
            assert await newest(later) == {"first"}


async def test_after_the_last_frame_a_new_viewer_gets_a_new_view() -> None:
    thing, feed, looks = Thing(), Feed(), SharedLooks()

    async def gone() -> SeenFrame:
        return SeenFrame(frame=Frame(event="gone", data="gone", is_last=True))

    async with watching(looks, gone, feed, number=2) as viewers:
        assert await newest(viewers) == {"gone"}
        async with watching(looks, thing.take, feed, number=1) as later:
            assert await newest(later) == {"first"}


def test_no_live_region_shows_whose_it_is_since_all_of_a_role_share_it() -> None:
    regions = [*TEMPLATES_DIR.rglob("_*.html"), *(TEMPLATES_DIR / "components").glob("*.html")]
    assert regions
    named = [region.name for region in regions if re.search(r"(?<!\.)\bprincipal\b", region.read_text())]
    assert not named
