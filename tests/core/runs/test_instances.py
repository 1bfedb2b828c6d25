"""Leases, claims and moves, one server or two at once."""

from __future__ import annotations

import asyncio

import pytest

from app.core.access.service import tokens
from app.core.access.store.identity import IdentityStore
from app.core.runs.instance import InstanceState
from app.core.runs.run import DesiredRunState
from app.core.runs.service import instances, specifications
from app.core.runs.store.runs import RunStore
from app.core.runs.task import TaskState
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, IllegalTransitionError
from tests.support.control_plane import ControlPlane, driver_heartbeat, task_heartbeat


async def test_a_claim_of_the_current_lease_is_granted_and_kept(plane: ControlPlane) -> None:
    await plane.pipeline()
    run = await plane.run()
    await plane.submit(run.id)
    assert (await plane.claim(run.id)).granted
    (instance,) = (await plane.get_run(run.id)).instances
    assert (instance.state, instance.application_id) == (InstanceState.STARTING, "app-0-1")
    assert (instance.host, instance.jvm_pid, instance.python_pid) == ("w1", 100, 101)


async def test_a_repeated_claim_of_the_same_application_is_granted_again(plane: ControlPlane) -> None:
    run = await plane.running()
    assert (await plane.claim(run.id)).granted
    assert (await plane.get_run(run.id)).instances[0].state is InstanceState.RUNNING


async def test_one_of_two_concurrent_claims_is_granted(plane: ControlPlane) -> None:
    await plane.pipeline()
    run = await plane.run()
    await plane.submit(run.id)
    answers = await asyncio.gather(*(plane.claim(run.id, application_id=f"app-{n}") for n in range(5)))
    assert sum(answer.granted for answer in answers) == 1
    winner = (await plane.get_run(run.id)).instances[0].application_id
    assert all(answer.granted or f"claimed by application {winner}" in answer.reason for answer in answers)


