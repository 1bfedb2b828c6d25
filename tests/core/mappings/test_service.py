"""Owners of partitions: the newest report wins, intervals never overlap, an end leaves nothing behind."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from app.core.mappings import service as mappings
from app.core.mappings.mapping import (
    OwnershipFilter,
    PartitionOwnership,
)
from app.core.mappings.store.mappings import MappingStore
from app.core.runs.instance import InstanceState
from app.core.runs.service.heartbeats import report_of
from app.core.runs.service.ownership import RETAKE_EVERY
from app.kit.errors import InvalidError
from tests.support.control_plane import ControlPlane, task_heartbeat


async def now_held(plane: ControlPlane) -> dict[int, tuple[int, int] | None]:
    """By partition: (ordinal, task) of its owner."""
    return {m.partition: None if m.owner is None else (m.owner.ordinal, m.owner.task) for m in await plane.mappings()}


async def history(plane: ControlPlane, **wanted: Any) -> list[PartitionOwnership]:
    async with plane.uow() as uow:
        return list((await mappings.list_owner_history(uow, "flights", OwnershipFilter(**wanted))).items)


async def test_assigned_partitions_get_their_owner_id_and_offsets(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0), ("in", 1)], generation=3))
    first, second = await plane.mappings()
    assert (first.topic, first.partition, second.partition) == ("in", 0, 1)
    assert (first.transactional_id, first.generation, first.since) == ("fl.t.flights.0.0", 3, plane.now)
    assert first.owner is not None
    assert (first.owner.run_id, first.owner.lease, first.owner.attempt, first.owner.host) == (run.id, 1, 0, "w1")
    assert (first.position, first.committed, first.end, first.lag_records) == (8, 5, 12, 7)


async def test_the_producer_is_shown_as_soon_as_it_is_known(plane: ControlPlane) -> None:
    run = await plane.running()
    first = task_heartbeat(run.id, partitions=[("in", 0)])
    await plane.beat(first)
    assert [(m.producer_id, m.epoch) for m in await plane.mappings()] == [(None, None)]
    await plane.beat(replace(first, sequence=2, producer_id=4012, producer_epoch=6))
    assert [(m.producer_id, m.epoch) for m in await plane.mappings()] == [(4012, 6)]
    (stretch,) = await history(plane)
    assert (stretch.producer_id, stretch.epoch, stretch.until) == (4012, 6, None)


async def test_a_partition_that_moves_has_one_owner_after_the_other(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0), ("in", 1)], generation=1))
    began = plane.now
    moved = plane.pass_time(10)
    await plane.beat(task_heartbeat(run.id, task=0, sequence=2, partitions=[("in", 0)], generation=2))
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 1)], generation=2))
    assert await now_held(plane) == {0: (0, 0), 1: (0, 1)}
    of_one = [stretch for stretch in await history(plane) if stretch.partition == 1]
    assert [(s.owner.task, s.since, s.until) for s in of_one] == [(1, moved, None), (0, began, moved)]


async def test_new_owner_may_report_before_the_old_one(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0)], generation=1))
    plane.pass_time(1)
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 0)], generation=2))
    assert await now_held(plane) == {0: (0, 1)}
    # A late report of the old owner, with its old generation, takes nothing back; neither does its release.
    await plane.beat(task_heartbeat(run.id, task=0, sequence=10, partitions=[("in", 0)], generation=1))
    await plane.beat(task_heartbeat(run.id, task=0, sequence=11, partitions=[], generation=2))
    assert await now_held(plane) == {0: (0, 1)}


async def test_a_zombie_attempt_takes_no_partition(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, attempt=1, partitions=[("in", 0)], generation=2))
    await plane.beat(task_heartbeat(run.id, attempt=0, partitions=[("in", 0), ("in", 1)], generation=9))
    (mapping,) = await plane.mappings()
    assert mapping.owner is not None
    assert mapping.owner.attempt == 1


async def test_a_new_attempt_takes_over_what_its_predecessor_held(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, attempt=0, partitions=[("in", 0), ("in", 1)], generation=1))
    plane.pass_time(6)
    await plane.beat(task_heartbeat(run.id, attempt=1, partitions=[("in", 0)], generation=2))
    assert await now_held(plane) == {0: (0, 0), 1: None}
    stretches = await history(plane)
    assert [(s.partition, s.owner.attempt) for s in stretches if s.until is None] == [(0, 1)]


async def test_an_instance_that_ends_holds_nothing_any_more(plane: ControlPlane) -> None:
    run = await plane.running(instances=2)
    await plane.beat(task_heartbeat(run.id, ordinal=0, partitions=[("in", 0)]))
    await plane.beat(task_heartbeat(run.id, ordinal=1, partitions=[("in", 1)]))
    ended = plane.pass_time(3)
    await plane.move(run.id, 0, InstanceState.FAILED)
    assert await now_held(plane) == {0: None, 1: (1, 0)}
    (closed,) = [stretch for stretch in await history(plane) if stretch.partition == 0]
    assert closed.until == ended


async def test_interval_has_its_owners_last_heartbeat_even_if_its_end_is_noticed_late(plane: ControlPlane) -> None:
    run = await plane.running(instances=2)
    first = task_heartbeat(run.id, ordinal=0, partitions=[("in", 0), ("in", 1)], generation=1)
    await plane.beat(first)
    heard = plane.pass_time(2)
    await plane.beat(replace(first, sequence=2))
    assert {s.heard_until for s in await history(plane)} == {heard}
    taken = plane.pass_time(600)  # without a server
    await plane.beat(task_heartbeat(run.id, ordinal=1, partitions=[("in", 0)], generation=2))
    given_up = plane.pass_time(30)
    await plane.move(run.id, 0, InstanceState.FAILED)
    closed = {s.partition: (s.heard_until, s.until) for s in await history(plane) if s.until is not None}
    assert closed == {0: (heard, taken), 1: (heard, given_up)}
    assert all(s.unheard_since(plane.now) == heard for s in await history(plane) if s.owner.ordinal == 0)


async def test_loss_without_a_server_is_confirmed_up_to_the_last_heartbeat(
    plane: ControlPlane,
) -> None:
    run = await plane.running()
    first = task_heartbeat(run.id, partitions=[("in", 0), ("in", 1)], generation=1)
    await plane.beat(first)
    heard = plane.pass_time(1)
    await plane.beat(replace(first, sequence=2))
    again = plane.pass_time(600)  # without a server
    await plane.beat(task_heartbeat(run.id, sequence=3, partitions=[("in", 0)], generation=2))
    stretches = {(s.partition, s.generation): (s.heard_until, s.until) for s in await history(plane)}
    assert stretches == {(0, 1): (heard, again), (1, 1): (heard, again), (0, 2): (again, None)}


async def test_owner_with_a_heartbeat_every_second_is_confirmed_to_the_end(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0)], generation=1))
    plane.pass_time(1)
    await plane.beat(task_heartbeat(run.id, sequence=2, partitions=[], generation=1))
    (stretch,) = await history(plane)
    assert stretch.unheard_since(plane.now) is None


async def test_interval_without_length_is_not_stored(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0)], generation=1))
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 0)], generation=2))
    (stretch,) = await history(plane)
    assert (stretch.owner.task, stretch.until) == (1, None)


async def test_a_server_whose_clock_lags_makes_no_overlap(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0)], generation=1))
    plane.pass_time(5)
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 0)], generation=2))
    plane.pass_time(-3)
    await plane.beat(task_heartbeat(run.id, task=0, sequence=2, partitions=[("in", 0)], generation=3))
    assert await now_held(plane) == {0: (0, 0)}
    assert no_overlap(await history(plane))


async def test_tasks_that_swap_partitions_at_once_do_not_block_each_other(plane: ControlPlane) -> None:
    tasks, partitions = 4, 8
    run = await plane.running(tasks_per_instance=tasks)
    for generation in range(1, 5):
        plane.pass_time(1)
        await asyncio.gather(
            *(
                plane.beat(
                    task_heartbeat(
                        run.id,
                        task=task,
                        sequence=generation,
                        generation=generation,
                        partitions=[("in", p) for p in range(partitions) if (p + generation) % tasks == task],
                    )
                )
                for task in range(tasks)
            )
        )
    assert await now_held(plane) == {p: (0, (p + 4) % tasks) for p in range(partitions)}
    assert no_overlap(await history(plane))


async def test_refused_partition_is_taken_by_the_tenth_heartbeat_without_a_newer_owner(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 0)], generation=2))
    refused = task_heartbeat(run.id, task=0, partitions=[("in", 0)], generation=1)
    await plane.beat(refused)
    await plane.beat(task_heartbeat(run.id, task=1, sequence=2, partitions=[], generation=2))
    for sequence in range(2, RETAKE_EVERY):
        await plane.beat(replace(refused, sequence=sequence))
    assert await now_held(plane) == {0: None}
    await plane.beat(replace(refused, sequence=RETAKE_EVERY))
    assert await now_held(plane) == {0: (0, 0)}


async def test_owner_of_all_its_partitions_waits_for_no_other_task(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    first = task_heartbeat(run.id, task=0, partitions=[("in", 0)], generation=1)
    await plane.beat(first)
    async with plane.uow() as other:
        await other.of(MappingStore).release(owner_of=report_of(task_heartbeat(run.id, task=1)), keep=[], now=plane.now)
        await asyncio.wait_for(plane.beat(replace(first, sequence=RETAKE_EVERY)), timeout=3)


async def test_next_run_takes_over_even_if_the_groups_generations_start_again(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0)], generation=40))
    await plane.move(run.id, 0, InstanceState.FAILED)
    await plane.lease(run.id)
    await plane.submit(run.id, 0, 2)
    await plane.claim(run.id, 0, 2)
    await plane.beat(task_heartbeat(run.id, lease=2, partitions=[("in", 0)], generation=1))
    (mapping,) = await plane.mappings()
    assert mapping.owner is not None
    assert (mapping.owner.lease, mapping.generation) == (2, 1)


async def test_each_producer_epoch_and_generation_of_an_owner_has_its_own_interval(plane: ControlPlane) -> None:
    run = await plane.running()
    beat = task_heartbeat(run.id, partitions=[("in", 0)], generation=1)
    for sequence, (producer_id, epoch, generation) in enumerate(
        [(7, 0, 1), (7, 0, 1), (7, 1, 1), (7, 1, 2), (9, 0, 2)]
    ):
        await plane.beat(
            replace(beat, sequence=sequence + 1, producer_id=producer_id, producer_epoch=epoch, generation=generation)
        )
        plane.pass_time(10)
    stretches = await history(plane)
    assert [(s.producer_id, s.epoch, s.generation) for s in stretches] == [(9, 0, 2), (7, 1, 2), (7, 1, 1), (7, 0, 1)]
    assert [s.until - s.since for s in stretches if s.until] == [timedelta(seconds=s) for s in (10, 10, 20)]
    (mapping,) = await plane.mappings()
    assert mapping.since == stretches[-1].since, "the owner is the same all the time"


async def test_value_that_is_not_reported_for_a_while_begins_no_interval(plane: ControlPlane) -> None:
    run = await plane.running()
    beat = task_heartbeat(run.id, partitions=[("in", 0)], generation=1)
    for sequence, told in enumerate([(7, 3), (None, None), (7, 3)]):
        await plane.beat(replace(beat, sequence=sequence + 1, producer_id=told[0], producer_epoch=told[1]))
        plane.pass_time(1)
    (stretch,) = await history(plane)
    assert (stretch.producer_id, stretch.epoch) == (7, 3)


async def test_owner_at_a_time_is_that_of_the_interval(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    before = plane.now - timedelta(seconds=1)
    began = plane.now
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0), ("in", 1)], generation=1))
    moved = plane.pass_time(60)
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 1)], generation=2))

    async def owners(at: Any, **more: Any) -> list[tuple[int, int]]:
        return sorted((one.partition, one.owner.task) for one in await history(plane, at=at, **more))

    assert await owners(before) == []
    assert await owners(began) == [(0, 0), (1, 0)]
    assert await owners(moved - timedelta(microseconds=1)) == [(0, 0), (1, 0)]
    assert await owners(moved) == [(0, 0), (1, 1)], "an interval begins where the last one ends"
    assert await owners(moved, partition=1) == [(1, 1)]
    touching = await history(plane, partition=1, since=moved, until=moved + timedelta(seconds=1))
    assert [one.owner.task for one in touching] == [1]


async def test_history_is_paged_and_asked_for_by_cluster(plane: ControlPlane) -> None:
    run = await plane.running()
    for generation in range(1, 6):
        await plane.beat(task_heartbeat(run.id, sequence=generation, partitions=[("in", 0)], generation=generation))
        plane.pass_time(1)
    seen: list[int | None] = []
    after: str | None = None
    async with plane.uow() as uow:
        while True:
            page = await mappings.list_owner_history_of_cluster(
                uow, "test", OwnershipFilter(group="flights-group"), after=after, limit=2
            )
            seen += [one.generation for one in page.items]
            assert {one.pipeline for one in page.items} == {"flights"}
            after = page.next_cursor
            if after is None:
                break
        assert seen == [5, 4, 3, 2, 1]
        other = await mappings.list_owner_history_of_cluster(uow, "test", OwnershipFilter(group="other"))
        assert other.items == ()
        with pytest.raises(InvalidError, match="cursor"):
            await mappings.list_owner_history_of_cluster(uow, "test", OwnershipFilter(), after="WyJ4IiwieSJd")


def no_overlap(stretches: list[PartitionOwnership]) -> bool:
    by_partition: dict[int, list[PartitionOwnership]] = {}
    for stretch in sorted(stretches, key=lambda s: s.since):
        by_partition.setdefault(stretch.partition, []).append(stretch)
    return all(
        before.until is not None and before.until <= after.since
        for row in by_partition.values()
        for before, after in pairwise(row)
    )
