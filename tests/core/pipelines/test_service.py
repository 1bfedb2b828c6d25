"""Pipelines: created completely or not at all, changed by immutable revisions, removed only without a live run."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest
from msgspec.structs import replace

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.brokers import Connection
from app.core.clusters.cluster import ClusterFacts
from app.core.pipelines.pipeline import PythonFunction
from app.core.pipelines.service import pipelines
from app.core.pipelines.service.pipelines import SavedPipeline
from app.core.pipelines.store import PipelineStore
from app.core.runs.run import RunEnd, RunState
from app.core.runs.store.runs import RunStore
from app.core.runs.task import OutcomeKind
from app.edges.kafka.admin import KafkaBrokers
from app.kit.access import Principal, Role
from app.kit.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, PreconditionError
from tests.support.control_plane import ANNA, ControlPlane, definition

ALLOWED = AllowedOptions()


class ImpatientBrokers(KafkaBrokers):
    """No broker listens at the address of the cluster `test`; these tests detect that quickly."""

    async def facts(
        self,
        connection: Connection,
        *,
        topics: Collection[str],
        groups: Collection[str] = (),
        own_client_ids: Collection[str] = (),
        timeout_s: float = 0.2,
    ) -> ClusterFacts:
        return await super().facts(
            connection, topics=topics, groups=groups, own_client_ids=own_client_ids, timeout_s=0.2
        )


BROKERS = ImpatientBrokers(environment={}, secrets_dir=None)


async def create(plane: ControlPlane, name: str = "flights", by: Principal = ANNA, **fields: Any) -> SavedPipeline:
    async with plane.uow() as uow:
        saved = await pipelines.create_pipeline(
            uow, BROKERS, name=name, definition=definition(**fields), allowed=ALLOWED, by=by, why="new", now=plane.now
        )
        await uow.commit()
    return saved


async def change(
    plane: ControlPlane, expected: int | None = None, name: str = "flights", **fields: Any
) -> SavedPipeline:
    async with plane.uow() as uow:
        before = await uow.of(PipelineStore).get(name)
        saved = await pipelines.change_pipeline(
            uow,
            BROKERS,
            name=name,
            definition=replace(before.definition, **fields),
            expected_revision=expected,
            allowed=ALLOWED,
            by=ANNA,
            why=None,
            now=plane.now,
            note="a note",
        )
        await uow.commit()
    return saved


async def test_without_a_broker_a_pipeline_is_created_with_a_warning(plane: ControlPlane) -> None:
    await plane.cluster()
    saved = await create(plane)
    assert (saved.pipeline.name, saved.pipeline.current_revision) == ("flights", 1)
    (away,) = [problem for problem in saved.warnings if problem.field == "cluster"]
    assert "127.0.0.1:9" in away.message
    assert "Not checked: whether the topics exist" in away.message


async def test_every_mistake_is_named_at_its_field_and_nothing_is_kept(plane: ControlPlane) -> None:
    await plane.cluster()
    with pytest.raises(InvalidError) as refused:
        await create(plane, sink_topic="in", commit_interval_ms=99_999_999)
    fields = {problem.field for problem in refused.value.problems if not problem.is_warning}
    assert {"sink_topic", "commit_interval_ms"} <= fields
    async with plane.uow() as uow:
        assert await uow.of(PipelineStore).find("flights") is None
        assert (await uow.of(CommandStore).list(CommandFilter(), after=None, limit=10)).items == ()


async def test_an_unknown_cluster_is_named_with_those_there_are(plane: ControlPlane) -> None:
    await plane.cluster()
    with pytest.raises(InvalidError, match=r"there is no cluster 'tset'; there are: test"):
        await create(plane, cluster="tset")


async def test_two_pipelines_never_share_a_group_however_they_meet(plane: ControlPlane) -> None:
    await plane.cluster()
    outcomes = await asyncio.gather(
        create(plane, "one", group_id="same"), create(plane, "two", group_id="same"), return_exceptions=True
    )
    (error,) = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert isinstance(error, (ConflictError, InvalidError))
    assert "group" in str(error)


async def test_one_of_two_concurrent_pipelines_of_one_name_is_created(plane: ControlPlane) -> None:
    await plane.cluster()
    outcomes = await asyncio.gather(create(plane, group_id="a"), create(plane, group_id="b"), return_exceptions=True)
    (error,) = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert isinstance(error, ConflictError)
    assert "name" in error.message or "already" in error.message


async def test_a_change_is_a_new_revision_with_a_readable_diff(plane: ControlPlane) -> None:
    await plane.pipeline()
    saved = await change(plane, expected=1, commit_interval_ms=200)
    assert (saved.pipeline.current_revision, saved.is_changed, saved.rolling) == (2, True, False)
    async with plane.uow() as uow:
        (difference,) = await pipelines.diff_revisions(uow, "flights", 1, 2)
        newest, oldest = await pipelines.list_revisions(uow, "flights")
        log = await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=1)
    assert (difference.field, difference.before, difference.after) == ("commit_interval_ms", 100, 200)
    assert (newest.number, newest.note, oldest.number) == (2, "a note", 1)
    assert log.items[0].details == {"differences": [difference.sentence]}


async def test_the_same_definition_makes_no_revision(plane: ControlPlane) -> None:
    await plane.pipeline()
    saved = await change(plane)
    assert (saved.is_changed, saved.pipeline.current_revision) == (False, 1)


async def test_second_of_two_changes_from_one_revision_is_refused(plane: ControlPlane) -> None:
    await plane.pipeline()
    outcomes = await asyncio.gather(
        change(plane, expected=1, commit_interval_ms=200),
        change(plane, expected=1, commit_interval_ms=300),
        return_exceptions=True,
    )
    (error,) = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert isinstance(error, PreconditionError)
    assert "is at revision 2 by now, your change is based on 1" in error.message


async def test_a_change_under_a_run_rolls_it(plane: ControlPlane) -> None:
    run = await plane.running(instances=2)
    saved = await change(plane, sink_topic="elsewhere")
    assert saved.rolling
    rolled = await plane.get_run(run.id)
    assert (rolled.revision, rolled.state) == (2, RunState.BOUNCING)


async def test_a_change_that_cannot_be_rolled_waits_and_says_for_what(plane: ControlPlane) -> None:
    run = await plane.running()
    saved = await change(plane, transactional_id_prefix="other")
    assert (saved.rolling, saved.waits_for_restart) == (False, ("transactional_id_prefix",))
    kept = await plane.get_run(run.id)
    assert (kept.revision, kept.state) == (1, RunState.RUNNING)


async def test_a_running_pipeline_does_not_move_to_another_cluster(plane: ControlPlane) -> None:
    await plane.running()
    await plane.cluster("second", kafka_cluster_id="another")
    with pytest.raises(ConflictError, match="runs on cluster test: drain it before it moves"):
        await change(plane, cluster="second")


async def test_a_pipeline_is_deleted_when_no_run_lives_and_its_command_stays(plane: ControlPlane) -> None:
    run = await plane.running()
    async with plane.uow() as uow:
        with pytest.raises(ConflictError, match="has a run that is running: drain or kill it"):
            await pipelines.delete_pipeline(uow, "flights", by=ANNA, why=None, now=plane.now)
    await plane.outcome(run.id, kind=OutcomeKind.DRAINED)
    async with plane.uow() as uow:
        await uow.of(RunStore).end(run.id, end=RunEnd.STOPPED, reason="x", now=plane.now)
        await pipelines.delete_pipeline(uow, "flights", by=ANNA, why="not needed", now=plane.now)
        await uow.commit()
    async with plane.uow() as uow:
        with pytest.raises(NotFoundError, match="there is no pipeline flights"):
            await pipelines.get_pipeline(uow, "flights")
        (command,) = (
            await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=10)
        ).items
        assert command.details["definition"]["group_id"] == "flights-group"
    await plane.pipeline()


async def test_an_operator_changes_no_definition(plane: ControlPlane) -> None:
    await plane.cluster()
    with pytest.raises(ForbiddenError, match="to create pipeline requires the role author; ole is operator"):
        await create(plane, by=Principal(name="ole", role=Role.OPERATOR))


async def test_python_files_are_kept_once_and_only_where_they_are_allowed(plane: ControlPlane) -> None:
    source = "def f(record):\n    return record\n"

    async def store(allowed: AllowedOptions) -> str:
        async with plane.uow() as uow:
            kept = await pipelines.store_transform_source(
                uow, source=source, allowed=allowed, by=ANNA, why=None, now=plane.now
            )
            await uow.commit()
        return kept.sha256

    with pytest.raises(InvalidError, match="FENCELINE_PYTHON_TRANSFORMS"):
        await store(ALLOWED)
    allowed = AllowedOptions(python_transforms=True)
    assert await store(allowed) == await store(allowed)


async def test_a_python_transform_needs_its_file(plane: ControlPlane) -> None:
    await plane.cluster()
    transform = PythonFunction(function="f", file_name="f.py", sha256="0" * 64)
    async with plane.uow() as uow:
        problems = await pipelines.validate_pipeline(
            uow,
            BROKERS,
            name="flights",
            definition=definition(transform=transform),
            allowed=AllowedOptions(python_transforms=True),
            by=ANNA,
        )
    assert any(p.field == "transform.sha256" and "upload f.py first" in p.message for p in problems)


async def test_pipelines_are_listed_by_name_page_by_page(plane: ControlPlane) -> None:
    for name in ("c", "a", "b"):
        await plane.pipeline(name)
    async with plane.uow() as uow:
        first = await pipelines.list_pipelines(uow, limit=2)
        rest = await pipelines.list_pipelines(uow, limit=2, after=first.next_cursor)
        with pytest.raises(InvalidError, match="cursor"):
            await pipelines.list_pipelines(uow, after="nonsense")
        with pytest.raises(InvalidError, match="from 1 to"):
            await pipelines.list_pipelines(uow, limit=0)
    assert [p.name for p in (*first.items, *rest.items)] == ["a", "b", "c"]
