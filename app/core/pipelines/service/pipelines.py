"""Pipelines and their revisions: create, change by a new revision, compare, remove."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec

from app.core.access.service import command_log
from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.brokers import Brokers
from app.core.pipelines.pipeline import PipelineDefinition, sha256_of
from app.core.pipelines.pipeline_record import Pipeline, Revision, TransformSource
from app.core.pipelines.revision import Change, definition_sha256, diff
from app.core.pipelines.service.validation import refuse_invalid, validate_pipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.run import fields_that_need_full_restart
from app.core.runs.service.busy import refuse_while_busy
from app.core.runs.service.runs import roll_run
from app.core.runs.store.runs import RunStore
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import ConflictError, InvalidError, PreconditionError, Problem
from app.kit.page import Page, checked_limit

MAX_SOURCE_BYTES = 512 * 1024


class SavedPipeline(msgspec.Struct, frozen=True, kw_only=True):
    """The result of creating or changing a pipeline. `warnings` did not prevent it.

    rolling: a run lives and its instances now move to the new revision, one at a time.
    waits_for_restart: fields that a rolling bounce cannot apply; the run keeps its revision until a full restart.
    """

    pipeline: Pipeline
    warnings: tuple[Problem, ...] = ()
    is_changed: bool = True
    rolling: bool = False
    waits_for_restart: tuple[str, ...] = ()


async def create_pipeline(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    name: str,
    definition: PipelineDefinition,
    allowed: AllowedOptions,
    by: Principal,
    why: str | None,
    now: datetime,
    note: str | None = None,
    plan: Sequence[Problem] = (),
) -> SavedPipeline:
    """Store a new pipeline with its revision 1. plan: problems of a query's plan, from `plan_problems`.

    Raises InvalidError with every problem at its field, ConflictError if the name or the consumer group is taken.
    """
    require(by, Verb.CREATE_PIPELINE)
    if await uow.of(PipelineStore).find(name) is not None:
        raise ConflictError(f"there is a pipeline {name} already: change it, or take another name", field="name")
    problems = await validate_pipeline(
        uow, brokers, name=name, definition=definition, allowed=allowed, by=by, plan=plan
    )
    refuse_invalid(name, problems, verb="created")
    revision = new_revision(name, 1, definition, note=note, by=by, now=now)
    pipeline = await uow.of(PipelineStore).add(name=name, revision=revision, cluster=definition.cluster)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.CREATE_PIPELINE,
        target=f"pipeline:{name}",
        why=why,
        now=now,
        outcome="created with revision 1",
        details={"definition": msgspec.to_builtins(definition)},
    )
    uow.notify("pipeline", name)
    return SavedPipeline(pipeline=pipeline, warnings=tuple(problems))


async def change_pipeline(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    name: str,
    definition: PipelineDefinition,
    expected_revision: int | None,
    allowed: AllowedOptions,
    by: Principal,
    why: str | None,
    now: datetime,
    note: str | None = None,
    plan: Sequence[Problem] = (),
) -> SavedPipeline:
    """Make a new revision the current one; a live run moves to it by a rolling bounce if that is safe.

    plan: as in `create_pipeline`.
    expected_revision: the revision that the caller started from; PreconditionError if another one is current by now.
    A definition that equals the current one makes no new revision.
    """
    require(by, Verb.CHANGE_PIPELINE)
    problems = await validate_pipeline(
        uow, brokers, name=name, definition=definition, allowed=allowed, by=by, plan=plan
    )
    refuse_invalid(name, problems, verb="changed")
    before = await uow.of(PipelineStore).get(name, for_update=True)
    await refuse_while_busy(uow, name)
    if expected_revision is not None and expected_revision != before.current_revision:
        raise PreconditionError(
            f"pipeline {name} is at revision {before.current_revision} by now, your change is based on "
            f"{expected_revision}: check the changes and repeat yours",
            field="expected_revision",
        )
    warnings = tuple(problems)
    if definition_sha256(before.definition) == definition_sha256(definition):
        return SavedPipeline(pipeline=before, warnings=warnings, is_changed=False)
    run = await uow.of(RunStore).find_live(name)
    if run is not None and definition.cluster != before.definition.cluster:
        raise ConflictError(
            f"pipeline {name} runs on cluster {before.definition.cluster}: drain it before it moves to another one",
            field="cluster",
        )
    number = before.current_revision + 1
    await uow.of(PipelineStore).add_revision(new_revision(name, number, definition, note=note, by=by, now=now))
    rolling, waits = False, ()
    if run is not None:
        running = await uow.of(PipelineStore).get_revision(name, run.revision)
        waits = fields_that_need_full_restart(running.definition, definition)
        rolling = not waits
        if rolling:
            await roll_run(uow, brokers, run_id=run.id, by=by, why=why, now=now)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.CHANGE_PIPELINE,
        target=f"pipeline:{name}",
        why=why,
        now=now,
        outcome=f"revision {number}" + ("; its run moves to it instance by instance" if rolling else ""),
        details={"differences": [change.sentence for change in diff(before.definition, definition)]},
    )
    uow.notify("pipeline", name)
    return SavedPipeline(
        pipeline=await uow.of(PipelineStore).get(name), warnings=warnings, rolling=rolling, waits_for_restart=waits
    )


async def delete_pipeline(uow: UnitOfWork, name: str, *, by: Principal, why: str | None, now: datetime) -> None:
    """Remove a pipeline with its revisions and past runs; the command log keeps its last definition.

    Raises ConflictError while a run lives.
    """
    require(by, Verb.DELETE_PIPELINE)
    pipeline = await uow.of(PipelineStore).get(name, for_update=True)
    run = await uow.of(RunStore).find_live(name)
    if run is not None:
        raise ConflictError(f"pipeline {name} has a run that is {run.state}: drain or kill it before you delete it")
    await uow.of(PipelineStore).remove(name)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.DELETE_PIPELINE,
        target=f"pipeline:{name}",
        why=why,
        now=now,
        outcome=f"deleted at revision {pipeline.current_revision}",
        details={"definition": msgspec.to_builtins(pipeline.definition)},
    )
    uow.notify("pipeline", name)


async def list_pipelines(uow: UnitOfWork, *, after: str | None = None, limit: int = 50) -> Page[Pipeline]:
    """List them by name."""
    return await uow.of(PipelineStore).list(after=after, limit=checked_limit(limit))


async def get_pipeline(uow: UnitOfWork, name: str) -> Pipeline:
    return await uow.of(PipelineStore).get(name)


async def list_revisions(uow: UnitOfWork, name: str) -> list[Revision]:
    """List them newest first."""
    return await uow.of(PipelineStore).list_revisions(name)


async def get_revision(uow: UnitOfWork, name: str, number: int) -> Revision:
    return await uow.of(PipelineStore).get_revision(name, number)


async def diff_revisions(uow: UnitOfWork, name: str, before: int, after: int) -> list[Change]:
    """Return the changes from revision `before` to `after`, in either direction, a sentence for each."""
    old, new = (
        await uow.of(PipelineStore).get_revision(name, before),
        await uow.of(PipelineStore).get_revision(name, after),
    )
    return diff(old.definition, new.definition)


async def store_transform_source(
    uow: UnitOfWork, *, source: str, allowed: AllowedOptions, by: Principal, why: str | None, now: datetime
) -> TransformSource:
    """Store the text of a Python file by its SHA-256, so that a definition can name it. It is not run or imported here.

    Raises InvalidError if the settings do not allow Python transforms, or the file is empty or too large.
    """
    require(by, Verb.STORE_TRANSFORM_SOURCE)
    if not allowed.python_transforms:
        raise InvalidError(
            "Python transforms are switched off on this server; an administrator allows them with "
            "FENCELINE_PYTHON_TRANSFORMS=true. They run with the permissions of the Spark executors",
            field="source",
        )
    data = source.encode("utf-8")
    if not source.strip() or len(data) > MAX_SOURCE_BYTES:
        raise InvalidError(
            f"the file has {len(data):,} bytes; it must have 1 to {MAX_SOURCE_BYTES:,} bytes",
            field="source",
        )
    record = TransformSource(
        sha256=hashlib.sha256(data).hexdigest(), source=source, size_bytes=len(data), created_at=now, created_by=by.name
    )
    await uow.of(PipelineStore).store_source(record)
    await command_log.record(
        uow,
        by=by,
        verb=Verb.STORE_TRANSFORM_SOURCE,
        target=f"transform_source:{record.sha256}",
        why=why,
        now=now,
        outcome=f"kept, {len(data):,} bytes",
    )
    return record


async def get_transform_source(uow: UnitOfWork, sha256: str) -> TransformSource:
    return await uow.of(PipelineStore).get_source(sha256)


def new_revision(
    name: str, number: int, definition: PipelineDefinition, *, note: str | None, by: Principal, now: datetime
) -> Revision:
    """Return a revision to store."""
    return Revision(
        pipeline=name,
        number=number,
        definition=definition,
        definition_sha256=definition_sha256(definition),
        transform_source_sha256=sha256_of(definition.transform),
        created_at=now,
        created_by=by.name,
        note=note,
    )
