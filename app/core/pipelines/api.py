"""Pipelines and their revisions over REST: create, check, change, compare, delete."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from app.core.access.repeated_commands import OnceDep
from app.core.access.signed_in import Viewer, may
from app.core.journals.log_look import parse_start
from app.core.pipelines.definition import with_group
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline, Revision
from app.core.pipelines.schemas import ChangeGiven, DefinitionGiven, Diff, PipelineGiven, TrialGiven, Validation
from app.core.pipelines.service import pipelines
from app.core.pipelines.service.pipelines import SavedPipeline
from app.core.pipelines.service.trying import Trial, TrialQuery, reader_of, try_pipeline
from app.core.pipelines.service.validation import plan_problems, unsaved_changes, validate_pipeline
from app.core.wiring import WiringDep
from app.kit.access import Principal, Verb
from app.kit.errors import InvalidError, Problem
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NameInPath, NumberInPath, Why
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/pipelines", tags=["pipelines"])
IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", max_length=100, description="The ETag of the pipeline on which the change is based."),
]


async def _plan(
    uow: Uow, wiring: WiringDep, by: Principal, definition: PipelineDefinition, *, name: str
) -> list[Problem]:
    """Return the problems of a query's plan. The unit's transaction is rolled back before."""
    return await plan_problems(
        uow,
        wiring.brokers,
        name=name,
        definition=with_group(definition, name=name),
        allowed=wiring.allowed_options,
        by=by,
    )


@router.get("", responses=refusals())
async def list_pipelines(uow: Uow, _: Viewer, after: After = None, limit: Limit = 50) -> Shown[Page[Pipeline]]:
    """List all pipelines with their current definition and run, by name."""
    return await pipelines.list_pipelines(uow, after=after, limit=limit)


@router.post("", status_code=201, response_model=Shown[SavedPipeline], responses=refusals(409, 413))
async def create_pipeline(
    body: PipelineGiven, uow: Uow, wiring: WiringDep, once: OnceDep, by: Annotated[Principal, may(Verb.CREATE_PIPELINE)]
) -> Response:
    """Create a pipeline with its first revision. Nothing runs yet."""
    plan: list[Problem] = []

    async def make_plan() -> None:
        plan[:] = await _plan(uow, wiring, by, body.definition, name=body.name)

    async def act() -> SavedPipeline:
        return await pipelines.create_pipeline(
            uow,
            wiring.brokers,
            name=body.name,
            definition=with_group(body.definition, name=body.name),
            allowed=wiring.allowed_options,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
            note=body.note,
            plan=plan,
        )

    answer = await once.do(act, status=201, prepare=make_plan)
    await uow.commit()
    return answer


@router.post("/{name}/try", responses=refusals(404, 413))
async def try_definition(
    name: NameInPath,
    body: TrialGiven,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.VALIDATE_PIPELINE)],
) -> Shown[Trial]:
    """Run a definition's transform on real records of a source topic; for authors. Nothing is written to Kafka.

    Each request is recorded in the command log, as reads of records are.
    """
    return await try_pipeline(
        uow,
        reader_of(wiring.parts),
        definition=with_group(body.definition, name=name),
        query=TrialQuery(
            records=body.records, topic=body.topic, partition=body.partition, start=parse_start(body.start)
        ),
        allowed=wiring.allowed_options,
        by=by,
    )


@router.post("/{name}/validate", responses=refusals(413))
async def validate_definition(
    name: NameInPath,
    body: DefinitionGiven,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.VALIDATE_PIPELINE)],
) -> Validation:
    """Check a definition against the rules, the other pipelines and the cluster. Nothing is saved.

    It answers also without the brokers; a warning then names the parts that could not be checked.
    """
    plan = await _plan(uow, wiring, by, body.definition, name=name)
    problems = await validate_pipeline(
        uow,
        wiring.brokers,
        name=name,
        definition=with_group(body.definition, name=name),
        allowed=wiring.allowed_options,
        by=by,
        plan=plan,
    )
    return Validation(
        is_valid=all(problem.is_warning for problem in problems),
        problems=list(problems),
        changes=await unsaved_changes(uow, name, with_group(body.definition, name=name)),
    )


@router.get("/{name}", responses=refusals(404))
async def get_pipeline(name: NameInPath, uow: Uow, response: Response, _: Viewer) -> Shown[Pipeline]:
    """Return its current definition and run. If-Match of a change takes the ETag."""
    pipeline = await pipelines.get_pipeline(uow, name)
    response.headers["ETag"] = f'"{pipeline.current_revision}"'
    return pipeline


@router.put("/{name}", response_model=Shown[SavedPipeline], responses=refusals(404, 409, 412, 413))
async def change_pipeline(
    name: NameInPath,
    body: ChangeGiven,
    uow: Uow,
    wiring: WiringDep,
    once: OnceDep,
    by: Annotated[Principal, may(Verb.CHANGE_PIPELINE)],
    if_match: IfMatch = None,
) -> Response:
    """Make a new revision. A live run moves to it one instance at a time, if that is safe."""
    plan: list[Problem] = []

    async def make_plan() -> None:
        plan[:] = await _plan(uow, wiring, by, body.definition, name=name)

    async def act() -> SavedPipeline:
        return await pipelines.change_pipeline(
            uow,
            wiring.brokers,
            name=name,
            definition=with_group(body.definition, name=name),
            expected_revision=body.expected_revision if if_match is None else _revision_of(if_match),
            allowed=wiring.allowed_options,
            by=by,
            why=body.why,
            now=wiring.clock.now(),
            note=body.note,
            plan=plan,
        )

    answer = await once.do(act, prepare=make_plan)
    await uow.commit()
    return answer


@router.delete("/{name}", status_code=204, responses=refusals(404, 409))
async def delete_pipeline(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.DELETE_PIPELINE)],
    why: Annotated[Why, Query()] = None,
) -> None:
    """Delete a pipeline with its revisions and past runs; refused while a run lives. Nothing in Kafka changes."""
    await pipelines.delete_pipeline(uow, name, by=by, why=why, now=wiring.clock.now())
    await uow.commit()


@router.get("/{name}/revisions", responses=refusals(404))
async def list_revisions(name: NameInPath, uow: Uow, _: Viewer) -> Shown[Items[Revision]]:
    """List all revisions with their definitions, newest first."""
    return Items(await pipelines.list_revisions(uow, name))


@router.get("/{name}/revisions/{number}", responses=refusals(404))
async def get_revision(name: NameInPath, number: NumberInPath, uow: Uow, _: Viewer) -> Shown[Revision]:
    """Return the definition of a revision, which never changes."""
    return await pipelines.get_revision(uow, name, number)


@router.get("/{name}/diff", responses=refusals(404))
async def diff_revisions(
    name: NameInPath,
    uow: Uow,
    _: Viewer,
    before: Annotated[int, Query(alias="from", ge=1, lt=2**31)],
    after: Annotated[int, Query(alias="to", ge=1, lt=2**31)],
) -> Diff:
    """List the differences of two revisions, a sentence for each."""
    changes = await pipelines.diff_revisions(uow, name, before, after)
    return Diff(
        pipeline=name,
        from_revision=before,
        to_revision=after,
        changes=list(changes),
    )


def _revision_of(etag: str) -> int:
    """Return the revision number of an ETag. Raises InvalidError for any other text."""
    word = etag.strip().removeprefix("W/").strip('"')
    if not (word.isascii() and word.isdigit() and len(word) < 10):
        raise InvalidError('If-Match must be the ETag of the pipeline, such as "3"', field="If-Match")
    return int(word)
