"""Checks of a definition against everything that is known now; nothing is saved."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.brokers import DEFAULT_TIMEOUT_S, Brokers
from app.core.clusters.cluster import Cluster, ClusterFacts
from app.core.clusters.service import refuse_other_cluster
from app.core.clusters.store import ClusterStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.pipelines.pipeline import PipelineDefinition, PythonFunction, Route, Steps
from app.core.pipelines.pipeline_checks import OtherPipeline, check
from app.core.pipelines.state_changes import state_changes
from app.core.pipelines.store import PipelineStore
from app.core.pipelines.taking_effect import PendingChange, pending_changes
from app.core.runs import recorded_offset
from app.core.runs.client_id import client_id_prefix
from app.core.runs.service.recorded_offsets import compare_offsets
from app.core.runs.store.runs import RunStore
from app.core.transforms.dataframe_plan import check_plan
from app.core.transforms.python_transforms import check_python_transform
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import InvalidError, Problem, UnavailableError
from app.kit.words import did_you_mean


async def validate_pipeline(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    name: str,
    definition: PipelineDefinition,
    allowed: AllowedOptions,
    by: Principal,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    plan: Sequence[Problem] = (),
) -> list[Problem]:
    """Return all problems of a definition, each at its field; nothing is saved.

    It also answers without the brokers: a warning at `cluster` names the parts that were not checked.

    plan: problems of a query's plan, from `plan_problems`.
    """
    require(by, Verb.VIEW)
    clusters = {cluster.name: cluster for cluster in await uow.of(ClusterStore).list_all()}
    cluster = clusters.get(definition.cluster)
    problems: list[Problem] = []
    facts: ClusterFacts | None = None
    if cluster is None:
        known = ", ".join(sorted(clusters)) or "none yet; an administrator registers them"
        similar = did_you_mean(definition.cluster, clusters)
        problems.append(
            Problem(field="cluster", message=f"there is no cluster {definition.cluster!r}; there are: {known}{similar}")
        )
    else:
        facts, more = await _facts(brokers, cluster, definition, name=name, timeout_s=timeout_s)
        problems += more
        if facts is not None and definition.group_id:
            problems += await _check_offsets(uow, brokers, cluster, definition, name=name, timeout_s=timeout_s)
    problems += check(definition, name=name, facts=facts, others=await _others(uow, name, clusters), allowed=allowed)
    problems += await _check_python(uow, definition, allowed=allowed)
    problems += await _check_state(uow, name, definition)
    return [*problems, *plan]


async def plan_problems(
    uow: UnitOfWork,
    brokers: Brokers,
    *,
    name: str,
    definition: PipelineDefinition,
    allowed: AllowedOptions,
    by: Principal,
) -> list[Problem]:
    """Return the problems of a query's plan by Spark; empty for other pipelines, and for a query with other errors.

    Spark takes up to two minutes, for which Postgres keeps no transaction. So the unit's transaction is rolled back
    before: call this first of all.
    """
    query = definition.dataframe
    if query is None:
        return []
    found = await validate_pipeline(uow, brokers, name=name, definition=definition, allowed=allowed, by=by)
    source = None if query.sha256 is None else await uow.of(PipelineStore).find_source(query.sha256)
    await uow.rollback()
    if any(_is_of_query(problem) for problem in found):
        return []
    if query.sha256 is not None and source is None:
        return [_not_uploaded(query.sha256, query.file_name or "the file")]
    return await check_plan(
        definition,
        source=None if source is None else source.source,
        secret_paths=allowed.secret_paths,
        accepts_no_isolation=allowed.unisolated_validation,
        java_home=allowed.java_home,
    )


async def _check_offsets(
    uow: UnitOfWork,
    brokers: Brokers,
    cluster: Cluster,
    definition: PipelineDefinition,
    *,
    name: str,
    timeout_s: float,
) -> list[Problem]:
    """Return the problems of the group's offsets that a start would report, as warnings."""
    try:
        compared = await compare_offsets(uow, brokers, cluster=cluster, definition=definition, timeout_s=timeout_s)
    except UnavailableError as error:
        message = f"{error.message} Not checked: whether the group still has the committed offsets"
        return [Problem(field="group_id", message=message, is_warning=True)]
    is_query = definition.dataframe is not None
    return list(recorded_offset.problems(name, definition.group_id, compared, is_query=is_query))


