"""One look for all who watch the same: it is taken once a change, however many browsers are open on it.

A look costs the database and this process some tens of milliseconds; with one for each browser, twenty people at an
incident would slow down the very server that they look at, and the heartbeats that it takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property

from sse_starlette import ServerSentEvent

from app.kit.web.dependencies import Changes, Subscription

# A frame is handed to every viewer. With hundreds of them that takes the event loop longer than the look did, and what
# else it serves (heartbeats, forms) must still have this part of its time.
_SHARE_LEFT_TO_OTHERS = 0.5
# Taken again this often when nothing was announced: silence is news too (a heartbeat that stays away).
LOOK_AGAIN_S = 2.0
_OBSERVED = "observed:"
_ABOUT_ONE_THING = ("pipeline:", "run:", _OBSERVED)


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """How often a look may be taken anew.

    share_of_time: the part of the time that one look may take, its waits included, so that an expensive one comes less
    often and starves nobody.
    """

    frames_per_s: int
    share_of_time: float


STORED = Rhythm(frames_per_s=5, share_of_time=0.2)
"""Of what the database has."""
OBSERVED = Rhythm(frames_per_s=10, share_of_time=0.5)
"""Of what brokers say: a look at it is at memory, and it is there to be watched."""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What a stream sends: `event` is empty for the region itself. After one that `is_last` no other follows."""

    event: str = ""
    data: str
    is_last: bool = False

    @cached_property
    def encoded(self) -> bytes:
        """As it goes over the wire, made once for all who watch: it has a thousand lines, and they may be hundreds."""
        return ServerSentEvent(event=self.event or None, data=self.data).encode()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A frame, and the notices about single things that can change it; None: any of pipelines and runs.

    rhythm: how often a newer one may follow. look_again_s: after so long it is looked at again, whatever was announced;
    None: LOOK_AGAIN_S.
    """

    frame: Frame
    concerns: frozenset[str] | None = None
    rhythm: Rhythm = STORED
    look_again_s: float | None = None


TakeLook = Callable[[], Awaitable[Seen]]


@dataclass(eq=False)
class _Shared:
    """The newest frame of one look, and who waits for a newer one."""

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
        # What brokers say changes all the time: only who asks for it is woken.
        if self.concerns is None:
            return not notice.startswith(_OBSERVED)
        return not notice.startswith(_ABOUT_ONE_THING)

    async def look_on(self, changes: Changes) -> None:
        """Look, and again after each change, until there is nothing more to see; ends by being cancelled else."""
        try:
            async with changes.subscribe(self.wants) as subscription:
                while True:
                    began, busy_before_s = time.monotonic(), time.thread_time()
                    took_s, seen = await self._look()
                    if self.frame is not None and self.frame.is_last:
                        return
                    # Coalesced: however many changes there were meanwhile, the next frame shows them all.
                    rhythm = seen.rhythm
                    await asyncio.sleep(max(1 / rhythm.frames_per_s, took_s / rhythm.share_of_time) - took_s)
                    busy_s, passed_s = time.thread_time() - busy_before_s, time.monotonic() - began
                    rest_s = busy_s / (1 - _SHARE_LEFT_TO_OTHERS) - passed_s
                    await asyncio.sleep(min(LOOK_AGAIN_S, max(0.0, rest_s)))
                    await self._changed_or_asked(subscription, seen.look_again_s or LOOK_AGAIN_S)
        finally:
            async with self.came:
                self.came.notify_all()

    async def _look(self) -> tuple[float, Seen]:
        """How long it took, and what was seen."""
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
        # What others saw before may be older than the page that this viewer was just given.
        self._since = time.monotonic()
        shared.asked.set()

    async def newer(self, *, timeout_s: float) -> Frame | None:
        """The newest frame if it is another one than last time, as soon as there is one; None: none came in time.

        Raises what the look raised.
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
    """Every look that somebody watches now, by what it shows and to which role."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, _Shared] = {}

    @property
    def watched(self) -> frozenset[Hashable]:
        """What somebody watches now."""
        return frozenset(self._shared)

    @asynccontextmanager
    async def watch(self, key: Hashable, take: TakeLook, changes: Changes) -> AsyncGenerator[Watching]:
        """See what `take` sees for as long as the context is open; the first viewer's look serves all of the key."""
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
