"""Every pipeline is checked, also if the check of another one fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.core.observing.service.observations import Observations
from app.kit.errors import NotFoundError
from app.products.offset_log import loop as offset_watch
from app.products.offset_log.loop import OffsetWatch
from app.products.offset_log.service import LIVE_SPAN
from app.products.offset_log.store import OffsetLogStore
from tests.support.unit_of import UnitOf

NOW = datetime(2026, 11, 22, 6, tzinfo=UTC)


class Log:
    """Three pipelines, of which those in `troubles` raise these errors when they are checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **troubles: Exception) -> None:
        self.troubles = troubles
        self.asked: list[datetime] = []
        self.checked: list[str] = []
        self.now = NOW
        self.watch = OffsetWatch(
            unit_of_work=self.unit_of_work,
            observations=Observations(is_on=True),
            clock=cast(Any, SimpleNamespace(now=lambda: self.now)),
        )
        monkeypatch.setattr(offset_watch, "check_live", self.check_live)

    def unit_of_work(self) -> UnitOf:
        async def told_since(since: datetime) -> list[str]:
            self.asked.append(since)
            return ["a", "b", "c"]

        return UnitOf({OffsetLogStore: SimpleNamespace(told_since=told_since)})

    async def check_live(self, *_: Any, pipeline: str, **__: Any) -> int:
        if pipeline in self.troubles:
            raise self.troubles[pipeline]
        self.checked.append(pipeline)
        return 0


async def test_first_turn_checks_an_hour_and_later_turns_the_time_since(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, b=NotFoundError("there is no pipeline b"))
    await log.watch.turn()
    log.now += timedelta(seconds=10)
    await log.watch.turn()
    log.watch.interrupted()
    await log.watch.turn()
    assert log.checked == ["a", "c"] * 3
    assert log.asked == [NOW - LIVE_SPAN, NOW, log.now - LIVE_SPAN]


async def test_pipeline_whose_check_fails_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, a=ValueError("too much"))
    with pytest.raises(ValueError, match="too much"):
        await log.watch.turn()
    assert log.checked == ["b", "c"]
    log.troubles.clear()
    log.now += timedelta(seconds=10)
    await log.watch.turn()
    assert log.asked == [NOW - LIVE_SPAN, log.now - LIVE_SPAN], "events before the failed turn are not skipped"
