"""Asks coordinators while a journal does not say what is so now: one question at a time, beside what is read."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Generic, TypeVar

from app.core.observing.journals import Polled
from app.core.observing.live_journal import LiveJournal, Placed
from app.core.observing.snapshot import Phase
from app.kit.errors import FencelineError

log = logging.getLogger(__name__)

_EVERY_S = 5.0

T = TypeVar("T", bound=Placed)


class CoordinatorPoll(Generic[T]):
    """For one journal of one connection. Used by one thread; the question is asked by another.

    Args:
        ask: the question, given how the journal's reading is.
        first_after_s: a journal that is read by then needs no answer; a refused one is not waited for.
    """

    def __init__(
        self, journal: LiveJournal[T], ask: Callable[[Phase], Polled[T]], *, first_after_s: float = 0.0
    ) -> None:
        self._journal = journal
        self._ask = ask
        self._next_at = time.monotonic() + first_after_s
        self._asked: Future[Polled[T]] | None = None
        self._asked_at = 0.0
        self._asked_ms = -1
        self._failed = ""

    def hurry(self) -> None:
        """The journal has just been refused: nobody else tells now."""
        self._next_at = 0.0

    def turn(self, asker: Executor, *, now_ms: int) -> None:
        """Take an answer that has come, and ask where it is time. Raises a FencelineError that was the answer: what it
        says is mended by a new connection, and nothing else is."""
        phase = self._journal.progress.phase
        is_needed = phase not in (Phase.LIVE, Phase.ABSENT)
        if self._asked is not None and self._asked.done():
            asked, self._asked = self._asked, None
            self._take(asked, is_needed=is_needed)
            # Where the answer takes long, the brokers have as long without the question.
            self._next_at = max(self._next_at, time.monotonic() + min(_EVERY_S, time.monotonic() - self._asked_at))
        if is_needed and self._asked is None and time.monotonic() >= self._next_at:
            self._asked_at, self._asked_ms = time.monotonic(), now_ms
            self._asked = asker.submit(self._ask, phase)
            self._next_at = self._asked_at + _EVERY_S

    def _take(self, asked: Future[Polled[T]], *, is_needed: bool) -> None:
        try:
            polled = asked.result()
        except FencelineError:
            raise
        except Exception as error:
            # A bug in the question must not end the reading beside it, which tells more.
            said = f"the question failed: {type(error).__name__}: {error}"
            if said != self._failed:
                log.exception("asking the coordinators of %s failed", self._journal.topic)
            self._failed = said
            self._journal.not_polled(said)
        else:
            self._failed = ""
            if is_needed:
                self._journal.polled(polled.found, missing=polled.missing, now_ms=self._asked_ms)
