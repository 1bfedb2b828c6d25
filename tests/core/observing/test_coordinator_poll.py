"""The coordinators' answers, and failed requests."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.journals import AdminAnswers
from app.core.observing.live_cluster import LiveCluster
from app.core.observing.loops.coordinator_poll import CoordinatorPoll
from app.core.observing.snapshot import JournalStatus, ReadingPhase, SnapshotSource
from app.kit.errors import UnavailableError
from tests.support.observing import NOW_MS, cluster, live_transaction, state_of

ONE = AdminAnswers({"a": live_transaction("a", state_of(), offset=-1)}, ())


class Inline(Executor):
    """Asks at once, and the answer is there."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        asked: Future[Any] = Future()
        try:
            asked.set_result(fn(*args, **kwargs))
        except (UnavailableError, KeyError) as error:
            asked.set_exception(error)
        return asked


class Coordinators:
    """Coordinators that give the answers one after the other."""

    def __init__(self, live: LiveCluster, *answers: AdminAnswers[LiveTransaction] | Exception) -> None:
        self._live = live
        self._answers = list(answers)
        self._poll = CoordinatorPoll(live.transactions, self._ask)

    def _ask(self, phase: ReadingPhase) -> AdminAnswers[LiveTransaction]:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def turn(self, *, now_ms: int) -> JournalStatus:
        """Ask, and take the answer."""
        self._poll.hurry()
        asker = Inline()
        for _ in range(2):
            self._poll.turn(asker, now_ms=now_ms)
        return self._live.snapshot(now_ms=now_ms).transaction_journal


def test_failed_request_is_reported_and_repeated(caplog: pytest.LogCaptureFixture) -> None:
    live = cluster()
    coordinators = Coordinators(live, KeyError("a bug"), KeyError("a bug"), ONE)
    for _ in range(2):
        failed = coordinators.turn(now_ms=NOW_MS)
        assert (failed.source, failed.as_of_ms) == (SnapshotSource.NOTHING, -1)
        assert "the request failed: KeyError: 'a bug'" in failed.problem
    assert len(caplog.records) == 1, "the same failure is logged once"
    mended = coordinators.turn(now_ms=NOW_MS + 1)
    assert (mended.source, mended.as_of_ms) == (SnapshotSource.ADMIN_CALLS, NOW_MS + 1)
    assert "failed" not in mended.problem


def test_last_answer_keeps_its_age_after_a_failed_request() -> None:
    live = cluster()
    coordinators = Coordinators(live, ONE, KeyError("a bug"))
    coordinators.turn(now_ms=NOW_MS)
    failed = coordinators.turn(now_ms=NOW_MS + 5_000)
    assert (failed.source, failed.as_of_ms) == (SnapshotSource.ADMIN_CALLS, NOW_MS)
    assert "the request failed" in failed.problem
    assert set(live.snapshot(now_ms=NOW_MS).transactions) == {"a"}


def test_connection_error_is_raised_to_the_reader() -> None:
    coordinators = Coordinators(cluster(), UnavailableError("no broker answers"))
    with pytest.raises(UnavailableError, match="no broker answers"):
        coordinators.turn(now_ms=NOW_MS)
