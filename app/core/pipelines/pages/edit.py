"""The form of a pipeline: checked on input, and saved as revision 1 or the next one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request, Response
from starlette.datastructures import FormData, UploadFile

from app.core.access.signed_in import may
from app.core.clusters import service as clusters
from app.core.journals.content_view import ContentView, shown_content
from app.core.pipelines.pages import dataframe_form, file_sink_form, trial_form
from app.core.pipelines.pages.form import STEP_FIELDS, definition_of, form_of, steps_of, values_of, with_steps
from app.core.pipelines.pages.tabs import tabs_of
from app.core.pipelines.pages.trial_form import RecordsPanel
from app.core.pipelines.pipeline import (
    FailurePolicy,
    GroupProtocol,
    OffsetFencing,
    PipelineDefinition,
    ProcessingGuarantee,
    PythonScope,
    StartPosition,
    StepOperator,
)
from app.core.pipelines.service import pipelines
from app.core.pipelines.service.validation import plan_problems, unsaved_changes, validate_pipeline
from app.core.pipelines.taking_effect import PendingChange
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, Problem
from app.kit.web.dependencies import Uow
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.form_errors import problems_of
from app.kit.web.pages.form_rows import without_row
from app.kit.web.pages.screen import Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)

FORM_CHOICES: Mapping[str, Sequence[tuple[str, str]]] = {
    "start_position": [(StartPosition.EARLIEST, "the earliest record"), (StartPosition.LATEST, "new records only")],
    "group_protocol": [
        (GroupProtocol.CLASSIC, "classic (cooperative-sticky)"),
        (GroupProtocol.CONSUMER, "consumer (KIP-848)"),
    ],
    "processing_guarantee": [
        (ProcessingGuarantee.EXACTLY_ONCE_V2, "exactly_once_v2"),
        (ProcessingGuarantee.AT_LEAST_ONCE, "at_least_once"),
        (ProcessingGuarantee.EXACTLY_ONCE, "exactly_once (per partition)"),
    ],
    "offset_fencing": [
        (OffsetFencing.GENERATION, "generation: no stale members"),
        (OffsetFencing.GROUP_ONLY, "group_only: as before KIP-447"),
    ],
    "errors.policy": [
        (FailurePolicy.FAIL, "fail: abort and stop there"),
        (FailurePolicy.SKIP, "skip it and count it"),
        (FailurePolicy.DEAD_LETTER, "dead letter, same transaction"),
    ],
    **file_sink_form.CHOICES,
    **dataframe_form.CHOICES,
    "allows_drills": [("false", "not allowed"), ("true", "allowed")],
    "transform.scope": [
        (PythonScope.RECORD, "one record at a time"),
        (PythonScope.BATCH, "a batch at a time"),
        (PythonScope.ARROW, "an Arrow batch at a time, for pyarrow and polars"),
    ],
    "step.op": [
        ("filter", "filter: keep if"),
        ("condition", "condition: keep if (CEL)"),
        ("project", "project: keep only fields"),
        ("rename", "rename a field"),
        ("set", "set a field"),
        ("route", "route to a topic if"),
    ],
    "step.operator": [
        (StepOperator.EQ, "= equals"),
        (StepOperator.NE, "≠ differs from"),
        (StepOperator.LT, "< less than"),
        (StepOperator.LE, "≤ at most"),
        (StepOperator.GT, "> more than"),
        (StepOperator.GE, "≥ at least"),
        (StepOperator.IN, "is one of"),
        (StepOperator.EXISTS, "exists"),
        (StepOperator.MISSING, "is missing"),
    ],
}
"""The choices of each field, except those that depend on the server."""


_WITH_FILE = ("python", dataframe_form.KIND)


@dataclass(frozen=True, kw_only=True)
class _Editing:
    """The edited pipeline: a new one, or an existing one with the revision that the change starts from."""

    name: str | None
    expected_revision: int | None = None

    @property
    def action(self) -> str:
        return screen.url_of("new-pipeline") if self.name is None else screen.url_of("pipelines", self.name, "edit")


@router.get("/new-pipeline")
async def show_new(
    request: Request, wiring: WiringDep, uow: Uow, by: Annotated[Principal, may(Verb.CREATE_PIPELINE)]
) -> Response:
    known = await clusters.list_clusters(uow)
    first = known[0].name if known else ""
    values = values_of("", PipelineDefinition(cluster=first, source_topics=(), group_id="", sink_topic=""))
    shown = await _screen(uow, wiring, by, _Editing(name=None), values)
    return screen.show(request, shown, principal=by, now=wiring.clock.now())


@router.post("/new-pipeline")
async def edit_new(
    request: Request, wiring: WiringDep, by: Annotated[Principal, may(Verb.CREATE_PIPELINE)]
) -> Response:
    return await _edit(request, wiring, by, _Editing(name=None))


@router.get("/pipelines/{name}/edit")
async def show_edit(
    request: Request, wiring: WiringDep, uow: Uow, by: Annotated[Principal, may(Verb.CHANGE_PIPELINE)], name: str
) -> Response:
    pipeline = await pipelines.get_pipeline(uow, name)
    editing = _Editing(name=name, expected_revision=pipeline.current_revision)
    shown = await _screen(uow, wiring, by, editing, values_of(name, pipeline.definition))
    return screen.show(request, shown, principal=by, now=wiring.clock.now())


@router.post("/pipelines/{name}/edit")
async def edit(
    request: Request, wiring: WiringDep, by: Annotated[Principal, may(Verb.CHANGE_PIPELINE)], name: str
) -> Response:
    return await _edit(request, wiring, by, _Editing(name=name))


async def _edit(request: Request, wiring: Wiring, by: Principal, editing: _Editing) -> Response:
    """Handle every button: change steps, columns or streams, check, or save. `live` is the check during input."""
    given = await request.form()
    do = _text(given, "do") or "live"
    typed = {name: value for name, value in given.multi_items() if isinstance(value, str)}
    # Fields that were not on the page yet, such as those of files before files are chosen, have defaults.
    defaults = {**file_sink_form.DEFAULTS, **dataframe_form.DEFAULTS, **trial_form.DEFAULTS}
    values = dataframe_form.completed({**defaults, **typed})
    if (name := editing.name) is not None:
        revision = _text(given, "expected_revision")
        editing = _Editing(name=name, expected_revision=int(revision) if revision.isdecimal() else None)
        values["name"] = name
    if do == "save":
        return await _save(request, wiring, by, editing, values, given)
    if do == "add-step":
        values = with_steps(values, [*steps_of(values), {"op": "filter", "operator": StepOperator.EQ}])
    elif do.startswith("remove-step:"):
        values = with_steps(values, without_row(steps_of(values), do.partition(":")[2]))
    elif do == "add-column":
        values = file_sink_form.with_columns(values, [*file_sink_form.columns_of(values), {"of": "field"}])
    elif do.startswith("remove-column:"):
        left = without_row(file_sink_form.columns_of(values), do.partition(":")[2])
        values = file_sink_form.with_columns(values, left)
    elif do == "add-stream":
        values = dataframe_form.with_streams(values, [*dataframe_form.streams_of(values), {"name": ""}])
    elif do.startswith("remove-stream:"):
        kept = without_row(dataframe_form.streams_of(values), do.partition(":")[2])
        values = dataframe_form.with_streams(values, kept)
    is_htmx = request.headers.get("hx-request") == "true"
    if do in (trial_form.SAMPLE, trial_form.TRY):
        return await _records(request, wiring, by, editing, values, given, is_htmx=is_htmx)
    problems: Sequence[Problem] = ()
    changes: Sequence[PendingChange] = ()
    if do in ("check", "live"):
        problems, values = await _problems(wiring, by, values, given, makes_plan=do == "check")
        problems = [*problems, *trial_form.field_hints(values)]
    if do == "live":
        # Problems of fields that the user has not reached yet are not shown.
        problems = [problem for problem in problems if values.get(problem.field, "-").strip()]
    async with wiring.unit_of_work() as uow:
        decoded = definition_of(values)
        if do == "check" and editing.name is not None and isinstance(decoded, PipelineDefinition):
            changes = await unsaved_changes(uow, editing.name, decoded)
        shown = await _screen(uow, wiring, by, editing, values, problems, is_checked=do == "check", changes=changes)
    if is_htmx:
        shown = dataclasses.replace(shown, template="pipelines/edit_live")
        return screen.fragment(request, shown, principal=by, now=wiring.clock.now())
    return screen.show(request, shown, principal=by, now=wiring.clock.now())


async def _records(
    request: Request,
    wiring: Wiring,
    by: Principal,
    editing: _Editing,
    values: dict[str, str],
    given: FormData,
    *,
    is_htmx: bool,
) -> Response:
    """Answer with sample records or a trial: by htmx the panel alone, else the whole page."""
    now = wiring.clock.now()
    try:
        values = await _with_source(wiring, by, values, given)
        panel = await trial_form.panel_of(wiring, by, values, _text(given, "do"))
    except FencelineError as error:
        panel = RecordsPanel(errors=[error.message], sampled=trial_form.sampled_of(values))
    async with wiring.unit_of_work() as uow:
        shown = await _screen(uow, wiring, by, editing, values, trial_form.field_hints(values), panel=panel)
    if is_htmx:
        shown = dataclasses.replace(shown, template="pipelines/edit_records")
        return screen.fragment(request, shown, principal=by, now=now)
    return screen.show(request, shown, principal=by, now=now)


async def _problems(
    wiring: Wiring, by: Principal, values: dict[str, str], given: FormData, *, makes_plan: bool
) -> tuple[Sequence[Problem], dict[str, str]]:
    """Return all problems and advice now, and the values with the SHA-256 of an uploaded file."""
    try:
        values = await _with_source(wiring, by, values, given)
    except FencelineError as error:
        return [Problem(field="transform.file", message=error.message)], values
    decoded = definition_of(values)
    if not isinstance(decoded, PipelineDefinition):
        return decoded, values
    try:
        async with wiring.unit_of_work() as uow:
            name = values.get("name", "").strip()
            plan = await _plan(wiring, uow, by, name, decoded) if makes_plan else ()
            problems = await validate_pipeline(
                uow,
                wiring.brokers,
                name=name,
                definition=decoded,
                allowed=wiring.allowed_options,
                by=by,
                plan=plan,
            )
    except FencelineError as error:
        return problems_of(error), values
    return problems, values


async def _plan(
    wiring: Wiring, uow: UnitOfWork, by: Principal, name: str, definition: PipelineDefinition
) -> Sequence[Problem]:
    return await plan_problems(
        uow, wiring.brokers, name=name, definition=definition, allowed=wiring.allowed_options, by=by
    )


async def _save(
    request: Request, wiring: Wiring, by: Principal, editing: _Editing, values: dict[str, str], given: FormData
) -> Response:
    now = wiring.clock.now()
    note, why = values.get("note", "").strip() or None, values.get("why", "").strip() or None
    try:
        values = await _with_source(wiring, by, values, given)
        decoded = definition_of(values)
        if isinstance(decoded, PipelineDefinition):
            async with wiring.unit_of_work() as uow:
                name = editing.name or values.get("name", "").strip()
                plan = await _plan(wiring, uow, by, name, decoded)
                if editing.name is None:
                    await pipelines.create_pipeline(
                        uow,
                        wiring.brokers,
                        name=name,
                        definition=decoded,
                        allowed=wiring.allowed_options,
                        by=by,
                        why=why,
                        now=now,
                        note=note,
                        plan=plan,
                    )
                    said = "created"
                else:
                    saved = await pipelines.change_pipeline(
                        uow,
                        wiring.brokers,
                        name=name,
                        definition=decoded,
                        expected_revision=editing.expected_revision,
                        allowed=wiring.allowed_options,
                        by=by,
                        why=why,
                        now=now,
                        note=note,
                        plan=plan,
                    )
                    said = "changed-rolling" if saved.rolling else "changed" if saved.is_changed else "unchanged"
                await uow.commit()
            return screen.see("pipelines", name, said=said)
        problems: Sequence[Problem] = decoded
        status = 422
    except FencelineError as error:
        problems, status = problems_of(error), error.status
    async with wiring.unit_of_work() as uow:
        shown = await _screen(uow, wiring, by, editing, values, problems, is_checked=True)
    return screen.show(request, dataclasses.replace(shown, status=status), principal=by, now=now)


async def _with_source(wiring: Wiring, by: Principal, values: dict[str, str], given: FormData) -> dict[str, str]:
    """Store an uploaded Python file by its SHA-256, so that it need not be chosen again after another problem."""
    file = given.get("transform.file")
    if not isinstance(file, UploadFile) or not file.filename or values.get("transform.kind") not in _WITH_FILE:
        return values
    data = await file.read()
    async with wiring.unit_of_work() as uow:
        stored = await pipelines.store_transform_source(
            uow,
            source=data.decode("utf-8", errors="replace"),
            allowed=wiring.allowed_options,
            by=by,
            why=None,
            now=wiring.clock.now(),
        )
        await uow.commit()
    return {**values, "transform.file_name": file.filename, "transform.sha256": stored.sha256}


async def _screen(
    uow: UnitOfWork,
    wiring: Wiring,
    by: Principal,
    editing: _Editing,
    values: Mapping[str, str],
    problems: Sequence[Problem] = (),
    *,
    is_checked: bool = False,
    changes: Sequence[PendingChange] = (),
    panel: RecordsPanel | None = None,
) -> Screen:
    del by
    registered = {cluster.name: cluster for cluster in await clusters.list_clusters(uow)}
    # Postgres keeps no transaction while brokers are asked.
    await uow.rollback()
    if panel is None:
        panel = RecordsPanel(sampled=trial_form.sampled_of(values))
    values = {**trial_form.DEFAULTS, **values, "sampled": json.dumps(list(panel.sampled))}
    known = [(name, name) for name in registered]
    kinds = [("identity", "identity: records pass unchanged"), ("steps", "steps on JSON values")]
    if wiring.settings.python_transforms or values.get("transform.kind") == "python":
        kinds.append(("python", "python: a function in an uploaded file"))
    kinds.append((dataframe_form.KIND, "dataframe: Structured Streaming"))
    code = [(dataframe_form.SQL, "SQL")]
    if wiring.settings.python_transforms or values.get(dataframe_form.CODE) == dataframe_form.FILE:
        code.append((dataframe_form.FILE, "a function in an uploaded file"))
    context = {
        "editing": editing.name,
        "expected_revision": editing.expected_revision,
        "form": form_of(values, problems, is_checked=is_checked),
        "choices": {**FORM_CHOICES, "cluster": known, "transform.kind": kinds, dataframe_form.CODE: code},
        "topics": await trial_form.suggested_topics(wiring, registered.get(values.get("cluster", "")), values),
        "panel": panel,
        "source_topics": trial_form.source_topics(values),
        "chosen_topic": trial_form.chosen_topic(values),
        "shown": partial(shown_content, view=ContentView.AUTO),
        "changes": changes,
        "step_fields": STEP_FIELDS,
        "column_fields": file_sink_form.COLUMN_FIELDS,
        "action": editing.action,
    }
    title = "New pipeline" if editing.name is None else f"Edit {editing.name}"
    tabs = None if editing.name is None else await tabs_of(uow, editing.name, "definition")
    return Screen(template="pipelines/edit", title=title, context=context, tabs=tabs)


def _text(given: FormData, name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
