"""The member of a dead task is removed from its pipeline's group, after the end of its transaction."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from app.core.blocked.facts import Refused
from app.core.runs.instance import InstanceState
from app.core.runs.observation import MasterWord, Observation, ProcessWord
from app.core.runs.task import TaskState
from app.edges.db.database import Database
from app.kit.access import Verb
from app.kit.errors import ActOutcomeUnknownError, UnavailableError
from tests.core.blocked.dead_leases import ID, OPEN, Scene
from tests.support.control_plane import CLUSTER, ControlPlane

GROUP, MEMBER = "flights-group", "member-1"
NO_PRODUCER: dict[str, Any] = {"transactional_id": None, "producer_id": None, "producer_epoch": None}


@pytest.fixture
def scene(database: Database) -> Scene:
    made = Scene(ControlPlane(database))
    made.brokers.members.add((GROUP, MEMBER))
    return made


async def test_member_is_removed_once_after_the_end_of_its_transaction(scene: Scene) -> None:
    run_id = await scene.die(member_id=MEMBER)
    loop = scene.loop()
    for _ in range(3):
        await loop.turn()
        scene.plane.pass_time(60)
    assert scene.brokers.acts == [f"end {ID}", f"remove {MEMBER} of {GROUP}"]
    commands = await scene.commands()
    assert sorted(one.verb for one in commands) == [Verb.END_DEAD_TRANSACTION, Verb.EVICT_DEAD_MEMBER]
    (command,) = [one for one in commands if one.verb is Verb.EVICT_DEAD_MEMBER]
    assert command.who == "reconciler"
    assert "the cluster manager reports" in (command.why or "")
    details = {"group": GROUP, "member_id": MEMBER, "pipeline": "flights", "run": run_id}
    assert command.details == {**details, "ordinal": 0, "lease": 1, "task": 0, "attempt": 0}
    assert loop.member_counts() == {(CLUSTER, "removed"): 1}


async def test_member_of_a_task_that_left_nothing_open_is_removed(scene: Scene) -> None:
    await scene.die(member_id=MEMBER)
    scene.brokers.known = replace(OPEN, state="CompleteCommit")
    await scene.loop().turn()
    assert scene.brokers.acts == [f"remove {MEMBER} of {GROUP}"]


async def test_member_of_a_task_without_a_producer_of_its_own_is_removed(scene: Scene) -> None:
    """With at_least_once, and with a producer for each partition."""
    await scene.die(member_id=MEMBER, **NO_PRODUCER)
    loop = scene.loop()
    await loop.turn()
    assert scene.brokers.acts == [f"remove {MEMBER} of {GROUP}"]
    assert (loop.counts(), loop.member_counts()) == ({}, {(CLUSTER, "removed"): 1})


async def test_nothing_is_written_for_a_member_that_has_left(scene: Scene) -> None:
    await scene.die(member_id="member-0", **NO_PRODUCER)
    loop = scene.loop()
    await loop.turn()
    assert (scene.brokers.acts, await scene.commands()) == ([], [])
    assert loop.member_counts() == {(CLUSTER, "not_a_member"): 1}


@pytest.mark.parametrize("state", [TaskState.DRAINED, TaskState.SUPERSEDED])
async def test_task_that_ended_by_itself_left_no_member(scene: Scene, state: TaskState) -> None:
    await scene.die(member_id=MEMBER, state=state)
    loop = scene.loop()
    await loop.turn()
    assert (scene.brokers.acts, loop.member_counts()) == ([], {})


async def test_refused_end_of_the_transaction_keeps_no_member_in_the_group(scene: Scene) -> None:
    await scene.die(member_id=MEMBER)
    scene.brokers.known = Refused("DescribeTransactions", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", f"DESCRIBE on {ID}")
    loop = scene.loop()
    await loop.turn()
    assert scene.brokers.acts == [f"remove {MEMBER} of {GROUP}"]
    assert loop.counts() == {(CLUSTER, "refused"): 1}


@pytest.mark.parametrize(
    ("error", "result"),
    [(UnavailableError("it needs READ"), "refused"), (ActOutcomeUnknownError("not confirmed"), "unanswered")],
)
async def test_removal_without_success_is_logged_and_repeated(
    scene: Scene, error: Exception, result: str, caplog: pytest.LogCaptureFixture
) -> None:
    await scene.die(member_id=MEMBER, **NO_PRODUCER)
    scene.brokers.removals = [error]
    loop = scene.loop()
    await loop.turn()
    assert str(error) in caplog.text
    scene.plane.pass_time(5)
    await loop.turn()
    assert loop.member_counts() == {(CLUSTER, result): 1, (CLUSTER, "removed"): 1}


async def test_another_server_finds_the_member_removed_and_writes_nothing(scene: Scene) -> None:
    await scene.die(member_id=MEMBER, **NO_PRODUCER)
    await scene.loop().turn()
    await scene.loop().turn()
    assert len(await scene.commands()) == 1
    assert len(scene.brokers.acts) == 1


async def test_member_of_the_newest_attempt_is_removed_beside_the_transaction_of_the_one_before(scene: Scene) -> None:
    run = await scene.plane.running()
    await scene.beat(run.id, member_id="member-0")
    await scene.beat(run.id, attempt=1, member_id=MEMBER, producer_id=None, producer_epoch=None)
    await scene.plane.move(run.id, 0, InstanceState.FAILED)
    scene.plane.pass_time(3)
    await scene.loop().turn()
    assert scene.brokers.acts == [f"end {ID}", f"remove {MEMBER} of {GROUP}"]


async def test_end_of_its_own_process_is_acted_on_at_once_in_a_live_lease(scene: Scene) -> None:
    run = await scene.plane.running()
    await scene.beat(run.id, member_id=MEMBER)
    loop = scene.loop()
    await loop.turn()
    assert [(one.pid, one.attempt, one.lease) for one in scene.spark.reported] == [(4711, 0, 1)]
    assert scene.brokers.acts == []
    scene.spark.has_ended = True
    await loop.turn()
    assert scene.brokers.acts == [f"end {ID}", f"remove {MEMBER} of {GROUP}"]
    assert {one.why for one in await scene.commands()} == {"its own process on this host has ended"}
    for _ in range(3):
        scene.plane.pass_time(60)
        await loop.turn()
    assert len(scene.brokers.acts) == 2


async def test_end_of_its_own_process_counts_after_the_end_of_the_lease(scene: Scene) -> None:
    """The reconciler may end the lease first; then the cluster manager's answer is not waited for."""
    run = await scene.plane.running()
    await scene.beat(run.id, member_id=MEMBER)
    scene.spark.seen = Observation(process=ProcessWord.GONE, master=MasterWord.UNREACHABLE)
    loop = scene.loop()
    await loop.turn()
    await scene.plane.move(run.id, 0, InstanceState.FAILED, reason="killed")
    scene.spark.has_ended = True
    await loop.turn()
    assert scene.brokers.acts == [f"end {ID}", f"remove {MEMBER} of {GROUP}"]


async def test_only_processes_of_live_leases_of_this_host_are_watched(scene: Scene) -> None:
    run = await scene.plane.running()
    await scene.beat(run.id, host="w2")
    loop = scene.loop()
    await loop.turn()
    assert scene.spark.reported == [], "its task runs on another host"
    await scene.beat(run.id, attempt=1)
    await loop.turn()
    assert [one.attempt for one in scene.spark.reported] == [1]
    await scene.plane.move(run.id, 0, InstanceState.FAILED, reason="killed")
    await loop.turn()
    assert scene.spark.reported == [], "its lease has ended"
