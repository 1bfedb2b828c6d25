"""Who holds which partition: newest word wins, history never overlaps, an end leaves nothing behind."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from msgspec.structs import replace

from app.domain.runs.instance import InstanceState
from app.domain.transactions.mapping import PartitionMapping, PartitionOwnership
from app.services import mappings
from tests.support.control_plane import ControlPlane, task_heartbeat


async def now_held(plane: ControlPlane) -> dict[int, tuple[int, int] | None]:
    """By partition: (ordinal, task) of its owner."""
    return {m.partition: None if m.owner is None else (m.owner.ordinal, m.owner.task) for m in await listed(plane)}


async def listed(plane: ControlPlane) -> list[PartitionMapping]:
    async with plane.uow() as uow:
        return await mappings.list_mappings(uow, "flights")


async def history(plane: ControlPlane) -> list[PartitionOwnership]:
    async with plane.uow() as uow:
        return await mappings.list_owner_history(uow, "flights")


async def test_assigned_partitions_get_their_owner_id_and_offsets(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0), ("in", 1)], generation=3))
    first, second = await listed(plane)
    assert (first.topic, first.partition, second.partition) == ("in", 0, 1)
    assert (first.transactional_id, first.generation, first.since) == ("fl.t.flights.0.0", 3, plane.now)
    assert first.owner is not None
    assert (first.owner.run_id, first.owner.lease, first.owner.attempt, first.owner.host) == (run.id, 1, 0, "w1")
    assert (first.position, first.committed, first.end, first.lag_records) == (8, 5, 12, 7)


async def test_the_producer_is_shown_as_soon_as_it_is_known(plane: ControlPlane) -> None:
    run = await plane.running()
    first = task_heartbeat(run.id, partitions=[("in", 0)])
    await plane.beat(first)
    assert [(m.producer_id, m.epoch) for m in await listed(plane)] == [(None, None)]
    await plane.beat(replace(first, sequence=2, producer_id=4012, producer_epoch=6))
    assert [(m.producer_id, m.epoch) for m in await listed(plane)] == [(4012, 6)]
    assert len(await history(plane)) == 1


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


async def test_the_taker_may_be_heard_before_the_loser(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.beat(task_heartbeat(run.id, task=0, partitions=[("in", 0)], generation=1))
    plane.pass_time(1)
    await plane.beat(task_heartbeat(run.id, task=1, partitions=[("in", 0)], generation=2))
    assert await now_held(plane) == {0: (0, 1)}
    # What the loser says late, with its old generation, takes nothing back; neither does its letting go.
    await plane.beat(task_heartbeat(run.id, task=0, sequence=10, partitions=[("in", 0)], generation=1))
    await plane.beat(task_heartbeat(run.id, task=0, sequence=11, partitions=[], generation=2))
    assert await now_held(plane) == {0: (0, 1)}


async def test_a_zombie_attempt_takes_no_partition(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, attempt=1, partitions=[("in", 0)], generation=2))
    await plane.beat(task_heartbeat(run.id, attempt=0, partitions=[("in", 0), ("in", 1)], generation=9))
    (mapping,) = await listed(plane)
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


async def test_a_stretch_without_length_is_none(plane: ControlPlane) -> None:
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


async def test_the_next_run_takes_over_even_when_the_groups_generations_begin_anew(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, partitions=[("in", 0)], generation=40))
    await plane.move(run.id, 0, InstanceState.FAILED)
    await plane.lease(run.id)
    await plane.submit(run.id, 0, 2)
    await plane.claim(run.id, 0, 2)
    await plane.beat(task_heartbeat(run.id, lease=2, partitions=[("in", 0)], generation=1))
    (mapping,) = await listed(plane)
    assert mapping.owner is not None
    assert (mapping.owner.lease, mapping.generation) == (2, 1)


def no_overlap(stretches: list[PartitionOwnership]) -> bool:
    by_partition: dict[int, list[PartitionOwnership]] = {}
    for stretch in sorted(stretches, key=lambda s: s.since):
        by_partition.setdefault(stretch.partition, []).append(stretch)
    return all(
        before.until is not None and before.until <= after.since
        for row in by_partition.values()
        for before, after in pairwise(row)
    )
