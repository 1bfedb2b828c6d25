"""Brokers before 3.8 do not report a transaction's age: a server uses the clock that its observer measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest

from app.core.blocked.brokers import TransactionBrokers
from app.core.blocked.diagnosis import AdviceVerdict, Diagnosis
from app.core.blocked.ending import EndingPlan
from app.core.blocked.facts import Coordinators, KnownTransaction, LogEnds, OpenTransaction, PartitionFacts
from app.core.blocked.service import operating
from app.core.clocks.broker_clocks import BrokerClocks
from app.core.clocks.clock_offset import ClockOffset
from app.core.clusters.brokers import Connection
from app.core.clusters.partition import Partition
from app.core.lag.service import Lags
from app.core.observing.service.observations import Observations
from tests.support.control_plane import CLUSTER, ControlPlane, PlaneClock

BROKER = 1
BEHIND_MS = 300_000
OPEN = OpenTransaction(7, 3, 0, 0, 0, 5)
"""The broker's clock at the start of the transaction."""


class OlderBrokers:
    """Their clock is `BEHIND_MS` behind, and no coordinator lists by duration."""

    def __init__(self, plane: ControlPlane, *, age_ms: int, timeout_ms: int) -> None:
        began_ms = int(plane.now.timestamp() * 1000) - age_ms
        self.known = KnownTransaction(
            "tx", BROKER, "Ongoing", 7, 3, timeout_ms, began_ms - BEHIND_MS, frozenset({Partition("orders", 0)})
        )

    async def describe_transaction(self, *_: Any) -> KnownTransaction:
        return self.known

    async def partitions_of(self, _: Connection, topic: str) -> Sequence[Partition]:
        return [Partition(topic, 0)]

    async def look_at_partitions(self, *_: Any) -> list[PartitionFacts]:
        return [
            PartitionFacts(
                topic="orders",
                partition=0,
                ends=LogEnds(0, 5, 9),
                ends_at_ms=0,
                open=(OPEN,),
                still_open=frozenset({OPEN.identity}),
                coordinators=Coordinators({7: self.known}),
            )
        ]


@pytest.fixture
async def registered(plane: ControlPlane) -> ControlPlane:
    await plane.cluster()
    return plane


def observed(plane: ControlPlane, *, behind_ms: int | None) -> Observations:
    """The observer's measurement of the coordinator's clock; None: none yet."""
    made = Observations(is_on=True)
    now_ms = int(plane.now.timestamp() * 1000)
    clocks = (
        BrokerClocks()
        if behind_ms is None
        else BrokerClocks({BROKER: ClockOffset(least_ms=behind_ms - 10, most_ms=behind_ms + 10, measured_ms=now_ms)})
    )
    made.publish(msgspec.structs.replace(made.of(CLUSTER), clocks=clocks))
    return made


async def explained(plane: ControlPlane, brokers: OlderBrokers, observations: Observations) -> Diagnosis:
    found = await operating.explain(
        plane.uow,
        cast(TransactionBrokers, brokers),
        cluster=CLUSTER,
        target="orders:0",
        kind=None,
        observations=observations,
        lags=Lags(),
        clock=PlaneClock(plane),
    )
    (one,) = found.partitions
    return one


async def planned(plane: ControlPlane, brokers: OlderBrokers, observations: Observations) -> EndingPlan:
    return await operating.preview_fence(
        plane.uow,
        cast(TransactionBrokers, brokers),
        cluster=CLUSTER,
        transactional_id="tx",
        observations=observations,
        clock=PlaneClock(plane),
    )


async def test_age_of_a_young_transaction_is_measured(registered: ControlPlane) -> None:
    brokers = OlderBrokers(registered, age_ms=2_000, timeout_ms=60_000)
    known = observed(registered, behind_ms=BEHIND_MS)
    found = await explained(registered, brokers, known)
    assert found.verdict is AdviceVerdict.WAIT
    assert found.until_ms is not None
    assert "not measured" not in found.advice
    assert "began 2" in ((await planned(registered, brokers, known)).refusal(force=False) or "")
    # The control: without the observer's clock its age is not known.
    unknown = observed(registered, behind_ms=None)
    found = await explained(registered, brokers, unknown)
    assert found.until_ms is None
    assert "the clock of broker 1 is not measured" in found.advice
    assert "is not known" in ((await planned(registered, brokers, unknown)).refusal(force=False) or "")


async def test_age_of_an_overdue_transaction_is_measured(registered: ControlPlane) -> None:
    brokers = OlderBrokers(registered, age_ms=200_000, timeout_ms=60_000)
    known = observed(registered, behind_ms=BEHIND_MS)
    assert (await explained(registered, brokers, known)).verdict is AdviceVerdict.FENCE
    assert (await planned(registered, brokers, known)).refusal(force=False) is None
    assert (await planned(registered, brokers, observed(registered, behind_ms=None))).refusal(force=False)
