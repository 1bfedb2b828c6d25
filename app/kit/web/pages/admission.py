"""Whether those who watch still may: asked for all browsers together, however many there are.

Each stream wants to know once a second. With a question for each of them, 500 browsers would keep the database and this
process busy with nothing else.
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

# What was answered to one stream is good for the others for this long.
_GOOD_FOR_S = 0.5

Ask = Callable[[frozenset[str]], Coroutine[Any, Any, Mapping[str, Principal]]]
"""Whose the sessions with these secrets are; those that have ended are left out."""


@dataclass(frozen=True)
class _Asked:
    """One question for all sessions that were watching at that moment."""

    at: float
    secrets: frozenset[str]
    answer: asyncio.Task[Mapping[str, Principal]]


class Admission:
    """Of one application's event streams; used on its event loop only."""

    def __init__(self, ask: Ask, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._watching: Counter[str] = Counter()
        self._asked: _Asked | None = None
        self._answers: dict[str, tuple[float, asyncio.Task[Principal | None]]] = {}

    @contextmanager
    def watch(self, secret: str) -> Generator[None]:
        """This session is asked for with the others for as long as the context is open."""
        self._watching[secret] += 1
        try:
            yield
        finally:
            self._watching[secret] -= 1
            if not self._watching[secret]:
                del self._watching[secret]
                self._answers.pop(secret, None)

    async def principal_of(self, secret: str) -> Principal | None:
        """Whose session this is, as of at most half a second ago; None when it has ended. For while it is watched.

        Raises what the question raised.
        """
        asked, now = self._asked, self._clock()
        if asked is None or now - asked.at >= _GOOD_FOR_S or secret not in asked.secrets:
            secrets = frozenset(self._watching)
            asked = self._asked = _Asked(now, secrets, asyncio.create_task(self._ask(secrets)))
        # A browser that goes takes its own wish with it, not the question of all.
        return (await asyncio.shield(asked.answer)).get(secret)

    async def shared(self, secret: str, ask: Callable[[], Coroutine[Any, Any, Principal | None]]) -> Principal | None:
        """The answer to `ask`, made once for all streams of this secret, at most half a second ago."""
        found, now = self._answers.get(secret), self._clock()
        if found is None or now - found[0] >= _GOOD_FOR_S:
            found = self._answers[secret] = (now, asyncio.create_task(ask()))
        return await asyncio.shield(found[1])
