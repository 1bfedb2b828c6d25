"""Importing ids on a real database: atomic, without replacements, and never with a live run."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from app.core.access.command import CommandFilter
from app.core.access.store.commands import CommandStore
from app.core.clusters.brokers import Brokers
from app.core.clusters.cluster import TopicFacts
from app.core.ids.imported import LONGEST_ID_BYTES, MAX_LINES, ImportPlan, ImportWish
from app.core.ids.service import imports as id_imports
from app.core.journals.transaction_state import TransactionStatus
from app.core.mappings import service as mappings
from app.core.mappings.mapping import IdKind, IdOrigin
from app.core.observing.service.observations import Observations
from app.kit.access import Principal, Role
from app.kit.errors import BrokerUnreachableError, ConflictError, ForbiddenError, InvalidError
from tests.support.control_plane import ANNA, ControlPlane
from tests.support.observing import cluster, hear, set_clock, state_of, transaction_batch
from tests.support.queries import QUERY

STREAMS = ImportWish(formula="kafka-streams", values={"application_id": "app", "subtopology": "0"})


class TopicsOf:
    """Brokers that answer about topics only; without any, they are unreachable."""

    def __init__(self, **partitions: int) -> None:
        self._partitions = partitions

    async def topics(self, connection: object) -> dict[str, TopicFacts]:
        if not self._partitions:
            raise BrokerUnreachableError("127.0.0.1:1", "refused", 1.0)
        return {name: TopicFacts(partitions=n, replication_factor=1) for name, n in self._partitions.items()}


async def import_into(
    plane: ControlPlane, wish: ImportWish, *, pipeline: str = "flights", by: Principal = ANNA, partitions: int = 2
) -> ImportPlan:
    brokers = cast(Brokers, TopicsOf(**{"in": partitions}))
    async with plane.uow() as uow:
        plan = await id_imports.import_ids(
            uow,
            brokers,
            Observations(is_on=True),
            pipeline=pipeline,
            wish=wish,
            by=by,
            why="it moves here",
            now=plane.now,
        )
        await uow.commit()
    return plan


async def assigned(plane: ControlPlane, pipeline: str = "flights") -> dict[str, tuple[str | None, IdOrigin | None]]:
    found = await plane.mappings(pipeline)
    return {f"{one.topic}-{one.partition}": (one.assigned_id, one.origin) for one in found}


async def owned(plane: ControlPlane, pipeline: str = "flights") -> dict[str, IdKind]:
    async with plane.uow() as uow:
        return {one.transactional_id: one.kind for one in await mappings.list_transactional_ids(uow, pipeline)}


@pytest.mark.slow
async def test_as_many_as_an_import_may_have_are_imported_at_once(plane: ControlPlane) -> None:
    await plane.pipeline()
    await import_into(plane, STREAMS, partitions=MAX_LINES)
    assert len(await assigned(plane)) == len(await owned(plane)) == MAX_LINES


async def test_longest_id_is_kept_and_a_longer_one_refused(plane: ControlPlane) -> None:
    await plane.pipeline()
    longest = Random(1).randbytes(LONGEST_ID_BYTES // 2).hex()  # which no index can make shorter
    await import_into(plane, ImportWish(csv=f"in,0,{longest}"))
    assert list(await owned(plane)) == [longest]
    with pytest.raises(InvalidError, match="2,000 bytes at most"):
        await import_into(plane, ImportWish(csv=f"in,1,{longest}x"))


async def test_partitions_get_the_ids_that_the_formula_makes_and_the_pipeline_owns_them(plane: ControlPlane) -> None:
    await plane.pipeline()
    await import_into(plane, STREAMS)
    assert await assigned(plane) == {
        "in-0": ("app-0_0", IdOrigin.IMPORTED),
        "in-1": ("app-0_1", IdOrigin.IMPORTED),
    }
    assert await owned(plane) == {"app-0_0": IdKind.IMPORTED, "app-0_1": IdKind.IMPORTED}
    async with plane.uow() as uow:
        (command, *_) = (
            await uow.of(CommandStore).list(CommandFilter(target="pipeline:flights"), after=None, limit=5)
        ).items
    assert (command.verb, command.who, command.why) == ("import_ids", "anna", "it moves here")
    assert command.outcome == "2 ids imported, 0 lines were imported before"
    assert command.details["ids"] == ["app-0_0", "app-0_1"]


async def test_a_second_import_adds_what_is_new_and_keeps_the_rest(plane: ControlPlane) -> None:
    await plane.pipeline()
    await import_into(plane, STREAMS)
    plan = await import_into(plane, STREAMS, partitions=3)
    assert [line.is_known for line in plan.lines] == [True, True, False]
    assert len(await assigned(plane)) == 3


async def test_one_problem_refuses_all_lines(plane: ControlPlane) -> None:
    await plane.pipeline()
    with pytest.raises(InvalidError, match="nothing was imported: 2 problems, the first in line 2") as refused:
        await import_into(plane, ImportWish(csv="in,0,a\nnowhere,0,b\nin,7,c"))
    assert [problem.field for problem in refused.value.problems] == ["lines.2", "lines.3"]
    assert (await assigned(plane), await owned(plane)) == ({}, {})


async def test_ids_and_partitions_of_others_are_not_taken(plane: ControlPlane) -> None:
    await plane.pipeline()
    await plane.pipeline("other")
    await import_into(plane, ImportWish(csv="in,0,a"), pipeline="other")
    with pytest.raises(InvalidError, match="`a` belongs to the pipeline other"):
        await import_into(plane, ImportWish(csv="in,0,a"))
    with pytest.raises(InvalidError, match=r"would be used by a task of the pipeline other"):
        await import_into(plane, ImportWish(csv="in,0,fl.t.other.0.0"))
    await import_into(plane, ImportWish(csv="in,0,b"))
    with pytest.raises(InvalidError, match="in-0 is assigned `b` already"):
        await import_into(plane, ImportWish(csv="in,0,c"))


async def test_query_of_spark_takes_no_ids_for_its_partitions(plane: ControlPlane) -> None:
    await plane.pipeline(transform=QUERY, transaction_timeout_ms=60_000)
    with pytest.raises(InvalidError, match="its ids belong to writers, not to partitions"):
        await import_into(plane, ImportWish(csv="in,0,a"))


async def test_a_pipeline_whose_task_would_use_an_imported_id_is_not_started(plane: ControlPlane) -> None:
    await plane.pipeline()
    await import_into(plane, ImportWish(csv="in,0,fl.t.other.0.0"))
    await plane.pipeline("other")
    with pytest.raises(ConflictError, match=r"fl\.t\.other\.0\.0 belongs to pipeline flights on this Kafka cluster"):
        await plane.run("other")


async def test_nothing_is_imported_or_released_with_a_live_run(plane: ControlPlane) -> None:
    await plane.running()
    with pytest.raises(ConflictError, match="drain it first"):
        await import_into(plane, STREAMS)
    async with plane.uow() as uow:
        with pytest.raises(ConflictError, match="drain it first"):
            await id_imports.forget_imports(uow, "flights", by=ANNA, why=None, now=plane.now)


async def test_imported_ids_are_released(plane: ControlPlane) -> None:
    await plane.pipeline()
    await import_into(plane, STREAMS)
    await import_into(plane, ImportWish(formula="spring-kafka-v2", values={"prefix": "tx-"}, count=2))
    async with plane.uow() as uow:
        gone = await id_imports.forget_imports(uow, "flights", by=ANNA, why=None, now=plane.now)
        await uow.commit()
    assert gone == ["app-0_0", "app-0_1", "tx-0", "tx-1"]
    assert (await assigned(plane), await owned(plane)) == ({}, {})


async def test_unreachable_brokers_leave_numbers_of_partitions_unchecked(plane: ControlPlane) -> None:
    await plane.pipeline()
    brokers = cast(Brokers, TopicsOf())
    async with plane.uow() as uow:

        async def plan(**wish: Any) -> ImportPlan:
            return await id_imports.plan_import(
                uow,
                brokers,
                Observations(is_on=True),
                pipeline="flights",
                wish=ImportWish(**wish),
                by=ANNA,
                now=plane.now,
            )

        assert "not checked" in (await plan(csv="in,99,a")).warnings[0]
        with pytest.raises(InvalidError, match="is not known now"):
            await plan(formula=STREAMS.formula, values=STREAMS.values)


@pytest.mark.parametrize(
    ("behind_ms", "expected"),
    # Eleven minutes behind, its coordinator has stamped so early what was used just now.
    [(0, [True, True, False]), (660_000, [True, True, True]), (-660_000, [True, False, False]), (None, [True] * 3)],
)
async def test_ids_in_use_by_their_coordinators_clock_get_a_warning(
    plane: ControlPlane, behind_ms: int | None, expected: list[bool]
) -> None:
    await plane.pipeline(cluster="c")
    now_ms = int(plane.now.timestamp() * 1000)
    made = cluster()
    if behind_ms is not None:
        set_clock(made, behind_ms=behind_ms, now_ms=now_ms)
    hear(
        made,
        transaction_batch("open", state_of(start_ms=now_ms - 900_000, changed_ms=now_ms - 900_000), at=0),
        transaction_batch("lately", state_of(TransactionStatus.COMPLETE_COMMIT, changed_ms=now_ms - 60_000), at=1),
        transaction_batch("rests", state_of(TransactionStatus.COMPLETE_COMMIT, changed_ms=now_ms - 900_000), at=2),
        now_ms=now_ms,
    )
    observations = Observations(is_on=True)
    observations.publish(made.snapshot(now_ms=now_ms))
    async with plane.uow() as uow:
        plan = await id_imports.plan_import(
            uow,
            cast(Brokers, TopicsOf(**{"in": 3})),
            observations,
            pipeline="flights",
            wish=ImportWish(csv="in,0,open\nin,1,lately\nin,2,rests"),
            by=ANNA,
            now=plane.now,
        )
    assert [bool(line.warnings) for line in plan.lines] == expected
    assert plan.problems == []
    assert "has a transaction open" in plan.lines[0].warnings[0]


async def test_only_authors_import(plane: ControlPlane) -> None:
    await plane.pipeline()
    with pytest.raises(ForbiddenError):
        await import_into(plane, STREAMS, by=Principal(name="op", role=Role.OPERATOR))
