"""One run: its instances with every lease, its tasks, their events, and the tail of an instance's Spark log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from app.core.access.service import command_log
from app.core.access.signed_in import Viewer, may
from app.core.overview import service as overview
from app.core.overview.service import RunPage
from app.core.pipelines.pages.tabs import tabs_of
from app.core.runs.pages.charts import run_chart_of, run_markers
from app.core.runs.pages.log_tail import LogTail, tail_of
from app.core.runs.run import Run
from app.core.runs.service import runs
from app.core.wiring import Wiring, WiringDep
from app.kit import access
from app.kit.access import Principal, Verb
from app.kit.chart_range import ChartRange
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.charts import ChosenRange, page_charts
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Why = Annotated[str, Form(max_length=1000)]


def looking_at(run_id: str, *, wiring: Wiring, log: str | None = None, chosen: ChartRange = ChartRange.QUARTER) -> Look:
    """The run's page; `log` is `<ordinal>.<lease>` of the instance whose log is shown too, to operators."""

    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        view = await overview.run_page(uow, run_id, now=now, chosen=chosen)
        context = {
            "view": view,
            "run": view.run,
            "is_live": view.run.ended_at is None,
            **charts_of(view, log=log),
            "log": await _log(view, log, principal=principal, wiring=wiring),
        }
        concerns = frozenset({f"run:{run_id}", f"pipeline:{view.run.pipeline}"})
        tabs = await tabs_of(uow, view.run.pipeline, "runs")
        title = f"Run of {view.run.pipeline}"
        return Screen(template="runs/detail", title=title, context=context, concerns=concerns, tabs=tabs)

    return look


def charts_of(view: RunPage, *, log: str | None) -> dict[str, Any]:
    """Return the chart of the run, None without a sample, and its range control with the markers."""
    group_url = screen.url_of("groups", "group", cluster=view.definition.cluster, name=view.definition.group_id)
    markers = run_markers(view.rebalances, view.marked, group_url=group_url)
    return {
        "chart": run_chart_of(view.series, view.window, markers) if view.series else None,
        "charts": page_charts(
            view.window, lambda span: screen.url_of("runs", view.run.id, log=log, range=span), markers=markers
        ),
    }


async def _log(view: RunPage, wanted: str | None, *, principal: Principal, wiring: Wiring) -> LogTail | None:
    if wanted is None or not access.allows(principal.role, Verb.READ_LOG):
        return None
    instance = next((i for i in view.instances if f"{i.ordinal}.{i.lease}" == wanted), None)
    if instance is None:
        return None
    return await asyncio.to_thread(tail_of, instance, within=wiring.settings.state_dir)


@router.get("/runs/{run_id}")
async def show(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Viewer,
    run_id: str,
    log: str | None = None,
    chosen: ChosenRange = ChartRange.QUARTER,
) -> Response:
    if log is not None:
        # A log may quote records, so the access itself is recorded.
        access.require(by, Verb.READ_LOG)
        await command_log.record(
            uow,
            by=by,
            verb=Verb.READ_LOG,
            target=f"run:{run_id}",
            why=None,
            now=wiring.clock.now(),
            outcome=f"opened the log of instance {log}"[:200],
        )
        await uow.commit()
    return await screen.page(request, wiring, by, looking_at(run_id, wiring=wiring, log=log, chosen=chosen))


@router.get("/runs/{run_id}/stream")
async def follow(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    run_id: str,
    log: str | None = None,
    chosen: ChosenRange = ChartRange.QUARTER,
) -> Response:
    return screen.stream(request, wiring, by, looking_at(run_id, wiring=wiring, log=log, chosen=chosen))


def _offer(word: str, verb: Verb, ask: Callable[..., Awaitable[Run]], *, said: str) -> None:
    """Add a form for a command to a run that needs nothing but a reason, under this path segment."""

    allowed = may(verb)

    async def change(
        request: Request, wiring: WiringDep, uow: Uow, run_id: str, why: Why = "", by: Principal = allowed
    ) -> Response:
        async def act() -> Run:
            return await ask(uow, run_id=run_id, by=by, why=why or None, now=wiring.clock.now())

        return await _change(request, wiring, uow, by, run_id, act, said=said)

    router.add_api_route(f"/runs/{{run_id}}/{word}", change, methods=["POST"], name=word)


_offer("drain", Verb.DRAIN_RUN, runs.drain_run, said="draining")
_offer("kill", Verb.KILL_RUN, runs.kill_run, said="killing")
_offer("pause", Verb.PAUSE_RUN, runs.pause_run, said="pausing")
_offer("resume", Verb.RESUME_RUN, runs.resume_run, said="resuming")


@router.post("/runs/{run_id}/restart")
async def restart(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.RESTART_RUN)],
    run_id: str,
    why: Why = "",
    how: Annotated[str, Form()] = "rolling",
) -> Response:
    async def act() -> Run:
        return await runs.restart_run(
            uow,
            wiring.brokers,
            run_id=run_id,
            rolling=how == "rolling",
            by=by,
            why=why or None,
            now=wiring.clock.now(),
        )

    return await _change(request, wiring, uow, by, run_id, act, said="rolling" if how == "rolling" else "restarting")


async def _change(
    request: Request,
    wiring: Wiring,
    uow: Uow,
    by: Principal,
    run_id: str,
    act: Callable[[], Awaitable[Run]],
    *,
    said: str,
) -> Response:
    """Do it and go to the pipeline's page, or show the run's page with the reason of the refusal."""
    try:
        run = await act()
        await uow.commit()
    except FencelineError as error:
        look = looking_at(run_id, wiring=wiring)
        return await screen.page(request, wiring, by, look, refused=error, at=("runs", run_id))
    return screen.see("pipelines", run.pipeline, said=said)