async def unsaved_changes(uow: UnitOfWork, name: str, definition: PipelineDefinition) -> list[PendingChange]:
    """Return the changes since the current revision, and when each takes effect; empty for a new pipeline."""
    before = await uow.of(PipelineStore).find(name)
    if before is None:
        return []
    run = await uow.of(RunStore).find_live(name)
    running = None if run is None else await uow.of(PipelineStore).get_revision(name, run.revision)
    return pending_changes(before.definition, None if running is None else running.definition, definition)


def refuse_invalid(name: str, problems: list[Problem], *, verb: str) -> None:
    """Raise InvalidError with all problems if any of them is more than a warning."""
    errors = [problem for problem in problems if not problem.is_warning]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidError(
            f"pipeline {name} cannot be {verb}: {errors[0].field}: {errors[0].message}{more}", problems=problems
        )


async def _facts(
    brokers: Brokers,
    cluster: Cluster,
    definition: PipelineDefinition,
    *,
    name: str,
    timeout_s: float,
) -> tuple[ClusterFacts | None, list[Problem]]:
    try:
        facts = await brokers.facts(
            cluster.connection(),
            topics=topics_of(definition),
            groups=(definition.group_id,) if definition.group_id else (),
            # Members that a run of Fenceline left behind are not foreign either: they end with their session.
            own_client_ids=(client_id_prefix(name),),
            timeout_s=timeout_s,
        )
    except UnavailableError as error:
        message = (
            f"{error.message} Not checked: whether the topics exist and have enough partitions, the brokers' version "
            "and limits, and other members of the consumer group"
        )
        return None, [Problem(field="cluster", message=message, is_warning=True)]
    refuse_other_cluster(cluster, facts.cluster_id)
    return facts, []


def topics_of(definition: PipelineDefinition) -> tuple[str, ...]:
    """Return every topic that the definition names, read or written."""
    routes = (
        tuple(step.topic for step in definition.transform.steps if isinstance(step, Route))
        if isinstance(definition.transform, Steps)
        else ()
    )
    dead_letter = definition.errors.dead_letter_topic
    named = (*definition.source_topics, definition.sink_topic, *routes, *((dead_letter,) if dead_letter else ()))
    return tuple(topic for topic in dict.fromkeys(named) if topic)


async def _others(uow: UnitOfWork, name: str, clusters: dict[str, Cluster]) -> list[OtherPipeline]:
    owned = await uow.of(TransactionalIdStore).by_pipeline()
    return [
        OtherPipeline(
            name=other.name,
            cluster=other.cluster,
            kafka_cluster_id=clusters[other.cluster].kafka_cluster_id,
            group_id=other.definition.group_id,
            transactional_ids=owned.get(other.name, frozenset()),
            checkpoint=None if (query := other.definition.dataframe) is None else query.checkpoint,
        )
        for other in await uow.of(PipelineStore).list_all()
        if other.name != name
    ]


async def _check_python(uow: UnitOfWork, definition: PipelineDefinition, *, allowed: AllowedOptions) -> list[Problem]:
    """Return a problem unless the named file was uploaded, imports and has the function."""
    transform = definition.transform
    if not isinstance(transform, PythonFunction) or not allowed.python_transforms:
        return []
    source = await uow.of(PipelineStore).find_source(transform.sha256)
    if source is None:
        return [_not_uploaded(transform.sha256, transform.file_name)]
    return await check_python_transform(
        transform,
        source=source.source,
        secret_paths=allowed.secret_paths,
        accepts_no_isolation=allowed.unisolated_validation,
    )


async def _check_state(uow: UnitOfWork, name: str, definition: PipelineDefinition) -> list[Problem]:
    """Return a warning for each change since the current revision that may need a new checkpoint."""
    before = await uow.of(PipelineStore).find(name)
    if before is None:
        return []
    return [
        Problem(field=change.field, message=change.message, is_warning=True)
        for change in state_changes(before.definition, definition)
    ]


def _is_of_query(problem: Problem) -> bool:
    return not problem.is_warning and problem.field.startswith(("transform", "tasks_per_instance"))


def _not_uploaded(sha256: str, file_name: str) -> Problem:
    message = f"no file with the SHA-256 {sha256} was uploaded: upload {file_name} first"
    return Problem(field="transform.sha256", message=message)
