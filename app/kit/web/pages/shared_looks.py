"""Share one view among all its viewers: it is made once for each change, for any number of browsers.

A view costs the database and this process some tens of milliseconds. With one for each browser, twenty viewers of an
incident would slow down the server and its heartbeats.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property

from sse_starlette import ServerSentEvent

from app.kit.changes import Changes, Subscription

# A frame is sent to every viewer. With hundreds of them that takes longer than the view itself, and some views search
# 50,000 ids in a thread. The rest of the process (heartbeats, forms, pages) must still get this part of a core.
SHARE_LEFT_TO_OTHERS = 0.7
# The view's interval without an announced change: missing heartbeats are announced by none.
LOOK_AGAIN_S = 2.0
_OBSERVED = "observed:"
_ABOUT_ONE_THING = ("pipeline:", "run:", _OBSERVED)


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """The interval of a view.

    share_of_time: the part of the time that one view may take, with its waits. An expensive one comes less often, and
    slows down no other.
    """

    frames_per_s: int
    share_of_time: float


STORED = Rhythm(frames_per_s=5, share_of_time=0.2)
"""For data of the database."""
OBSERVED = Rhythm(frames_per_s=10, share_of_time=0.5)
"""For data of brokers: a view of it reads memory only, and is watched as it changes."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """An event of a stream: `event` is empty for the region itself. None follows one that `is_last`."""

    event: str = ""
    data: str
    is_last: bool = False

    @cached_property
    def encoded(self) -> bytes:
        """The bytes of the frame, made once for all viewers: it has a thousand lines, and they may be hundreds."""
        return ServerSentEvent(event=self.event or None, data=self.data).encode()


@dataclass(frozen=True, kw_only=True)
class SeenFrame:
    """A frame, and the notices about single things that can change it; None: any of pipelines and runs.

    rhythm: the shortest interval. look_again_s: the longest interval, without a notice; None: LOOK_AGAIN_S.
    """

    frame: Frame
    concerns: frozenset[str] | None = None
    rhythm: Rhythm = STORED
    look_again_s: float | None = None


TakeLook = Callable[[], Awaitable[SeenFrame]]


@dataclass(eq=False)
class _Shared:
    """The newest frame of one view, and the viewers that wait for a newer one."""

    take: TakeLook
    frame: Frame | None = None
    viewers: int = 0
    looked_at: float = 0.0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    concerns: frozenset[str] | None = None
    came: asyncio.Condition = field(default_factory=asyncio.Condition)
    looking: asyncio.Task[None] | None = None

    def wants(self, notice: str) -> bool:
        if self.concerns is not None and notice in self.concerns:
            return True
        # Broker data changes constantly: only the waiting viewers are woken.
        if self.concerns is None:
            return not notice.startswith(_OBSERVED)
        return not notice.startswith(_ABOUT_ONE_THING)

    async def look_on(self, changes: Changes) -> None:
        """Make the view, and again after each change, until it is the last one or the task is cancelled."""
        try:
            async with changes.subscribe(self.wants) as subscription:
                while True:
                    began, busy_before_s = time.monotonic(), time.process_time()
                    took_s, seen = await self._look()
                    if self.frame is not None and self.frame.is_last:
                        return
                    # Coalesced: the next frame includes all changes until then.
                    rhythm = seen.rhythm
                    await asyncio.sleep(max(1 / rhythm.frames_per_s, took_s / rhythm.share_of_time) - took_s)
                    busy_s, passed_s = time.process_time() - busy_before_s, time.monotonic() - began
                    rest_s = busy_s / (1 - SHARE_LEFT_TO_OTHERS) - passed_s
                    await asyncio.sleep(min(LOOK_AGAIN_S, max(0.0, rest_s)))
                    await self._changed_or_asked(subscription, seen.look_again_s or LOOK_AGAIN_S)
        finally:
            async with self.came:
                self.came.notify_all()

    async def _look(self) -> tuple[float, SeenFrame]:
        """Return its duration, and the view."""
        self.asked.clear()
        began = time.monotonic()
        seen = await self.take()
        self.concerns = seen.concerns
        async with self.came:
            self.frame, self.looked_at = seen.frame, began
            self.came.notify_all()
        return time.monotonic() - began, seen

    async def _changed_or_asked(self, subscription: Subscription, look_again_s: float) -> None:
        waiting = asyncio.ensure_future(subscription.wait(timeout_s=look_again_s))
        asked = asyncio.ensure_future(self.asked.wait())
        try:
            await asyncio.wait({waiting, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (waiting, asked):
                task.cancel()
            await asyncio.gather(waiting, asked, return_exceptions=True)


class Watching:
    """One viewer's view of a shared look."""

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._sent: Frame | None = None
        # An earlier frame may be older than the page that this viewer has just got.
        self._since = time.monotonic()
        shared.asked.set()

    async def newer(self, *, timeout_s: float) -> Frame | None:
        """Return the newest frame once it differs from this viewer's last one; None if none came in time.

        Raises the error of the view.
        """
        shared = self._shared
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), shared.came:
                await shared.came.wait_for(self._is_news)
        if shared.looking is not None and shared.looking.done():
            shared.looking.result()
        if not self._has_newer():
            return None
        self._sent = shared.frame
        return shared.frame

    def _is_news(self) -> bool:
        looking = self._shared.looking
        return self._has_newer() or looking is None or looking.done()

    def _has_newer(self) -> bool:
        return self._shared.looked_at >= self._since and self._shared.frame != self._sent


class SharedLooks:
    """Every view with a viewer, by its content and role."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, _Shared] = {}

    @property
    def watched(self) -> frozenset[Hashable]:
        """The number of present views."""
        return frozenset(self._shared)

    @asynccontextmanager
    async def watch(self, key: Hashable, take: TakeLook, changes: Changes) -> AsyncGenerator[Watching]:
        """Watch the view of `take` for as long as the context is open; the first viewer's one serves all of the key."""
        shared = self._shared.get(key)
        if shared is None or (shared.looking is not None and shared.looking.done()):
            shared = self._shared[key] = _Shared(take)
            shared.looking = asyncio.create_task(shared.look_on(changes))
        shared.viewers += 1
        try:
            yield Watching(shared)
        finally:
            shared.viewers -= 1
            if shared.viewers == 0:
                if self._shared.get(key) is shared:
                    del self._shared[key]
                if shared.looking is not None:
                    shared.looking.cancel()
                    await asyncio.gather(shared.looking, return_exceptions=True)