async def test_a_claim_of_an_old_lease_is_refused_and_names_the_current_one(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.move(run.id, 0, InstanceState.FAILED)
    await plane.lease(run.id)
    answer = await plane.claim(run.id, lease=1)
    assert not answer.granted
    assert "lease 2 is the current one, yours is 1" in answer.reason


async def test_a_claim_of_a_lease_that_this_database_never_gave_is_refused(plane: ControlPlane) -> None:
    run = await plane.running()
    answer = await plane.claim(run.id, lease=7)
    assert not answer.granted
    assert "may be an older copy" in answer.reason


async def test_a_claim_after_the_end_is_refused(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.move(run.id, 0, InstanceState.STOPPED)
    assert "has ended already" in (await plane.claim(run.id)).reason


async def test_an_ordinal_is_leased_again_only_after_its_end(plane: ControlPlane) -> None:
    run = await plane.running()
    with pytest.raises(ConflictError, match=r"instance 0 of run .* is running under lease 1"):
        await plane.lease(run.id)
    await plane.move(run.id, 0, InstanceState.FAILED)
    assert await plane.lease(run.id) == 2
    (instance,) = (await plane.get_run(run.id)).instances
    assert (instance.lease, instance.state, instance.application_id) == (2, InstanceState.PENDING, None)


async def test_one_of_two_concurrent_leases_succeeds(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.move(run.id, 0, InstanceState.FAILED)
    outcomes = await asyncio.gather(*(plane.lease(run.id) for _ in range(4)), return_exceptions=True)
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [2]
    assert all(isinstance(outcome, (int, ConflictError)) for outcome in outcomes)


async def test_no_instance_of_a_draining_run_is_leased_again(plane: ControlPlane) -> None:
    run = await plane.running(instances=2)
    async with plane.uow() as uow:
        await uow.of(RunStore).set_desired(run.id, DesiredRunState.DRAIN)
        await uow.commit()
    await plane.move(run.id, 0, InstanceState.FAILED)
    with pytest.raises(ConflictError, match="none of its instances is leased again"):
        await plane.lease(run.id, 0)


async def test_one_of_two_servers_that_submit_at_once_gets_the_token(plane: ControlPlane) -> None:
    await plane.pipeline()
    run = await plane.run()
    outcomes = await asyncio.gather(*(plane.submit(run.id) for _ in range(4)), return_exceptions=True)
    secrets = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(secrets) == 1
    assert all(isinstance(outcome, (str, ConflictError)) for outcome in outcomes)
    async with plane.uow() as uow:
        scope = await tokens.authenticate_run_token(uow, secrets[0])
    assert scope is not None
    assert (scope.run_id, scope.ordinal, scope.lease) == (run.id, 0, 1)


async def test_an_illegal_move_raises_and_changes_nothing(plane: ControlPlane) -> None:
    run = await plane.running()
    with pytest.raises(IllegalTransitionError):
        await plane.move(run.id, 0, InstanceState.SUBMITTING)
    await plane.move(run.id, 0, InstanceState.STOPPED)
    with pytest.raises(IllegalTransitionError):
        await plane.move(run.id, 0, InstanceState.RUNNING)
    assert (await plane.get_run(run.id)).instances[0].state is InstanceState.STOPPED


async def test_record_of_the_submission_does_not_overwrite_the_claim(plane: ControlPlane) -> None:
    await plane.pipeline()
    run = await plane.run()
    await plane.submit(run.id)
    await plane.claim(run.id)
    async with plane.uow() as uow:
        await instances.record_submission(
            uow,
            run_id=run.id,
            ordinal=0,
            lease=1,
            host="other",
            jvm_pid=1,
            process_started_at=plane.now,
            log_path="/log",
        )
        await uow.commit()
    (instance,) = (await plane.get_run(run.id)).instances
    assert (instance.host, instance.jvm_pid, instance.log_path) == ("w1", 100, "/log")


async def test_a_specification_is_that_of_the_leases_own_revision(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    await plane.revise("flights", sink_topic="elsewhere")
    async with plane.uow() as uow:
        scope = instances.RunTokenScope(run_id=run.id, ordinal=0, lease=1)
        specification = await specifications.specification_for(
            uow, scope, run_token="t", fenceline_version="0.1.0", server_urls=["http://s"]
        )
        epoch = await uow.of(IdentityStore).database_epoch()
    assert (specification.revision, specification.definition.sink_topic) == (1, "out")
    assert [task.transactional_id for task in specification.tasks] == ["fl.t.flights.0.0", "fl.t.flights.0.1"]
    assert specification.database_epoch == epoch
    assert specification.client_config["bootstrap.servers"] == "127.0.0.1:9"


async def test_an_ended_lease_gets_no_specification(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.move(run.id, 0, InstanceState.FAILED)
    async with plane.uow() as uow:
        with pytest.raises(ConflictError, match="has ended: it is failed"):
            await specifications.specification_for(
                uow,
                instances.RunTokenScope(run_id=run.id, ordinal=0, lease=1),
                run_token="t",
                fenceline_version="0.1.0",
                server_urls=[],
            )


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nouns of all notices."""
    nouns: list[str] = []
    notify = UnitOfWork.notify

    def noted(self: UnitOfWork, noun: str, name: str) -> None:
        nouns.append(noun)
        notify(self, noun, name)

    monkeypatch.setattr(UnitOfWork, "notify", noted)
    return nouns


async def test_a_driver_that_reports_the_same_again_wakes_nobody(plane: ControlPlane, told: list[str]) -> None:
    """Its heartbeats come each second for months; a notice wakes loops and refreshes pages."""
    run = await plane.running()
    wakes: list[bool] = []
    for more in ({}, {}, {"tasks_waiting": 1}, {"tasks_waiting": 1}, {"executors": 7}):
        told.clear()
        await plane.drive(driver_heartbeat(run.id, **more))
        wakes.append(bool(told))
    assert wakes == [True, False, True, False, True]


async def test_a_task_that_only_reports_new_rates_wakes_pages_and_no_loop(plane: ControlPlane, told: list[str]) -> None:
    run = await plane.running()
    woken: list[set[str]] = []
    for sequence, state in enumerate((TaskState.RUNNING, TaskState.RUNNING, TaskState.PAUSED, TaskState.RUNNING), 1):
        told.clear()
        plane.pass_time(1)
        await plane.beat(task_heartbeat(run.id, sequence=sequence, state=state))
        woken.append(set(told) & {"run", "pipeline"})
    assert woken == [{"run", "pipeline"}, {"pipeline"}, {"run", "pipeline"}, {"run", "pipeline"}]
