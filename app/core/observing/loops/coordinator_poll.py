"""Ask coordinators while a journal does not have the current state: one request at a time, beside the reading."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Generic, TypeVar

from app.core.observing.journals import AdminAnswers
from app.core.observing.live_journal import LiveJournal, Placed
from app.core.observing.snapshot import ReadingPhase
from app.kit.errors import FencelineError

log = logging.getLogger(__name__)

_EVERY_S = 5.0

T = TypeVar("T", bound=Placed)


class CoordinatorPoll(Generic[T]):
    """For one journal of one connection. Used by one thread; the request runs in another.

    Args:
        ask: the request, given the phase of the journal's reading.
        first_after_s: a journal that is read by then needs no request; a refused one is not waited for.
    """

    def __init__(
        self, journal: LiveJournal[T], ask: Callable[[ReadingPhase], AdminAnswers[T]], *, first_after_s: float = 0.0
    ) -> None:
        self._journal = journal
        self._ask = ask
        self._next_at = time.monotonic() + first_after_s
        self._asked: Future[AdminAnswers[T]] | None = None
        self._asked_at = 0.0
        self._asked_ms = -1
        self._failed = ""

    def hurry(self) -> None:
        """The journal has just been refused: it is not a source now."""
        self._next_at = 0.0

    def turn(self, asker: Executor, *, now_ms: int) -> None:
        """Take an available answer, and send the next request when it is due. Raises the FencelineError of the answer:
        only a new connection fixes it.
        """
        phase = self._journal.progress.phase
        is_needed = phase not in (ReadingPhase.LIVE, ReadingPhase.ABSENT)
        if self._asked is not None and self._asked.done():
            asked, self._asked = self._asked, None
            self._take(asked, is_needed=is_needed)
            # After a slow answer, the brokers get the same time without a request.
            self._next_at = max(self._next_at, time.monotonic() + min(_EVERY_S, time.monotonic() - self._asked_at))
        if is_needed and self._asked is None and time.monotonic() >= self._next_at:
            self._asked_at, self._asked_ms = time.monotonic(), now_ms
            self._asked = asker.submit(self._ask, phase)
            self._next_at = self._asked_at + _EVERY_S

    def _take(self, asked: Future[AdminAnswers[T]], *, is_needed: bool) -> None:
        try:
            polled = asked.result()
        except FencelineError:
            raise
        except Exception as error:
            # A bug in the request must not end the reading beside it, which is more important.
            said = f"the request failed: {type(error).__name__}: {error}"
            if said != self._failed:
                log.exception("asking the coordinators of %s failed", self._journal.topic)
            self._failed = said
            self._journal.not_polled(said)
        else:
            self._failed = ""
            if is_needed:
                self._journal.polled(polled.found, missing=polled.missing, now_ms=self._asked_ms)
