"""Orders for audits of pipelines with files, also those of drills and migrations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from app.core.pipelines.pipeline import ByField, FileSink
from app.edges.db.database import Database
from app.kit.access import AUDITOR, DRILLS
from app.kit.errors import InvalidError
from app.products.audits.plan import time_window
from app.products.audits.service import planning
from app.products.audits.service.asking import Wish, ask_audit
from app.products.audits.service.carrying_out import begin_submission
from app.products.audits.specification import AuditSpecification, IdPlace, JsonField, RecordKey
from tests.support.control_plane import ControlPlane

BEFORE = FileSink(root="file:///before", partition_by=(ByField(name="carrier", field="carrier"),))
NOW = FileSink(root="s3://bucket/now", partition_by=BEFORE.partition_by)


async def ordered(plane: ControlPlane, id_place: IdPlace) -> AuditSpecification:
    window = time_window(plane.now - timedelta(hours=1), plane.now)
    async with plane.uow() as uow:
        audit = await ask_audit(
            uow,
            pipeline="flights",
            wish=Wish(window=window, id_place=id_place),
            by=DRILLS,
            why="drill 1",
            now=plane.now,
        )
        order = await begin_submission(
            uow, audit.id, host="h", cores=1, fenceline_version="1", server_urls=(), now=plane.now
        )
        await uow.commit()
    return order.specification


async def test_files_are_read_from_all_roots_of_the_pipeline(database: Database) -> None:
    plane = ControlPlane(database)
    await plane.pipeline("flights")
    await plane.revise("flights", files=BEFORE)
    await plane.revise("flights", files=NOW)
    told = await ordered(plane, JsonField(path="id"))
    assert told.files == NOW
    assert told.file_roots == ("s3://bucket/now", "file:///before")
    assert told.sink_topics == (told.sink_topic,)


async def test_pipeline_of_records_has_no_root(database: Database) -> None:
    plane = ControlPlane(database)
    await plane.pipeline("flights", files=BEFORE)
    await plane.revise("flights", files=None)
    told = await ordered(plane, JsonField(path="id"))
    assert (told.files, told.file_roots) == (None, ())


async def test_key_as_id_is_refused_for_files(database: Database) -> None:
    plane = ControlPlane(database)
    await plane.pipeline("flights", files=NOW)
    with pytest.raises(InvalidError, match="neither key nor headers") as refused:
        await ordered(plane, RecordKey())
    assert [problem.field for problem in refused.value.problems] == ["id_place"]
    wish: dict[str, Any] = {"padding_s": 60, "every_s": 3600, "tolerance_s": 600, "by": AUDITOR, "why": None}
    async with plane.uow() as uow:
        with pytest.raises(InvalidError, match="neither key nor headers"):
            await planning.change_plan(
                uow, pipeline="flights", id_place=RecordKey(), source_id_place=None, now=plane.now, **wish
            )
