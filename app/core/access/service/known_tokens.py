"""Run tokens that were found lately: each worker sends its own once a second, and a token never changes its lease."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from app.core.access.service.secret_sums import sha256_of
from app.kit.access import RunTokenScope

KNOWN_S = 10.0
"""After a restore, another database may not have the token; its messages name rows that this one lacks, too."""
_MOST = 10_000


class KnownRunTokens:
    """The scopes of known tokens, for KNOWN_S each. Belongs to one event loop. Unknown tokens are never kept."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[str, tuple[float, RunTokenScope]] = {}

    async def scope_of(
        self, secret: str, find: Callable[[str], Awaitable[RunTokenScope | None]]
    ) -> RunTokenScope | None:
        """Return the scope of a token, by `find` if it is not known; None if there is no such token."""
        key, now = sha256_of(secret), self._now()
        known = self._known.get(key)
        if known is not None and now - known[0] < KNOWN_S:
            return known[1]
        found = await find(secret)
        if found is not None:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = (now, found)
        return found
