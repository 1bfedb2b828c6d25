"""A change on the brokers is in the command log before it begins, and no later failure removes the row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest

from app.core.access.command import Command, CommandFilter
from app.core.access.service import command_log
from app.core.blocked.brokers import FencedProducer, TransactionBrokers
from app.core.blocked.diagnosis import AdviceVerdict
from app.core.blocked.facts import KnownTransaction, LogEnds, OpenTransaction, PartitionFacts
from app.core.blocked.service import operating
from app.core.blocked.service.ending import EndedTransaction, FenceResult
from app.core.clocks.clock_offset import Age
from app.core.clusters.partition import Partition
from app.core.observing.service.observations import Observations
from app.kit.access import Principal, Role
from app.kit.errors import ActOutcomeUnknownError, BrokerUnreachableError
from tests.support.control_plane import CLUSTER, ControlPlane, PlaneClock

T = TypeVar("T")

OLIVIA = Principal(name="olivia", role=Role.OPERATOR)
KNOWN = KnownTransaction(
    "tx", 1, "Ongoing", 7, 3, 600_000, 0, frozenset({Partition("orders", 0)}), Age(least_ms=60_000, most_ms=60_000)
)
TARGET = OpenTransaction(7, 3, 0, 0, 0, 5)


class DeafAfterTheAct:
    """Brokers that answer until the first change; `answers`: also to the change."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self._is_deaf = False

    async def describe_transaction(self, *_: Any) -> KnownTransaction:
        self._say_nothing_if_deaf()
        return KNOWN

    async def look_at_partitions(self, *_: Any) -> list[PartitionFacts]:
        self._say_nothing_if_deaf()
        row = frozenset({TARGET.identity})
        ends = LogEnds(0, 5, 9)
        return [PartitionFacts(topic="orders", partition=0, ends=ends, ends_at_ms=0, open=(TARGET,), still_open=row)]

    async def fence(self, *_: Any) -> FencedProducer:
        self._act()
        return FencedProducer(7, 5)

    async def write_abort_marker(self, *_: Any) -> None:
        self._act()

    def _act(self) -> None:
        self._is_deaf = True
        if not self._answers:
            raise ActOutcomeUnknownError("the end is not confirmed")

    def _say_nothing_if_deaf(self) -> None:
        if self._is_deaf:
            raise BrokerUnreachableError("127.0.0.1:1", "away", 1.0)


@pytest.fixture
async def registered(plane: ControlPlane) -> ControlPlane:
    await plane.cluster()
    return plane


async def fence(plane: ControlPlane, *, answers: bool) -> FenceResult:
    return await act(plane, operating.fence, answers=answers, transactional_id="tx")


async def end(plane: ControlPlane, *, answers: bool) -> EndedTransaction:
    return await act(plane, operating.end, answers=answers, topic="orders", partition=0, expected=TARGET.identity)


async def act(plane: ControlPlane, what: Callable[..., Awaitable[T]], *, answers: bool, **target: Any) -> T:
    """As an edge does it: a failed unit of work is not committed."""
    brokers = cast(TransactionBrokers, DeafAfterTheAct(answers=answers))
    async with plane.uow() as uow:
        done = await what(
            uow,
            plane.uow,
            brokers,
            cluster=CLUSTER,
            **target,
            force=True,
            by=OLIVIA,
            why="a drill",
            observations=Observations(is_on=False),
            clock=PlaneClock(plane),
        )
        await uow.commit()
        return done


async def rows(plane: ControlPlane) -> list[Command]:
    async with plane.uow() as uow:
        return list((await command_log.list_commands(uow, CommandFilter(target=f"cluster:{CLUSTER}"))).items)


async def test_change_is_logged_though_brokers_do_not_answer_afterwards(registered: ControlPlane) -> None:
    done = await fence(registered, answers=True)
    assert (done.producer_epoch, done.state) == (5, None)
    ended = await end(registered, answers=True)
    assert ended.after.verdict is AdviceVerdict.CANNOT_TELL
    assert "is written into orders-0" in ended.after.headline
    assert [row.who for row in await rows(registered)] == ["olivia", "olivia"]


async def test_change_with_unknown_outcome_is_in_the_command_log(registered: ControlPlane) -> None:
    with pytest.raises(ActOutcomeUnknownError):
        await fence(registered, answers=False)
    with pytest.raises(ActOutcomeUnknownError):
        await end(registered, answers=False)
    assert [row.outcome for row in await rows(registered)] == [
        "asked for an end of the transaction of producer 7 in orders-0 by force",
        "asked the brokers to fence tx by force",
    ]
