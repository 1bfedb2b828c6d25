"""Transactions of ended leases are ended once, on a real database; the test sets the answers of brokers and Spark."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.dialects import postgresql

from app.core.blocked.brokers import FencedProducer, NotEnded
from app.core.blocked.facts import Refused
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.pipelines.store import PipelineStore
from app.core.runs.instance import InstanceState
from app.core.runs.observation import MasterWord, Observation, ProcessWord
from app.core.runs.tables.tasks import task_attempts
from app.edges.db.database import Database
from app.kit.access import Verb
from app.kit.errors import ActOutcomeUnknownError, UnavailableError
from tests.core.blocked.dead_leases import GONE, ID, OPEN, Scene
from tests.support.control_plane import CLUSTER, ControlPlane


@pytest.fixture
def scene(database: Database) -> Scene:
    return Scene(ControlPlane(database))


async def test_transaction_of_a_dead_task_is_ended_once_and_reported(scene: Scene) -> None:
    run_id = await scene.die()
    loop = scene.loop()
    for _ in range(3):
        await loop.turn()
        scene.plane.pass_time(60)
    assert scene.brokers.ended == [(ID, 7, 4)]
    assert scene.brokers.asked == [ID]
    (command,) = await scene.commands()
    assert (command.who, command.verb) == ("reconciler", Verb.END_DEAD_TRANSACTION)
    assert command.details["run"] == run_id
    (record,) = await scene.events()
    verdict = record.event.verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.DEAD_TASK, Confidence.CERTAIN)
    assert "the cluster manager reports" in verdict.sentence
    assert record.place.pipeline == "flights"
    assert loop.counts() == {(CLUSTER, "ended"): 1}


@pytest.mark.parametrize(
    "seen",
    [
        Observation(process=ProcessWord.ALIVE, master=MasterWord.NOT_ASKED),
        Observation(process=ProcessWord.UNKNOWN, master=MasterWord.UNREACHABLE),
        Observation(process=ProcessWord.GONE, master=MasterWord.UNREACHABLE),
        Observation(process=ProcessWord.GONE, master=MasterWord.UNKNOWN),
    ],
    ids=["lives", "elsewhere", "master silent", "master began anew"],
)
async def test_task_that_may_be_alive_is_left_alone_until_its_end_is_reported(scene: Scene, seen: Observation) -> None:
    await scene.die()
    scene.spark.seen = seen
    loop = scene.loop()
    await loop.turn()
    assert (scene.brokers.asked, await scene.commands()) == ([], [])
    scene.spark.seen = GONE
    await loop.turn()
    assert scene.brokers.asked == [], "it is not checked in every turn"
    scene.plane.pass_time(1)
    await loop.turn()
    assert scene.brokers.ended == [(ID, 7, 4)]


async def test_live_instance_is_never_checked(scene: Scene) -> None:
    run = await scene.plane.running()
    await scene.beat(run.id)
    await scene.plane.move(run.id, 0, InstanceState.UNREACHABLE, reason="no heartbeat arrives")
    scene.plane.pass_time(3)
    await scene.loop().turn()
    assert scene.brokers.asked == []


async def test_id_that_has_moved_on_is_left_alone(scene: Scene) -> None:
    await scene.die()
    scene.brokers.known = replace(OPEN, producer_epoch=6)
    loop = scene.loop()
    await loop.turn()
    assert (scene.brokers.ended, await scene.commands()) == ([], [])
    assert loop.counts() == {(CLUSTER, "moved_on"): 1}


async def test_id_that_moves_on_between_check_and_end_is_no_event(scene: Scene) -> None:
    await scene.die()
    scene.brokers.answers = [NotEnded.MOVED_ON]
    loop = scene.loop()
    await loop.turn()
    assert len(await scene.commands()) == 1, "the request is in the command log"
    assert await scene.events() == []
    assert loop.counts() == {(CLUSTER, "moved_on"): 1}


async def test_brokers_without_support_get_no_request(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    await scene.die()
    scene.brokers.can_end = False
    loop = scene.loop()
    await loop.turn()
    assert (scene.brokers.ended, await scene.commands()) == ([], [])
    assert loop.counts() == {(CLUSTER, "unsupported"): 1}
    assert "this requires brokers of 4.0 or later" in caplog.text


async def test_missing_permission_is_logged_and_end_repeated(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    await scene.die()
    scene.brokers.known = Refused("DescribeTransactions", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", f"DESCRIBE on {ID}")
    loop = scene.loop()
    await loop.turn()
    assert f"it needs DESCRIBE on {ID}" in caplog.text
    scene.brokers.known = OPEN
    scene.brokers.answers = [UnavailableError("it needs WRITE"), FencedProducer(7, 5)]
    for _ in range(2):
        scene.plane.pass_time(5)
        await loop.turn()
    assert loop.counts() == {(CLUSTER, "refused"): 2, (CLUSTER, "ended"): 1}


async def test_unreachable_brokers_are_asked_at_growing_intervals(scene: Scene) -> None:
    await scene.die()
    scene.brokers.is_away = True
    loop = scene.loop()
    for _ in range(60):
        await loop.turn()
        scene.plane.pass_time(1)
    assert len(scene.brokers.asked) < 10
    scene.brokers.is_away = False
    scene.plane.pass_time(30)
    await loop.turn()
    assert scene.brokers.ended == [(ID, 7, 4)]


async def test_another_server_continues_after_a_crash(scene: Scene) -> None:
    await scene.die()
    scene.brokers.answers = [ActOutcomeUnknownError("the end is not confirmed"), FencedProducer(7, 5)]
    await scene.loop().turn()
    assert await scene.events() == []
    # It was not done.
    await scene.loop().turn()
    assert scene.brokers.ended == [(ID, 7, 4)] * 2
    (record,) = await scene.events()
    assert record.event.verdict.cause is FencingCause.DEAD_TASK
    # It was done: whoever comes now finds the epoch that it left.
    scene.brokers.known = replace(OPEN, state="CompleteAbort", producer_epoch=5)
    await scene.loop().turn()
    assert len(scene.brokers.ended) == 2


async def test_newest_attempt_with_a_producer_counts(scene: Scene) -> None:
    run = await scene.plane.running()
    await scene.beat(run.id, producer_epoch=2)
    await scene.beat(run.id, attempt=1)
    await scene.beat(run.id, attempt=2, producer_id=None, producer_epoch=None)
    await scene.plane.move(run.id, 0, InstanceState.FAILED)
    scene.plane.pass_time(3)
    await scene.loop().turn()
    assert scene.brokers.ended == [(ID, 7, 4)]


async def test_next_lease_does_not_hide_the_transaction_of_the_one_before(scene: Scene) -> None:
    run_id = await scene.die()
    lease = await scene.plane.lease(run_id)
    await scene.plane.submit(run_id, lease=lease)
    await scene.plane.claim(run_id, lease=lease)
    await scene.beat(run_id, lease=lease, producer_id=None, producer_epoch=None)
    await scene.loop().turn()
    assert scene.brokers.ended == [(ID, 7, 4)]


async def test_lease_that_ended_long_ago_is_left_to_the_coordinator(scene: Scene) -> None:
    await scene.die()
    scene.plane.pass_time(15 * 60)
    await scene.loop().turn()
    assert scene.brokers.asked == []


async def test_removed_pipeline_needs_nothing(scene: Scene) -> None:
    await scene.die(InstanceState.STOPPED)
    async with scene.plane.uow() as uow:
        await uow.of(PipelineStore).remove("flights")
        await uow.commit()
    await scene.loop().turn()
    assert scene.brokers.asked == []


async def test_id_that_the_pipeline_does_not_own_is_never_ended(scene: Scene) -> None:
    """A row of an earlier release may name any id: workers' reports were stored unchecked. Its member stays as well."""
    await scene.die(member_id="member")
    scene.brokers.members.add(("flights-group", "member"))
    stranger = sa.func.jsonb_set(
        task_attempts.c.report, ["transactional_id"], sa.cast('"payments-1"', postgresql.JSONB)
    )
    async with scene.plane.uow() as uow:
        await uow.connection.execute(sa.update(task_attempts).values(report=stranger))
        await uow.commit()
    loop = scene.loop()
    await loop.turn()
    assert (scene.brokers.asked, scene.brokers.acts, await scene.commands()) == ([], [], [])
    assert loop.counts() == {(CLUSTER, "not_ours"): 1}


async def test_id_of_another_task_of_the_pipeline_is_not_ended_either(scene: Scene) -> None:
    run = await scene.plane.running(tasks_per_instance=2)
    await scene.beat(run.id, task=1, transactional_id="fl.t.flights.0.0")
    await scene.plane.move(run.id, 0, InstanceState.FAILED, reason="killed")
    scene.plane.pass_time(3)
    await scene.loop().turn()
    assert (scene.brokers.asked, scene.brokers.ended) == ([], [])
