"""What the last stage asks: the audit of the migration's time, begun once and waited for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from app.core.asked_audits import AskedAudits
from app.core.observing.service.observations import Observations
from app.kit.access import AUDITOR, COMMAND_LINE
from app.products.audits.service import planning
from app.products.audits.specification import JsonField
from app.products.migrations.look import AuditNow
from app.products.migrations.migration import Migration
from app.products.migrations.service.questions import BrokerQuestions
from tests.products.migrations.looks import migration as a_migration
from tests.support.control_plane import ControlPlane, PlaneClock


@pytest.fixture
def questions(plane: ControlPlane) -> BrokerQuestions:
    no_brokers: Any = None
    return BrokerQuestions(
        unit_of_work=plane.uow,
        brokers=no_brokers,
        transactions=no_brokers,
        surveys=no_brokers,
        observations=Observations(is_on=False),
        clock=PlaneClock(plane),
    )


async def migrating(plane: ControlPlane, *, with_plan: bool) -> Migration:
    await plane.running("flights")
    if with_plan:
        async with plane.uow() as uow:
            await planning.change_plan(
                uow,
                pipeline="flights",
                id_place=JsonField(path="id"),
                source_id_place=None,
                padding_s=60,
                every_s=None,
                tolerance_s=600,
                by=AUDITOR,
                why=None,
                now=plane.now,
            )
            await uow.commit()
    began = plane.now
    plane.pass_time(60)
    return replace(a_migration(), pipeline="flights", started_at=began, stage_since=began + timedelta(seconds=30))


async def audit(plane: ControlPlane, questions: BrokerQuestions, migration: Migration) -> AuditNow:
    async with plane.uow() as uow:
        asked = await questions.audit(uow, migration)
        await uow.commit()
    return asked


async def test_without_a_plan_there_is_no_audit(plane: ControlPlane, questions: BrokerQuestions) -> None:
    asked = await audit(plane, questions, await migrating(plane, with_plan=False))
    assert (asked.audit_id, asked.is_through) == ("", True)
    assert asked.problem == "pipeline flights has no audit plan, which says by which id its records are known"


async def test_a_window_that_is_empty_is_refused_with_its_reason(
    plane: ControlPlane, questions: BrokerQuestions
) -> None:
    migration = await migrating(plane, with_plan=True)
    asked = await audit(plane, questions, replace(migration, stage_since=migration.started_at))
    assert (asked.audit_id, asked.is_through) == ("", True)
    assert asked.problem.startswith("flights cannot be audited: ")


async def test_an_audit_is_begun_once_and_another_one_that_lives_stands_against_it(
    plane: ControlPlane, questions: BrokerQuestions
) -> None:
    migration = await migrating(plane, with_plan=True)
    begun = await audit(plane, questions, migration)
    assert begun.audit_id
    assert not begun.is_through
    other = await audit(plane, questions, migration)
    assert (other.audit_id, other.is_through) == ("", True)
    assert begun.audit_id in other.problem

    knowing = replace(migration, audit_id=begun.audit_id)
    assert await audit(plane, questions, knowing) == begun
    async with plane.uow() as uow:
        await uow.part(AskedAudits).stop(uow, begun.audit_id, by=COMMAND_LINE, why="to see", now=plane.now)
        await uow.commit()
    stopped = await audit(plane, questions, knowing)
    assert (stopped.audit_id, stopped.is_through) == (begun.audit_id, True)
    assert stopped.problem.startswith("its audit is stopped: ")
