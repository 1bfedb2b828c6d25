"""The page to import ids: a form with a preview, and the imported ids of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from app.core.access.signed_in import Viewer, may
from app.core.ids.formulas import FORMULAS
from app.core.ids.imported import MAX_CSV_CHARACTERS, ImportPlan, ImportWish
from app.core.ids.service import imports as id_imports
from app.core.mappings import service as mappings
from app.core.mappings.mapping import IdKind
from app.core.pipelines.pages.tabs import tabs_of
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, InvalidError, Problem
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.form_errors import by_field, problems_of
from app.kit.web.pages.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Author = Annotated[Principal, may(Verb.IMPORT_IDS)]
Words = Annotated[str, Form(max_length=1000)]
_VALUES = ("application_id", "subtopology", "process_id", "prefix", "group")
_FIELDS = ("formula", "csv", "count", *_VALUES)
_CHOICES = (("", "none: the CSV has them"), *((one.name, f"{one.title}: {one.pattern}") for one in FORMULAS.values()))
_LINES_SHOWN = 1_000


def looking_at(
    name: str,
    *,
    values: Mapping[str, str] | None = None,
    problems: Mapping[str, Sequence[Problem]] | None = None,
    plan: ImportPlan | None = None,
) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        owned = await mappings.list_transactional_ids(uow, name)
        found = await mappings.list_mappings(uow, name)
        partitions: dict[str, list[str]] = {}
        for one in found:
            if one.assigned_id is not None:
                partitions.setdefault(one.assigned_id, []).append(f"{one.topic}-{one.partition}")
        context: dict[str, Any] = {
            "name": name,
            "imported": [
                {"id": one.transactional_id, "partitions": partitions.get(one.transactional_id, [])}
                for one in owned
                if one.kind is IdKind.IMPORTED
            ],
            "formulas": _CHOICES,
            "meanings": _meanings(),
            "values": dict.fromkeys((*_FIELDS, "why"), "") | dict(values or {}),
            "problems": problems or {},
            "plan": plan,
            "shown": () if plan is None else plan.lines[:_LINES_SHOWN],
            "is_valid": plan is not None and not plan.problems,
            "new": 0 if plan is None else sum(1 for line in plan.lines if not line.is_known),
        }
        return Screen(
            template="id_imports/detail",
            title=f"Imported ids of {name}",
            context=context,
            concerns=frozenset({f"pipeline:{name}"}),
            tabs=await tabs_of(uow, name, "imported-ids"),
        )

    return look


def _meanings() -> dict[str, str]:
    """Describe each value, with the formulas that need it."""
    found: dict[str, str] = {}
    for value in _VALUES:
        titles: dict[str, list[str]] = {}
        for formula in FORMULAS.values():
            if value in formula.meanings:
                titles.setdefault(formula.meanings[value], []).append(formula.title)
        found[value] = "; ".join(f"{meaning} ({' and '.join(of)})" for meaning, of in titles.items())
    return found


@router.get("/pipelines/{name}/imported-ids")
@router.get("/pipelines/{name}/imported-ids/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, name: str) -> Response:
    return await screen.live(request, wiring, by, looking_at(name))


@router.post("/pipelines/{name}/imported-ids")
async def preview_or_import(
    request: Request,
    wiring: WiringDep,
    uow: Uow,
    by: Author,
    name: str,
    csv: Annotated[str, Form(max_length=MAX_CSV_CHARACTERS)] = "",
    formula: Words = "",
    application_id: Words = "",
    subtopology: Words = "",
    process_id: Words = "",
    prefix: Words = "",
    group: Words = "",
    count: Annotated[str, Form(max_length=20)] = "",
    why: Words = "",
    do: Annotated[str, Form(pattern="^(preview|import)$")] = "preview",
) -> Response:
    """The first press shows what would be done, the second does it."""
    values = {
        "csv": csv,
        "formula": formula,
        "application_id": application_id,
        "subtopology": subtopology,
        "process_id": process_id,
        "prefix": prefix,
        "group": group,
        "count": count,
        "why": why,
    }
    now = wiring.clock.now()
    try:
        wish = _wish(values)
        asked = (uow, wiring.brokers, wiring.observations)
        if do == "import":
            await id_imports.import_ids(*asked, pipeline=name, wish=wish, by=by, why=why or None, now=now)
            await uow.commit()
            return screen.see("pipelines", name, "imported-ids", said="ids-imported")
        plan = await id_imports.plan_import(*asked, pipeline=name, wish=wish, by=by, now=now)
    except FencelineError as error:
        problems = by_field([_of_form(one) for one in problems_of(error)], fields=_FIELDS)
        return await _again(request, wiring, by, looking_at(name, values=values, problems=problems), error.status)
    status = 422 if plan.problems else 200
    return await _again(request, wiring, by, looking_at(name, values=values, plan=plan), status)


@router.post("/pipelines/{name}/imported-ids/forget")
async def forget(
    wiring: WiringDep,
    uow: Uow,
    by: Annotated[Principal, may(Verb.FORGET_IMPORTED_IDS)],
    name: str,
    why: Words = "",
) -> Response:
    await id_imports.forget_imports(uow, name, by=by, why=why or None, now=wiring.clock.now())
    await uow.commit()
    return screen.see("pipelines", name, "imported-ids", said="ids-forgotten")


def _wish(values: Mapping[str, str]) -> ImportWish:
    """Raises InvalidError. Values that the chosen formula does not need are ignored."""
    formula = FORMULAS.get(values["formula"])
    needed = () if formula is None else formula.meanings
    count = values["count"].strip()
    if count and not (count.isascii() and count.isdecimal() and len(count) <= 9):
        raise InvalidError(f"`{count}` is not a number of ids", field="count")
    return ImportWish(
        csv=values["csv"],
        formula=values["formula"] or None,
        values={name: values[name].strip() for name in _VALUES if name in needed and values[name].strip()},
        count=int(count or 0),
    )


def _of_form(problem: Problem) -> Problem:
    return Problem(field=problem.field.removeprefix("values."), message=problem.message, is_warning=problem.is_warning)


async def _again(request: Request, wiring: Wiring, by: Principal, look: Look, status: int) -> Response:
    """Show the form with its input, read in a new unit of work, since an error ends the first one."""
    now = wiring.clock.now()
    async with wiring.unit_of_work() as fresh:
        shown = await look(fresh, by, now)
    made = replace(shown, status=status)
    return screen.show(request, made, principal=by, now=now)
