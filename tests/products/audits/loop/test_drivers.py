"""Audits from request to verdict: the row is written before the action, and every end has a reason."""

from __future__ import annotations

import pytest

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.runs.observation import ProcessWord
from app.kit.access import Verb
from app.kit.errors import ConflictError
from app.products.audits.audit import AuditState
from app.products.audits.decision import DriverWord, SeenDriver
from app.products.audits.result import AuditVerdict
from app.products.audits.service import carrying_out
from app.products.audits.store import AuditStore
from app.products.audits.wire import AuditEnd
from tests.support.audit_samples import result
from tests.support.auditing import ALIVE, GONE, Audited

S = AuditState


async def test_audit_goes_from_request_to_verdict(audited: Audited) -> None:
    asked = await audited.ask_and_start()
    assert audited.spark.states_when_submitted == [S.SUBMITTING], "the row comes before the action"
    order = audited.spark.submitted[0]
    assert order.specification.group_id == "flights-group"
    assert order.server_urls == ("http://server",)
    assert await audited.claim(asked.id)
    assert await audited.progress(asked.id, tasks_done=3)
    shown = await audited.look(asked.id)
    assert shown.state is S.RUNNING
    assert shown.progress is not None
    assert (shown.progress.stage, shown.progress.tasks_done) == ("reading", 3)
    await audited.tell(asked.id, AuditEnd.DONE, result(asked.id))
    done = await audited.look(asked.id)
    assert (done.state, done.verdict) == (S.DONE, AuditVerdict.CLEAN)
    async with audited.uow() as uow:
        assert (await uow.of(AuditStore).counts())["flights"] == {"audits_clean": 1, "outputs_expected": 8}
        assert await carrying_out.audit_of_token(uow, order.token) == asked.id


async def test_dead_driver_fails_with_the_end_of_its_log(audited: Audited) -> None:
    asked = await audited.ask_and_start()
    audited.spark.seen = GONE
    await audited.turn()
    failed = await audited.look(asked.id)
    assert failed.state is S.FAILED
    assert failed.reason == "its process has ended without an outcome; the end of its log: ERROR out of luck"


async def test_result_that_no_server_received_is_taken_from_the_folder(audited: Audited) -> None:
    asked = await audited.ask_and_start()
    word = DriverWord(kind="done", message="", result=result(asked.id))
    audited.spark.seen = SeenDriver(process=ProcessWord.GONE, left=word)
    await audited.turn()
    assert (await audited.look(asked.id)).verdict is AuditVerdict.CLEAN


async def test_next_server_starts_the_driver_that_a_dead_server_did_not(audited: Audited) -> None:
    asked = await audited.ask()
    await audited.submit_and_die(asked.id)
    audited.spark.seen = GONE
    await audited.turn()
    assert (await audited.look(asked.id)).state is S.PENDING
    audited.spark.seen = ALIVE
    await audited.turn()
    assert (await audited.look(asked.id)).state is S.RUNNING
    assert len(audited.spark.submitted) == 1


async def test_driver_that_a_server_did_not_record_is_adopted_by_the_next(audited: Audited) -> None:
    asked = await audited.ask()
    await audited.submit_and_die(asked.id)
    audited.spark.seen = SeenDriver(process=ProcessWord.ALIVE, jvm_pid=4711, started_at=audited.plane.now)
    await audited.turn()
    adopted = await audited.look(asked.id)
    assert (adopted.state, adopted.jvm_pid) == (S.RUNNING, 4711)
    assert audited.spark.submitted == []


async def test_stop_ends_an_audit_without_a_result(audited: Audited) -> None:
    asked = await audited.ask_and_claim()
    assert (await audited.stop(asked.id)).state is S.STOPPING
    assert not await audited.progress(asked.id), "the answer to its driver is that it is not wanted any more"
    await audited.turn()
    assert audited.spark.signals == ["stop"]
    await audited.tell(asked.id, AuditEnd.STOPPED)
    stopped = await audited.look(asked.id)
    assert (stopped.state, stopped.reason) == (S.STOPPED, "stopped by anna: enough")
    with pytest.raises(ConflictError, match="has ended already"):
        await audited.stop(asked.id)
    async with audited.uow() as uow:
        verbs = [
            one.verb
            for one in (
                await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=9)
            ).items
        ]
    assert verbs == [Verb.STOP_AUDIT, Verb.START_AUDIT]


async def test_audit_beyond_the_limit_is_stopped_and_has_failed(audited: Audited) -> None:
    asked = await audited.ask_and_start()
    audited.plane.pass_time(3 * 3600)
    await audited.turn()
    await audited.turn()
    assert audited.spark.signals == ["stop"]
    audited.plane.pass_time(60)
    await audited.turn()
    assert audited.spark.signals == ["stop", "kill"]
    audited.spark.seen = GONE
    await audited.turn()
    failed = await audited.look(asked.id)
    assert (failed.state, failed.reason) == (
        S.FAILED,
        "it was stopped after 180 minutes: the limit is 120 minutes",
    )


async def test_refused_submission_fails_with_the_reason(audited: Audited) -> None:
    audited.spark.refusal = "Java 17 was not found"
    failed = await audited.ask_and_start()
    assert (failed.state, failed.reason) == (S.FAILED, "Java 17 was not found")


async def test_second_driver_of_one_audit_is_refused(audited: Audited) -> None:
    asked = await audited.ask_and_claim()
    assert await audited.claim(asked.id), "a claim that is repeated is granted again"
    assert not await audited.claim(asked.id, "app-2")
