"""Fencing events by the registered names of clusters."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.record import FencingFilter, GroupLosses
from app.core.fencing.service import feed as fencing_feed
from app.core.runs.store.retention import RetentionStore
from app.kit.errors import NotFoundError
from tests.core.fencing.coordinator import ID
from tests.support.control_plane import ControlPlane
from tests.support.fencing import clean_restart, lost_membership, put_down, refusal, takeover, timeout


async def test_cluster_with_two_names_keeps_the_requested_one(plane: ControlPlane) -> None:
    for name in ("b", "a"):
        await plane.cluster(name, kafka_cluster_id="kafka-1")
    await put_down(plane.uow, takeover("kafka-1", at=plane.now), now=plane.now)
    async with plane.uow() as uow:
        names = [
            (await fencing_feed.list_lines(uow, FencingFilter(), cluster=asked)).items[0].cluster
            for asked in (None, "a", "b")
        ]
    assert names == ["a", "a", "b"]


async def test_counts_match_the_filter_most_frequent_first(plane: ControlPlane) -> None:
    await plane.cluster("a", kafka_cluster_id="kafka-1")
    at = plane.now - timedelta(hours=2)
    cases = [
        *takeover("kafka-1", at=at),
        *timeout("kafka-2", at=at),
        *timeout("kafka-3", at=at),
        *clean_restart("kafka-4", at=at),
    ]
    await put_down(plane.uow, cases, now=plane.now)
    async with plane.uow() as uow:
        everything = await fencing_feed.count_by_cause(uow, FencingFilter(), cluster=None)
        of_a = await fencing_feed.count_by_cause(uow, FencingFilter(), cluster="a")
        lately = await fencing_feed.count_by_cause(uow, FencingFilter(since=plane.now), cluster=None)
        with pytest.raises(NotFoundError):
            await fencing_feed.count_by_cause(uow, FencingFilter(), cluster="nobody")
    assert list(everything.items()) == [(FencingCause.TIMEOUT, 2), (FencingCause.TAKEOVER, 1)]
    assert of_a == {FencingCause.TAKEOVER: 1}
    assert lately == {}


async def test_counter_only_grows_though_events_are_corrected_and_removed(plane: ControlPlane) -> None:
    await plane.cluster("a", kafka_cluster_id="kafka-1")
    await put_down(plane.uow, clean_restart("kafka-1", at=plane.now), now=plane.now)
    await put_down(plane.uow, [refusal("kafka-1", at=plane.now)], now=plane.now)
    plane.pass_time(timedelta(days=31).total_seconds())
    async with plane.uow() as uow:
        assert (await uow.of(RetentionStore).expire(now=plane.now))["fencing_events"] == 1
        told = (await fencing_feed.told_by_cluster(uow))["a"]
        await uow.commit()
    assert set(told) == set(FencingCause)
    assert {cause: number for cause, number in told.items() if number} == {
        FencingCause.CLEAN_RESTART: 1,
        FencingCause.ZOMBIE_REFUSED: 1,
    }


async def test_confirmed_event_is_not_counted_again(plane: ControlPlane) -> None:
    await plane.cluster("a", kafka_cluster_id="kafka-1")
    for is_in_use in (False, True):
        await put_down(plane.uow, takeover("kafka-1", at=plane.now, is_in_use=is_in_use), now=plane.now)
    async with plane.uow() as uow:
        (line,) = (await fencing_feed.list_lines(uow, FencingFilter(), cluster=None)).items
        assert FencingCause.OPERATOR_FENCE not in line.record.event.verdict.alternatives
        assert (await fencing_feed.told_by_cluster(uow))["a"][FencingCause.TAKEOVER] == 1


async def test_losses_of_a_group_include_its_members_and_its_ids(
    plane: ControlPlane,
) -> None:
    await plane.cluster("a", kafka_cluster_id="kafka-1")
    cases = [
        *timeout("kafka-1", at=plane.now),
        *timeout("kafka-2", at=plane.now),
        lost_membership("kafka-1", group="g", at=plane.now, transactional_id="of a member"),
        lost_membership("kafka-1", group="h", at=plane.now, transactional_id="of a stranger"),
        lost_membership("kafka-2", group="g", at=plane.now, transactional_id="elsewhere"),
    ]
    await put_down(plane.uow, cases, now=plane.now)

    async def lost(*transactional_ids: str) -> set[str]:
        wanted = FencingFilter(of_group=GroupLosses(group_id="g", transactional_ids=transactional_ids))
        async with plane.uow() as uow:
            page = await fencing_feed.list_lines(uow, wanted, cluster="a")
        return {line.record.event.key.transactional_id for line in page.items}

    assert await lost() == {"of a member"}
    assert await lost(ID, "of nobody") == {"of a member", ID}


async def test_losses_of_a_group_are_queried_once_a_second_or_for_new_ids(plane: ControlPlane) -> None:
    await plane.cluster("a", kafka_cluster_id="kafka-1")
    of_group = fencing_feed.GroupFencings(cluster="a", group="g")

    async def shown(*transactional_ids: str) -> int:
        async with plane.uow() as uow:
            return len(await of_group.newest(uow, transactional_ids=transactional_ids, now=plane.now))

    assert await shown() == 0
    await put_down(plane.uow, timeout("kafka-1", at=plane.now), now=plane.now)
    await put_down(plane.uow, [lost_membership("kafka-1", group="g", at=plane.now)], now=plane.now)
    assert await shown() == 0
    assert await shown(ID) == 2
    assert await shown() == 1
    await put_down(
        plane.uow, [lost_membership("kafka-1", group="g", at=plane.now, transactional_id="x")], now=plane.now
    )
    plane.pass_time(1.0)
    assert await shown() == 2
