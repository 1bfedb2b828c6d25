"""Folders of audits go after a while, with those of instances."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

from app.core.runs.loops.folders import FolderRetention
from app.edges.spark.instance_folders import StateFolders
from app.edges.spark.spark_submit import SparkSubmit
from app.products.audits.launcher import SubmitAuditLauncher
from tests.core.runs.test_folders import KEPT_FOR, OLD_S, process_in
from tests.support.control_plane import ControlPlane, PlaneClock


async def test_the_folder_of_an_audit_goes_with_time_but_not_under_its_driver(
    plane: ControlPlane, tmp_path: Path
) -> None:
    submit = SparkSubmit(cache_dir=tmp_path / "cache", version="1", python=sys.executable)
    loop = FolderRetention(
        StateFolders(tmp_path),
        others=(SubmitAuditLauncher(submit, state_dir=tmp_path),),
        unit_of_work=plane.uow,
        clock=PlaneClock(plane),
        where="here",
        kept_for=KEPT_FOR,
    )

    def folder(name: str) -> Path:
        made = tmp_path / "audits" / name
        made.mkdir(parents=True)
        (made / "driver.log").write_text("all is well")
        for path in (made / "driver.log", made):
            os.utime(path, (plane.now.timestamp(), plane.now.timestamp()))
        return made

    over, at_work, not_ours = folder(str(uuid.uuid4())), folder(str(uuid.uuid4())), folder("notes")
    plane.pass_time(OLD_S)
    with process_in(at_work):
        await loop.turn()
    assert not over.exists()
    assert at_work.exists()
    assert not_ours.exists()
