"""Search: every kind by a part of its name, the best first, runs and fencing events by their id."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import MappingProxyType

from app.core.clusters.cluster import Cluster
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, LiveGroup
from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.core.observing.snapshot import JournalStatus, ReadingPhase, Snapshot
from app.core.overview.search import MOST_OF_A_KIND, FoundKind, SearchResult, search
from app.kit.errors import UnavailableError
from tests.support.control_plane import ControlPlane
from tests.support.observing import live_transaction

JOURNAL = JournalStatus(topic="t", phase=ReadingPhase.LIVE, phase_since_ms=0)


def snapshot(*, ids: tuple[str, ...] = (), groups: tuple[str, ...] = ()) -> Snapshot:
    parts = (TopicPartitions("orders-paid", (0,)), TopicPartitions("__consumer_offsets", (1,)))
    state = TransactionState(1, 0, 60_000, TransactionStatus.ONGOING, parts, start_ms=1)
    stored = CommittedOffset(OffsetCommit(3), 1, -1, -1)
    return Snapshot(
        cluster="test",
        number=1,
        at_ms=1,
        transaction_journal=JOURNAL,
        group_journal=JOURNAL,
        transactions=MappingProxyType({one: live_transaction(one, state) for one in ids}),
        groups={one: LiveGroup(one, offsets={("orders-new", 0): stored}) for one in groups},
    )


async def found(plane: ControlPlane, text: str, *snapshots: Snapshot) -> SearchResult:
    async with plane.uow() as uow:
        return await search(uow, snapshots, text)


async def test_every_kind_is_found_by_a_part_of_its_name_in_any_case(plane: ControlPlane) -> None:
    await plane.pipeline("orders", source_topics=("orders-in",), sink_topic="Orders-out")
    seen = snapshot(ids=("shop-orders-7", "other"), groups=("ORDERS-billing",))
    result = await found(plane, " orders ", seen)
    assert [(one.kind, one.name) for one in result.items] == [
        (FoundKind.PIPELINE, "orders"),
        (FoundKind.TOPIC, "Orders-out"),
        (FoundKind.TOPIC, "orders-in"),
        (FoundKind.TOPIC, "orders-new"),
        (FoundKind.TOPIC, "orders-paid"),
        (FoundKind.GROUP, "ORDERS-billing"),
        (FoundKind.TRANSACTIONAL_ID, "shop-orders-7"),
    ]
    assert {one.cluster for one in result.items if one.kind is not FoundKind.PIPELINE} == {"test"}
    assert [one.name for one in (await found(plane, "test", seen)).items] == ["test"]
    assert (await found(plane, "__consumer", seen)).items == ()


async def test_topics_that_nothing_names_are_found_and_a_silent_cluster_is_named(plane: ControlPlane) -> None:
    async def listed(cluster: Cluster) -> Sequence[str]:
        return ("payments", "refunds") if cluster.name == "test" else ()

    async def refused(cluster: Cluster) -> Sequence[str]:
        raise UnavailableError(f"{cluster.name} is away")

    async def silent(_: Cluster) -> Sequence[str]:
        await asyncio.Event().wait()
        return ()

    await plane.cluster()
    async with plane.uow() as uow:
        answered = await search(uow, [], "PAY", names_of=listed)
        unanswered = [await search(uow, [], "pay", names_of=one) for one in (refused, silent)]
    assert [(one.kind, one.name, one.cluster) for one in answered.items] == [(FoundKind.TOPIC, "payments", "test")]
    assert answered.unlisted == ()
    assert [(one.items, one.unlisted) for one in unanswered] == [((), ("test",))] * 2


async def test_exact_names_come_first_then_those_that_begin_so_and_the_rest_is_counted(plane: ControlPlane) -> None:
    ids = ("b-a", "a", *(f"a{number:02}" for number in range(10)))
    result = await found(plane, "a", snapshot(ids=ids))
    names = [one.name for one in result.items if one.kind is FoundKind.TRANSACTIONAL_ID]
    assert names == ["a", *(f"a{number:02}" for number in range(MOST_OF_A_KIND - 1))]
    assert result.left_out == len(ids) - MOST_OF_A_KIND


async def test_run_is_found_by_its_id(plane: ControlPlane) -> None:
    await plane.pipeline()
    run = await plane.run()
    (one,) = (await found(plane, run.id)).items
    assert (one.kind, one.name, one.pipeline) == (FoundKind.RUN, run.id, "flights")
    assert (await found(plane, "0195f3a2-b7c8-4d1e-9a6b-3c5d7e8f9012")).items == ()


async def test_nothing_is_asked_for_nothing(plane: ControlPlane) -> None:
    await plane.pipeline()
    assert await found(plane, "  ") == SearchResult()
