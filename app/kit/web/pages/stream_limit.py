"""Limit the event streams, in all and for one user, and the number of different views that they watch.

Viewers of the same view share it. So different views cost time, and streams cost connections.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager

from sse_starlette import EventSourceResponse
from starlette.types import Receive, Scope, Send

from app.kit.web.problems import ProblemResponse

STREAMS = 1_000
STREAMS_OF_ONE = 250
LOOKS = 400
LOOKS_OF_ONE = 40
_TOO_MANY, _UNAVAILABLE = 429, 503
_RETRY_AFTER = {"Retry-After": "10"}


class StreamLimit:
    """The limits of one application; used on its event loop only. `one` is a principal's name.

    connections: the limit for one address. Streams leave half of them to requests.
    """

    def __init__(self, *, connections: int) -> None:
        self._most = connections // 2
        self._most_of_one = max(1, connections // 8)
        self._streams: Counter[str] = Counter()
        # The streams of each view, in all and by viewer, and the number of each viewer's views.
        self._looks: Counter[Hashable] = Counter()
        self._watched: Counter[tuple[str, Hashable]] = Counter()
        self._looks_of: Counter[str] = Counter()

    @contextmanager
    def held(self, one: str, look: Hashable) -> Generator[ProblemResponse | None]:
        """Count one more for as long as the context is open; or return the reason of its refusal."""
        refused = self._refusal(one, look)
        if refused is not None:
            yield refused
            return
        self._streams[one] += 1
        self._looks[look] += 1
        self._watched[one, look] += 1
        self._looks_of[one] += self._watched[one, look] == 1
        try:
            yield None
        finally:
            self._streams[one] -= 1
            self._looks[look] -= 1
            if not self._looks[look]:
                del self._looks[look]
            self._watched[one, look] -= 1
            if not self._watched[one, look]:
                del self._watched[one, look]
                self._looks_of[one] -= 1
            if not self._streams[one]:
                del self._streams[one], self._looks_of[one]

    def _refusal(self, one: str, look: Hashable) -> ProblemResponse | None:
        most, most_of_one = min(STREAMS, self._most), min(STREAMS_OF_ONE, self._most_of_one)
        if self._streams[one] >= most_of_one:
            return _refused(_TOO_MANY, f"You have {most_of_one} event streams open already: close some.")
        if (one, look) not in self._watched and self._looks_of[one] >= LOOKS_OF_ONE:
            return _refused(_TOO_MANY, f"You watch {LOOKS_OF_ONE} different pages already: close some.")
        if self._streams.total() >= most:
            return _refused(_UNAVAILABLE, f"{most} event streams are open already. Reload the page later.")
        if look not in self._looks and len(self._looks) >= LOOKS:
            return _refused(_UNAVAILABLE, f"{LOOKS} different pages are watched already. Reload the page later.")
        return None


def _refused(status: int, detail: str) -> ProblemResponse:
    return ProblemResponse(status, detail, headers=_RETRY_AFTER)


class LimitedStream(EventSourceResponse):
    """An event stream that is counted while it is open, or refused as a problem document."""

    def within(self, limit: StreamLimit, one: str, look: Hashable) -> LimitedStream:
        self._limit, self._one, self._look = limit, one, look
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._limit.held(self._one, self._look) as refused:
            await (super().__call__ if refused is None else refused)(scope, receive, send)
