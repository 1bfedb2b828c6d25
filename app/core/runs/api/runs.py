"""Runs over REST: start, list, pause, drain, restart. Each change is a command in the log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.runs import run as domain_run
from app.core.runs.api.run_schemas import Reason, RestartGiven, StartGiven
from app.core.runs.bad_records import BadRecordSummary
from app.core.runs.instance import Instance
from app.core.runs.run import Run
from app.core.runs.service import instances, runs, tasks
from app.core.runs.task import TaskEventRecord, TaskStatus
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import IdInPath, Name, NameInPath
from app.kit.web.dependencies import Uow

router = APIRouter(tags=["runs"])
NO_REASON = Reason()
AS_IT_IS = StartGiven()


@router.post("/pipelines/{name}/runs", status_code=201, response_model=Shown[Run], responses=refusals(404, 409, 413))
async def start_run(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.START_RUN)],
    body: StartGiven = AS_IT_IS,
) -> Response:
    """Start the pipeline's current revision. The answer reports the new run; its instances follow."""

    async def act() -> Run:
        return await runs.start_run(
            uow,
            wiring.brokers,
            pipeline=name,
            allowed=wiring.allowed_options,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
            switch_at_once=body.switch_at_once,
        )

    answer = await once.do(act, status=201)
    await uow.commit()
    return answer


@router.get("/runs", responses=refusals(404))
async def list_runs(
    uow: Uow,
    _: Viewer,
    pipeline: Annotated[Name | None, Query()] = None,
    after: After = None,
    limit: Limit = 50,
) -> Shown[Page[Run]]:
    """List runs of all pipelines or of one, newest first."""
    return await runs.list_runs(uow, pipeline=pipeline, after=after, limit=limit)


@router.get("/runs/{run_id}", responses=refusals(404))
async def get_run(run_id: IdInPath, uow: Uow, _: Viewer) -> Shown[Run]:
    """Return one run with the current lease of each instance."""
    return await runs.get_run(uow, run_id)


@router.get("/runs/{run_id}/instances", responses=refusals(404))
async def list_instances(run_id: IdInPath, uow: Uow, _: Viewer) -> Shown[Items[Instance]]:
    """List every lease of every ordinal, with the current ones."""
    found = await instances.list_instances(uow, run_id, with_history=True)
    return Items(found)


@router.get("/runs/{run_id}/tasks", responses=refusals(404))
async def list_tasks(run_id: IdInPath, uow: Uow, _: Viewer) -> Shown[Items[TaskStatus]]:
    """List the last report of each task, by ordinal and task."""
    return Items(await tasks.list_tasks(uow, run_id))


@router.get("/runs/{run_id}/bad-records", responses=refusals(404))
async def get_bad_records(run_id: IdInPath, uow: Uow, wiring: WiringDep, _: Viewer) -> Shown[BadRecordSummary]:
    """Get the records that could not be processed, by error and partition; the newest first."""
    return await tasks.get_bad_records(uow, run_id, now=wiring.clock.now())


@router.get("/runs/{run_id}/events", responses=refusals(404))
async def list_events(
    run_id: IdInPath, uow: Uow, _: Viewer, after: After = None, limit: Limit = 50
) -> Shown[Page[TaskEventRecord]]:
    """List the task events, newest first."""
    return await tasks.list_events(uow, run_id, after=after, limit=limit)


def _offer(word: str, verb: Verb, ask: Callable[..., Awaitable[domain_run.Run]], does: str) -> None:
    """Add a command to a run that needs nothing but a reason, under this path segment."""

    allowed = may(verb)

    async def change(
        run_id: IdInPath, uow: Uow, wiring: WiringDep, once: OnceDep, by: Principal = allowed, body: Reason = NO_REASON
    ) -> Response:
        async def act() -> Run:
            return await ask(uow, run_id=run_id, by=by, why=body.why, now=wiring.clock.now())

        answer = await once.do(act)
        await uow.commit()
        return answer

    router.add_api_route(
        f"/runs/{{run_id}}/{word}",
        change,
        methods=["POST"],
        name=f"{word}_run",
        description=does,
        response_model=Shown[Run],
        responses=refusals(404, 409, 413),
    )


_offer(
    "drain",
    Verb.DRAIN_RUN,
    runs.drain_run,
    "Finish the open checkpoints, commit, leave the group, stop. A drain cannot be cancelled.",
)
_offer(
    "kill",
    Verb.KILL_RUN,
    runs.kill_run,
    "End the applications at once. Open transactions are aborted; nothing is lost or duplicated.",
)
_offer(
    "pause",
    Verb.PAUSE_RUN,
    runs.pause_run,
    "Stop reading; partitions and membership are kept, and no transaction stays open.",
)
_offer("resume", Verb.RESUME_RUN, runs.resume_run, "Continue after a pause.")


@router.post("/runs/{run_id}/restart", response_model=Shown[Run], responses=refusals(404, 409, 413))
async def restart_run(
    run_id: IdInPath,
    body: RestartGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.RESTART_RUN)],
) -> Response:
    """Restart every instance at the pipeline's current revision: one at a time, or all after a drain."""

    async def act() -> Run:
        return await runs.restart_run(
            uow,
            wiring.brokers,
            run_id=run_id,
            rolling=body.rolling,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
        )

    answer = await once.do(act)
    await uow.commit()
    return answer
