"""The pages of a pipeline's audits with its plan, and of one audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.pipelines.pages.tabs import tabs_of
from app.core.pipelines.store import PipelineStore
from app.core.wiring import Wiring, WiringDep
from app.kit import access
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, InvalidError, Problem
from app.kit.moments import WordsError, moment_of, span_text
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.form_errors import by_field, problems_of
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.products.audits.chart import audits_chart_of
from app.products.audits.comparison import baseline_words
from app.products.audits.comparison_form import FIELDS, OF_PROBLEMS, place_of, seconds_of, texts_of, typed
from app.products.audits.plan import DEFAULT_PADDING_S, DEFAULT_TOLERANCE_S, AuditPlan, next_due_at, time_window
from app.products.audits.service import asking, planning
from app.products.audits.service.asking import Wish
from app.products.audits.specification import Everything, Window
from app.products.audits.store import AuditPlanStore, AuditStore
from app.products.audits.telling import audit_sentence, figure
from app.products.audits.words import event_time_words, id_place_text, id_place_words, window_words

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Words = Annotated[str, Form(max_length=1000)]
_PAGE = 50
_OF_WINDOW = {"id_place": "id_place", "window.start": "from", "window.end": "to", "padding_s": "padding"}
_OF_PLAN = {
    "id_place": "plan_id_place",
    "source_id_place": "source_id_place",
    "padding_s": "plan_padding",
    "tolerance_s": "tolerance",
    "every_s": "every",
}
"""Problems of an audit or a plan by form field; one page has both forms."""

Problems = Mapping[str, Sequence[Problem]]


def looking_at_all(
    name: str, after: str | None = None, values: Mapping[str, str] | None = None, problems: Problems | None = None
) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        found = await asking.list_audits(uow, pipeline=name, after=after, limit=_PAGE)
        plan = await uow.of(AuditPlanStore).find(name)
        comparison_plan = await uow.of(AuditPlanStore).find(name, of_comparisons=True)
        newest = await uow.of(AuditStore).newest_comparison(name)
        context = {
            "name": name,
            "audits": found.items,
            "living": next((audit for audit in found.items if not audit.has_ended), None),
            "chart": audits_chart_of(found.items),
            "pages": links_of(found.next_cursor, partial(screen.url_of, "pipelines", name, "audits")),
            "plan": plan,
            "next_due_at": None if plan is None else next_due_at(plan),
            "comparison_plan": comparison_plan,
            "comparison_due_at": None if comparison_plan is None else next_due_at(comparison_plan),
            "newest_comparison": newest,
            "values": {**_defaults(plan), **(values or {})},
            "problems": problems or {},
            "is_plan_typed": "plan_id_place" in (values or {}),
            **_WORDS,
        }
        concerns = frozenset({f"pipeline:{name}", *(f"audit:{audit.id}" for audit in found.items)})
        tabs = await tabs_of(uow, name, "audits")
        return Screen(template="audits/list", title=f"Audits of {name}", context=context, concerns=concerns, tabs=tabs)

    return look


def looking_at_form(name: str, values: Mapping[str, str] | None = None, problems: Problems | None = None) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        pipeline = await uow.of(PipelineStore).get(name)
        plan = await uow.of(AuditPlanStore).find(name, of_comparisons=True)
        context = {
            "name": name,
            "plan": plan,
            "next_due_at": None if plan is None else next_due_at(plan),
            "is_recomputable": pipeline.definition.dataframe is not None,
            "values": {**texts_of(plan), **(values or {})},
            "problems": problems or {},
            **_WORDS,
        }
        concerns = frozenset({f"pipeline:{name}"})
        tabs = await tabs_of(uow, name, "audits")
        title = f"Comparison of {name}"
        return Screen(template="audits/compare", title=title, context=context, concerns=concerns, tabs=tabs)

    return look


def looking_at_one(audit_id: str, *, with_ids: bool) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del now
        audit = await asking.get_audit(uow, audit_id)
        context = {
            "audit": audit,
            "with_ids": with_ids and access.allows(principal.role, Verb.READ_RECORDS),
            **_WORDS,
        }
        concerns = frozenset({f"audit:{audit_id}"})
        tabs = await tabs_of(uow, audit.pipeline, "audits")
        title = f"Audit of {audit.pipeline}"
        return Screen(template="audits/detail", title=title, context=context, concerns=concerns, tabs=tabs)

    return look


_WORDS = {
    "sentence_of": audit_sentence,
    "figure": figure,
    "window_words": window_words,
    "id_place_words": id_place_words,
    "baseline_words": baseline_words,
    "span_text": span_text,
    "event_time_words": event_time_words,
}


@router.get("/pipelines/{name}/audits")
@router.get("/pipelines/{name}/audits/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer, name: str, after: After = None) -> Response:
    return await screen.live(request, wiring, by, looking_at_all(name, after))


@router.post("/pipelines/{name}/audits")
async def ask(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.START_AUDIT)],
    name: str,
    id_place: Words = "",
    begin: Annotated[str, Form(alias="from", max_length=100)] = "1h",
    end: Annotated[str, Form(alias="to", max_length=100)] = "now",
    padding: Words = "",
    why: Words = "",
) -> Response:
    now = wiring.clock.now()
    try:
        wish = Wish(
            window=time_window(_moment(begin, "window.start", now), _moment(end, "window.end", now)),
            id_place=place_of(id_place, "id_place") if id_place.strip() else None,
            padding_s=seconds_of(padding, "padding_s") if padding.strip() else None,
        )
        audit = await asking.ask_audit(uow, pipeline=name, wish=wish, by=by, why=why or None, now=now)
        await uow.commit()
    except FencelineError as error:
        values = {"id_place": id_place, "from": begin, "to": end, "padding": padding, "why": why}
        return await _again(request, wiring, by, name, values, error, fields=_OF_WINDOW)
    return screen.see("audits", audit.id, said="audit-asked")


@router.post("/pipelines/{name}/audits/plan")
async def plan(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.CHANGE_AUDIT_PLAN)],
    name: str,
    id_place: Annotated[str, Form(alias="plan_id_place", max_length=1000)] = "",
    source_id_place: Words = "",
    every: Words = "",
    padding: Annotated[str, Form(alias="plan_padding", max_length=1000)] = "",
    tolerance: Words = "",
    why: Words = "",
) -> Response:
    try:
        await planning.change_plan(
            uow,
            pipeline=name,
            id_place=place_of(id_place, "id_place"),
            source_id_place=place_of(source_id_place, "source_id_place") if source_id_place.strip() else None,
            padding_s=seconds_of(padding, "padding_s"),
            every_s=seconds_of(every, "every_s") if every.strip() else None,
            tolerance_s=seconds_of(tolerance, "tolerance_s"),
            by=by,
            why=why or None,
            now=wiring.clock.now(),
        )
        await uow.commit()
    except FencelineError as error:
        values = {
            "plan_id_place": id_place,
            "source_id_place": source_id_place,
            "every": every,
            "plan_padding": padding,
            "tolerance": tolerance,
        }
        return await _again(request, wiring, by, name, values, error, fields=_OF_PLAN)
    return screen.see("pipelines", name, "audits", said="audit-planned")


@router.get("/pipelines/{name}/audits/compare")
@router.get("/pipelines/{name}/audits/compare/stream")
async def show_form(
    request: Request, wiring: WiringDep, by: Annotated[Principal, may(Verb.START_AUDIT)], name: str
) -> Response:
    return await screen.live(request, wiring, by, looking_at_form(name))


@router.post("/pipelines/{name}/audits/compare")
async def compare(
    request: Request, wiring: WiringDep, uow: Uow, by: Annotated[Principal, may(Verb.START_AUDIT)], name: str
) -> Response:
    form = await request.form()
    texts = {field: str(form.get(field, ""))[:_LONGEST_TEXT] for field in FIELDS}
    now, why = wiring.clock.now(), texts["why"].strip() or None
    try:
        given = typed(texts)
        if form.get("act") == "plan":
            await planning.change_plan(
                uow,
                pipeline=name,
                id_place=given.id_place,
                source_id_place=given.source_id_place,
                padding_s=given.padding_s,
                every_s=given.every_s,
                tolerance_s=given.tolerance_s,
                by=by,
                why=why,
                now=now,
                comparison=given.comparison,
                allowed=wiring.allowed_options,
            )
            await uow.commit()
            return screen.see("pipelines", name, "audits", said="comparison-planned")
        wish = Wish(
            window=_window(texts, now),
            is_comparison=True,
            comparison=given.comparison,
            id_place=given.id_place,
            source_id_place=given.source_id_place,
            padding_s=given.padding_s,
            tolerance_s=given.tolerance_s,
        )
        audit = await asking.ask_audit(
            uow, pipeline=name, wish=wish, by=by, why=why, now=now, allowed=wiring.allowed_options
        )
        await uow.commit()
    except FencelineError as error:
        problems = _at_fields(error, OF_PROBLEMS)
        look = looking_at_form(name, texts, problems)
        refused = error if "" in problems else InvalidError("nothing was changed: correct the marked fields")
        return await screen.page(
            request, wiring, by, look, refused=refused, at=("pipelines", name, "audits", "compare")
        )
    return screen.see("audits", audit.id, said="audit-asked")


_LONGEST_TEXT = 4_000


@router.get("/audits/{audit_id}")
@router.get("/audits/{audit_id}/stream")
async def show(
    request: Request, wiring: WiringDep, uow: Uow, by: Viewer, audit_id: str, *, ids: bool = False
) -> Response:
    if ids:
        # Ids are contents of records, so their display is logged.
        audit = await asking.get_audit(uow, audit_id)
        await asking.note_look_at_ids(uow, audit, by=by, now=wiring.clock.now())
        await uow.commit()
    return await screen.live(request, wiring, by, looking_at_one(audit_id, with_ids=ids), is_live=not ids)


@router.post("/audits/{audit_id}/stop")
async def stop(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.STOP_AUDIT)],
    audit_id: str,
    why: Words = "",
) -> Response:
    try:
        await asking.stop_audit(uow, audit_id, by=by, why=why or None, now=wiring.clock.now())
        await uow.commit()
    except FencelineError as error:
        look = looking_at_one(audit_id, with_ids=False)
        return await screen.page(request, wiring, by, look, refused=error, at=("audits", audit_id))
    return screen.see("audits", audit_id, said="audit-stopped")


async def _again(
    request: Request,
    wiring: Wiring,
    by: Principal,
    name: str,
    values: Mapping[str, str],
    error: FencelineError,
    *,
    fields: Mapping[str, str],
) -> Response:
    """Render the forms again with the input and its problems."""
    problems = _at_fields(error, fields)
    look = looking_at_all(name, None, values, problems)
    refused = error if "" in problems else InvalidError("nothing was changed: correct the marked fields")
    return await screen.page(request, wiring, by, look, refused=refused, at=("pipelines", name, "audits"))


def _at_fields(error: FencelineError, fields: Mapping[str, str]) -> dict[str, list[Problem]]:
    """Return the problems by form field; `` has those of no field."""
    found: dict[str, list[Problem]] = {}
    for field, of_field in by_field(problems_of(error), fields=tuple(fields)).items():
        found.setdefault(fields.get(field, ""), []).extend(of_field)
    return found


def _defaults(plan: AuditPlan | None) -> dict[str, str]:
    """Return the initial values of the forms: the last hour, and those of the plan."""
    id_place = "" if plan is None else id_place_text(plan.id_place)
    padding = span_text(DEFAULT_PADDING_S if plan is None else plan.padding_s)
    return {
        "from": "1h",
        "to": "now",
        "why": "",
        "id_place": id_place,
        "plan_id_place": id_place,
        "source_id_place": "" if plan is None or plan.source_id_place is None else id_place_text(plan.source_id_place),
        "padding": padding,
        "plan_padding": padding,
        "tolerance": span_text(DEFAULT_TOLERANCE_S if plan is None else plan.tolerance_s),
        "every": "" if plan is None or plan.every_s is None else span_text(plan.every_s),
    }


def _window(texts: Mapping[str, str], now: datetime) -> Window:
    if texts["from"].strip() == "everything":
        return Everything()
    return time_window(_moment(texts["from"], "window.start", now), _moment(texts["to"], "window.end", now))


def _moment(text: str, field: str, now: datetime) -> datetime:
    try:
        return moment_of(text, now=now)
    except WordsError as error:
        raise InvalidError(str(error), field=field) from error
