"""Looks for orphans and collections on Postgres: who asks, who is heard, what is kept, and the command log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from app.core.access.command import CommandFilter
from app.core.access.service import command_log
from app.core.clusters.store import ClusterStore
from app.kit.access import Principal, Role, Verb
from app.kit.errors import ConflictError, ForbiddenError, NotFoundError
from app.products.files.orphan_findings import Amount, Collected, KeptFile, OrphanFindings
from app.products.files.orphan_look import KEPT, OrphanAct, OrphanLookState, OrphanResult
from app.products.files.service import orphans
from app.products.files.store.orphan_looks import OrphanLookStore
from tests.support.control_plane import ControlPlane
from tests.support.orphans import (
    asked,
    begun,
    collecting,
    ended,
    findings,
    get,
    known,
    looked,
    open_transaction,
    told,
)
from tests.support.written_files import SINK


@pytest.fixture
async def flights(plane: ControlPlane) -> ControlPlane:
    await plane.pipeline("flights", files=SINK)
    return plane


async def commands(plane: ControlPlane) -> list[tuple[str, str, str]]:
    async with plane.uow() as uow:
        page = await command_log.list_commands(uow, CommandFilter(target="pipeline:flights"))
    return [(one.who, one.verb, one.outcome) for one in page.items]


async def test_a_look_is_asked_for_begun_told_and_kept(flights: ControlPlane) -> None:
    assert await known(flights) == orphans.NOBODY_LOOKED
    look = await asked(flights)
    assert (look.state, look.asked_by) == (OrphanLookState.ASKED, "anna")
    found = await begun(flights, look)
    assert found is not None
    at_work, order = found
    assert (order.pipeline, order.confirmed) == ("flights", None)
    assert [one.files for one in order.definitions] == [SINK]
    assert order.connections["test"]["bootstrap.servers"] == "127.0.0.1:9"
    assert await told(flights, at_work, "listing")
    assert (await get(flights, look.id)).told == "listing"
    result = OrphanResult(findings=findings(flights.now, orphans=30, missing=2))
    assert await ended(flights, at_work, result)
    now_known = await known(flights)
    assert now_known.newest == now_known.judged
    assert now_known.judged is not None
    assert now_known.judged.findings == result.findings
    assert len(now_known.judged.findings.oldest if now_known.judged.findings else ()) == 25
    assert not now_known.is_at_work
    assert await commands(flights) == [("anna", Verb.LOOK_FOR_ORPHANS, f"orphan scan {look.id}")]


async def test_one_at_a_time_of_a_pipeline(flights: ControlPlane) -> None:
    look = await asked(flights)
    with pytest.raises(ConflictError, match="by anna has not ended yet"):
        await asked(flights)
    await begun(flights, look)
    with pytest.raises(ConflictError, match="not ended yet"):
        await asked(flights)


async def test_who_may_only_look_at_pages_asks_for_nothing(flights: ControlPlane) -> None:
    viewer = Principal(name="vera", role=Role.VIEWER)
    async with flights.uow() as uow:
        with pytest.raises(ForbiddenError, match="operator"):
            await orphans.ask_look(uow, pipeline="flights", by=viewer, why=None, now=flights.now)
        with pytest.raises(ForbiddenError, match="operator"):
            await orphans.ask_collection(uow, pipeline="flights", look_id="x", by=viewer, why=None, now=flights.now)


async def test_pipelines_without_files_have_no_orphans(flights: ControlPlane) -> None:
    await flights.pipeline("records", sink_topic="elsewhere")
    with pytest.raises(NotFoundError, match="has no file sink"):
        await asked(flights, "records")
    with pytest.raises(NotFoundError):
        await asked(flights, "nobody")
    await flights.revise("flights", files=None)
    await asked(flights)


async def test_every_revision_that_writes_files_is_looked_at(flights: ControlPlane) -> None:
    await flights.revise("flights", sink_topic="other")
    await flights.revise("flights", files=None)
    found = await begun(flights, await asked(flights))
    assert found is not None
    assert {one.sink_topic for one in found[1].definitions} == {"out", "other"}


async def test_an_earlier_attempt_is_not_heard(flights: ControlPlane) -> None:
    look = await asked(flights)
    first = await begun(flights, look)
    second = await begun(flights, look)
    assert first is not None
    assert second is not None
    assert not await told(flights, first[0], "listing")
    assert not await ended(flights, first[0], OrphanResult(findings=findings(flights.now, orphans=9)))
    assert (await get(flights, look.id)).told == ""
    assert await ended(flights, second[0], OrphanResult(findings=findings(flights.now)))
    assert not await ended(flights, second[0], OrphanResult(reason="twice"))
    assert (await get(flights, look.id)).state is OrphanLookState.DONE


async def test_a_look_that_three_servers_die_in_is_over(flights: ControlPlane) -> None:
    look = await asked(flights)
    for _ in range(3):
        assert await begun(flights, look) is not None
    assert await begun(flights, look) is None
    over = await get(flights, look.id)
    assert (over.state, over.reason is not None and "3 servers" in over.reason) == (OrphanLookState.FAILED, True)
    await asked(flights)


async def test_a_collection_names_the_newest_look_and_what_it_found(flights: ControlPlane) -> None:
    first = await looked(flights, OrphanResult(findings=findings(flights.now, orphans=1)))
    flights.pass_time(1)
    second = await looked(flights, OrphanResult(findings=findings(flights.now, orphans=2)))
    with pytest.raises(ConflictError, match="is not the newest"):
        await collecting(flights, first.id)
    collection = await collecting(flights, second.id)
    assert collection.confirmed is not None
    assert collection.confirmed.orphans == Amount(files=2, size_bytes=3 * 12_345)
    found = await begun(flights, collection)
    assert found is not None
    assert found[1].confirmed == collection.confirmed
    assert await told(flights, found[0], "deleting", Amount(files=1, size_bytes=5))
    kept = KeptFile(root="file:///lake", path="flights/x", why="it has changed since it was listed")
    outcome = Collected(deleted=Amount(files=1, size_bytes=12_345), aborted_uploads=0, kept_files=1, kept=(kept,))
    assert await ended(flights, found[0], OrphanResult(findings=findings(flights.now, orphans=1), collected=outcome))
    now_known = await known(flights)
    assert now_known.judged is not None
    assert (now_known.judged.id, now_known.judged.act) == (collection.id, OrphanAct.COLLECT)
    assert now_known.collected is not None
    assert now_known.collected.collected == outcome
    assert now_known.collected.deleted == outcome.deleted
    who = await commands(flights)
    assert who[0] == (
        "collector",
        Verb.COLLECT_ORPHANS,
        f"collection {collection.id}: deleted 1 file, 12,345 bytes, kept 1; requested by anna",
    )
    assert who[1] == (
        "anna",
        Verb.COLLECT_ORPHANS,
        f"collection {collection.id} of 2 files, 37,035 bytes found by scan {second.id}",
    )


async def test_where_nothing_was_found_nothing_is_collected(flights: ControlPlane) -> None:
    empty = await looked(flights, OrphanResult(findings=findings(flights.now)))
    with pytest.raises(ConflictError, match="nothing to collect"):
        await collecting(flights, empty.id)
    flights.pass_time(1)
    blocked = await looked(flights, OrphanResult(findings=OrphanFindings(blocked=(open_transaction(flights.now),))))
    with pytest.raises(ConflictError, match="is not the newest"):
        await collecting(flights, blocked.id)
    # What is shown is still what was judged before.
    assert (judged := (await known(flights)).judged) is not None
    assert judged.id == empty.id


async def test_a_collection_whose_server_died_ends_with_what_it_had_told(flights: ControlPlane) -> None:
    look = await looked(flights, OrphanResult(findings=findings(flights.now, orphans=3)))
    flights.pass_time(1)
    collection = await collecting(flights, look.id)
    found = await begun(flights, collection)
    assert found is not None
    assert await told(flights, found[0], "deleting: 2 of 3 files", Amount(files=2, size_bytes=30))
    assert await begun(flights, collection) is None
    over = await get(flights, collection.id)
    assert over.state is OrphanLookState.FAILED
    assert over.collected == Collected(deleted=Amount(files=2, size_bytes=30), aborted_uploads=None)
    who, verb, outcome = (await commands(flights))[0]
    assert (who, verb) == ("collector", Verb.COLLECT_ORPHANS)
    assert "deleted 2 files, 30 bytes" in outcome
    # It can be asked again, of what was seen before or of a new look.
    flights.pass_time(1)
    await collecting(flights, look.id)


async def test_only_the_newest_are_kept(flights: ControlPlane) -> None:
    last: dict[Any, str] = {}
    for number in range(KEPT + 3):
        done = await looked(flights, OrphanResult(findings=findings(flights.now, orphans=number)))
        flights.pass_time(1)
        failed = await looked(flights, OrphanResult(reason="no broker answers"))
        flights.pass_time(1)
        last = {"done": done.id, "failed": failed.id}
    async with flights.uow() as uow:
        kept = await uow.of(OrphanLookStore).newest("flights")
    assert len(kept) <= 2 * (KEPT + 1)
    now_known = await known(flights)
    assert now_known.newest is not None
    assert now_known.judged is not None
    assert (now_known.newest.id, now_known.judged.id) == (last["failed"], last["done"])


async def test_a_cluster_that_is_registered_no_longer_is_a_reason(
    flights: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = await asked(flights)
    async with flights.uow() as uow:

        async def gone(name: str) -> Any:
            raise NotFoundError(f"there is no cluster {name}")

        monkeypatch.setattr(uow.of(ClusterStore), "get", gone)
        assert await orphans.begin(uow, look.id, now=flights.now) is None
        await uow.commit()
    assert (await get(flights, look.id)).reason == "there is no cluster test"


async def test_the_newest_that_judged_is_told_of_each_pipeline(flights: ControlPlane) -> None:
    await flights.pipeline("ferries", files=SINK, sink_topic="ferries")
    await looked(flights, OrphanResult(findings=findings(flights.now, orphans=1)))
    flights.now += timedelta(seconds=1)
    await looked(flights, OrphanResult(findings=OrphanFindings(blocked=(open_transaction(flights.now),))))
    async with flights.uow() as uow:
        found = await uow.of(OrphanLookStore).newest_findings(["flights", "ferries"])
        assert await uow.of(OrphanLookStore).newest_findings([]) == {}
    assert list(found) == ["flights"]
    assert (judged := found["flights"].findings) is not None
    assert judged.orphans.files == 1
