"""The brokers' settings at the order of a drill, and their absence."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from app.core.clusters.store import ClusterStore
from app.core.clusters.survey import Survey, SurveyedBroker
from app.core.clusters.surveys import Surveys
from app.core.runs.store.runs import RunStore
from app.products.drills.planning import UNKNOWN, BrokerTimes
from app.products.drills.service import drills
from tests.support.unit_of import UnitOf

SETTINGS = {
    "group.consumer.session.timeout.ms": "10000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
}


def a_unit_of_work(*, runs: bool = True) -> UnitOf:
    async def find_live(_: str) -> object:
        return SimpleNamespace(cluster="demo") if runs else None

    async def get(name: str) -> object:
        return SimpleNamespace(name=name)

    return UnitOf({RunStore: SimpleNamespace(find_live=find_live), ClusterStore: SimpleNamespace(get=get)})


def saying(settings: dict[str, str] | None) -> Surveys:
    broker = SurveyedBroker(id=1, host="h", port=9092, is_controller=True, version=(4, 3), settings=settings)

    async def of(_: object) -> object:
        return SimpleNamespace(survey=Survey(cluster_id="c", brokers=(broker,), features=()))

    return cast(Surveys, SimpleNamespace(of=of))


async def test_settings_are_the_brokers() -> None:
    found = await drills.broker_times(a_unit_of_work(), saying(SETTINGS), "flights")
    assert found == BrokerTimes(session_s=10.0, abort_sweep_s=2.0)


async def test_unreported_settings_are_unknown() -> None:
    assert await drills.broker_times(a_unit_of_work(), saying(None), "flights") == UNKNOWN
    assert await drills.broker_times(a_unit_of_work(runs=False), saying(SETTINGS), "flights") == UNKNOWN


async def test_brokers_without_an_answer_delay_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: object) -> object:
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr(drills, "ANSWER_S", 0.01)
    deaf = cast(Surveys, SimpleNamespace(of=never))
    async with asyncio.timeout(5):
        assert await drills.broker_times(a_unit_of_work(), deaf, "flights") == UNKNOWN
