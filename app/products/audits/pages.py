"""The pages of a pipeline's audits with its plan, and of one audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.wiring import Wiring, WiringDep
from app.kit import access
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, InvalidError, Problem
from app.kit.moments import WordsError, moment_of, span_of, span_text
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.form_errors import by_field, problems_of
from app.kit.web.pages.paging import After, links_of
from app.kit.web.pages.screen import Look, Screen
from app.products.audits.chart import audits_chart_of
from app.products.audits.plan import DEFAULT_PADDING_S, DEFAULT_TOLERANCE_S, AuditPlan, next_due_at, time_window
from app.products.audits.service import asking, planning
from app.products.audits.service.asking import Wish
from app.products.audits.specification import IdPlace
from app.products.audits.store import AuditPlanStore
from app.products.audits.telling import audit_sentence, figure
from app.products.audits.words import id_place_of, id_place_text, id_place_words, window_words

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
        context = {
            "name": name,
            "audits": found.items,
            "living": next((audit for audit in found.items if not audit.has_ended), None),
            "chart": audits_chart_of(found.items),
            "pages": links_of(found.next_cursor, partial(screen.url_of, "pipelines", name, "audits")),
            "plan": plan,
            "next_due_at": None if plan is None else next_due_at(plan),
            "values": {**_defaults(plan), **(values or {})},
            "problems": problems or {},
            "is_plan_typed": "plan_id_place" in (values or {}),
            **_WORDS,
        }
        concerns = frozenset({f"pipeline:{name}", *(f"audit:{audit.id}" for audit in found.items)})
        return Screen(template="audits/list", title=f"Audits of {name}", context=context, concerns=concerns)

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
        return Screen(template="audits/detail", title=f"Audit of {audit.pipeline}", context=context, concerns=concerns)

    return look


_WORDS = {
    "sentence_of": audit_sentence,
    "figure": figure,
    "window_words": window_words,
    "id_place_words": id_place_words,
    "span_text": span_text,
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
            id_place=_place(id_place, "id_place") if id_place.strip() else None,
            padding_s=_seconds(padding, "padding_s") if padding.strip() else None,
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
            id_place=_place(id_place, "id_place"),
            source_id_place=_place(source_id_place, "source_id_place") if source_id_place.strip() else None,
            padding_s=_seconds(padding, "padding_s"),
            every_s=_seconds(every, "every_s") if every.strip() else None,
            tolerance_s=_seconds(tolerance, "tolerance_s"),
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
    found = by_field(problems_of(error), fields=tuple(fields))
    problems = {fields.get(field, ""): of_field for field, of_field in found.items()}
    look = looking_at_all(name, None, values, problems)
    refused = error if "" in problems else InvalidError("nothing was changed: correct the marked fields")
    return await screen.page(request, wiring, by, look, refused=refused, at=("pipelines", name, "audits"))


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


def _place(text: str, field: str) -> IdPlace:
    try:
        return id_place_of(text)
    except WordsError as error:
        raise InvalidError(str(error), field=field) from error


def _moment(text: str, field: str, now: datetime) -> datetime:
    try:
        return moment_of(text, now=now)
    except WordsError as error:
        raise InvalidError(str(error), field=field) from error


def _seconds(text: str, field: str) -> int:
    try:
        return int(span_of(text.strip()) / timedelta(seconds=1))
    except WordsError as error:
        raise InvalidError(str(error), field=field) from error
