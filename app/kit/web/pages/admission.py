"""Check that viewers are still logged in, with one query for all browsers.

Each stream checks once a second. With a query for each of them, 500 browsers would occupy the database and this
process.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from app.kit.access import Principal

# The time for which one stream's answer is used for the others.
_GOOD_FOR_S = 0.5

Ask = Callable[[frozenset[str]], Coroutine[Any, Any, Mapping[str, Principal]]]
"""Returns the owners of the sessions with these secrets, without ended ones."""


@dataclass(frozen=True)
class _Asked:
    """One query for all sessions that were watching at that moment."""

    at: float
    secrets: frozenset[str]
    answer: asyncio.Task[Mapping[str, Principal]]


class StreamAdmission:
    """The admission of one application's event streams; used on its event loop only."""

    def __init__(self, ask: Ask, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._watching: Counter[str] = Counter()
        self._asked: _Asked | None = None
        self._answers: dict[str, tuple[float, asyncio.Task[Principal | None]]] = {}

    @contextmanager
    def watch(self, secret: str) -> Generator[None]:
        """Include this session in the queries for as long as the context is open."""
        self._watching[secret] += 1
        try:
            yield
        finally:
            self._watching[secret] -= 1
            if not self._watching[secret]:
                del self._watching[secret]
                self._answers.pop(secret, None)

    async def principal_of(self, secret: str) -> Principal | None:
        """Return the session's owner, as of at most half a second ago; None when it has ended. Only while watched.

        Raises the error of the query.
        """
        asked, now = self._asked, self._clock()
        if asked is None or now - asked.at >= _GOOD_FOR_S or secret not in asked.secrets:
            secrets = frozenset(self._watching)
            asked = self._asked = _Asked(now, secrets, asyncio.create_task(self._ask(secrets)))
        # A browser that leaves cancels its own wait, not the query of all.
        return (await asyncio.shield(asked.answer)).get(secret)

    async def shared(self, secret: str, ask: Callable[[], Coroutine[Any, Any, Principal | None]]) -> Principal | None:
        """Return the answer to `ask`, made once for all streams of this secret, at most half a second ago."""
        found, now = self._answers.get(secret), self._clock()
        if found is None or now - found[0] >= _GOOD_FOR_S:
            found = self._answers[secret] = (now, asyncio.create_task(ask()))
        return await asyncio.shield(found[1])
