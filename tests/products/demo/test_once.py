"""The demo with one kill feeds on until the killed instance has committed again, on any machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from app.edges.embedded.errors import EmbeddedError
from app.products.demo import once, pipeline
from app.products.demo.feed import FedFlight
from app.products.demo.kill import KilledWorker

FLIGHTS = 1_000
KILL = KilledWorker(ordinal=0, pid=1, transactional_id="t", epoch=3)


class PlayedFeed:
    """Accepts all at once, and the slow part until it is stopped."""

    def __init__(self) -> None:
        self.sent = 0

    def send_steadily(self, flights: Iterator[FedFlight], *, rate_per_s: float, stop: threading.Event) -> None:
        for _ in flights:
            self.sent += 1
            if rate_per_s < 100 and stop.wait(0.001):
                return


class PlayedJournal:
    """Reports a commit of the killed instance after this number of flights."""

    def __init__(self, feed: PlayedFeed, back_at: int) -> None:
        self._feed = feed
        self._back_at = back_at

    def has_committed_since(self, kill: KilledWorker) -> bool:
        return self._feed.sent >= self._back_at

    def close(self) -> None:
        """Do nothing."""


class Played:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, back_at: int, has_kill: bool = True) -> None:
        self.feed = PlayedFeed()
        self._looks = iter([400, *[FLIGHTS] * 3])
        monkeypatch.setattr(once, "FLIGHTS", FLIGHTS)
        monkeypatch.setattr(once, "_LOOK_FOR_COMMIT_EVERY_S", 0.001)

        def journal(**_: object) -> PlayedJournal:
            return PlayedJournal(self.feed, back_at)

        def kill(*_: object) -> KilledWorker | None:
            return KILL if has_kill else None

        monkeypatch.setattr(once, "IdTail", journal)
        monkeypatch.setattr(once, "kill_inside_a_transaction", kill)

    def committed(self) -> list[int]:
        return [next(self._looks, self.feed.sent)]

    def tasks(self, run_id: str) -> list[Any]:
        class Last:
            transactional_id = "t"

        class Counters:
            transactions_committed = 1

        def status(ordinal: int) -> Any:
            last = type("Report", (Last,), {"ordinal": ordinal, "counters": Counters})
            return type("Status", (), {"last": last})

        return [status(ordinal) for ordinal in range(pipeline.INSTANCES)]

    def play(self) -> tuple[KilledWorker | None, int | None, float]:
        feeding = once._Feeding(self.feed, [object()] * FLIGHTS)  # pyright: ignore
        feeding.start()
        stage = type("Stage", (), {"server": self, "bootstrap_servers": "played"})
        run = type("Run", (), {"id": "r"})
        return once._process(stage, run, self, Console(quiet=True), feeding)  # pyright: ignore


def test_feeding_goes_on_slowly_until_the_killed_instance_has_committed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, back_at=FLIGHTS + 50)
    kill, _, _ = played.play()
    assert kill == KILL
    assert FLIGHTS + 50 <= played.feed.sent < FLIGHTS * 2


@pytest.mark.parametrize("has_kill", [True, False])
def test_nothing_is_fed_beyond_the_input_where_nothing_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, has_kill: bool
) -> None:
    played = Played(monkeypatch, back_at=0, has_kill=has_kill)
    played.play()
    # One flight may still be sent after the stop.
    assert played.feed.sent <= FLIGHTS + 1


def test_a_broker_that_rejects_records_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, back_at=FLIGHTS + 50)

    def refuse(*_: object, **__: object) -> None:
        raise EmbeddedError("the broker refused a flight")

    monkeypatch.setattr(played.feed, "send_steadily", refuse)
    with pytest.raises(EmbeddedError, match="refused a flight"):
        played.play()
