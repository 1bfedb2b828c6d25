"""Folders of ended instances are removed after a while; those of live ones stay, with any database."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from app.core.runs.instance import InstanceState
from app.core.runs.loops.folders import FolderRetention
from app.edges.spark.driver_files import LOG_LIMIT_BYTES
from app.edges.spark.instance_files import InstanceFiles
from app.edges.spark.instance_folders import StateFolders
from tests.support.control_plane import ControlPlane, PlaneClock

KEPT_FOR = timedelta(days=14)
OLD_S = timedelta(days=15).total_seconds()


@pytest.fixture
def loop(plane: ControlPlane, tmp_path: Path) -> FolderRetention:
    return FolderRetention(
        StateFolders(tmp_path),
        unit_of_work=plane.uow,
        clock=PlaneClock(plane),
        where="here",
        kept_for=KEPT_FOR,
    )


def folder_of(state_dir: Path, run_id: str, *, ordinal: int = 0, lease: int = 1, written_at: datetime) -> Path:
    files = InstanceFiles.of(state_dir, run_id=run_id, ordinal=ordinal, lease=lease)
    files.local_dir.mkdir(parents=True)
    files.log.write_text("all is well\n")
    for path in (files.log, files.local_dir, files.folder):
        os.utime(path, (written_at.timestamp(), written_at.timestamp()))
    return files.folder


@contextmanager
def process_in(folder: Path) -> Generator[None]:
    """A process that has a file of the folder in its arguments, as both processes of a driver have."""
    argv = [sys.executable, "-c", "input()", str(folder / "specification.json")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            process.kill()


async def test_folders_of_ended_instances_go_and_those_of_living_ones_stay(
    plane: ControlPlane, loop: FolderRetention, tmp_path: Path
) -> None:
    run = await plane.running(instances=2)
    ended = folder_of(tmp_path, run.id, ordinal=0, written_at=plane.now)
    silent = folder_of(tmp_path, run.id, ordinal=1, written_at=plane.now)
    await plane.move(run.id, 0, InstanceState.FAILED, reason="it crashed")
    plane.pass_time(OLD_S)
    await loop.turn()
    assert not ended.exists()
    assert silent.exists(), "a driver may have nothing to say for weeks"


async def test_folder_of_a_recent_end_or_write_stays(
    plane: ControlPlane, loop: FolderRetention, tmp_path: Path
) -> None:
    run = await plane.running(instances=2)
    folders = [
        folder_of(tmp_path, run.id, ordinal=0, written_at=plane.now),
        folder_of(tmp_path, run.id, ordinal=1, written_at=plane.now + timedelta(days=10)),
    ]
    await plane.move(run.id, 1, InstanceState.FAILED)
    plane.pass_time(OLD_S - 60)
    await plane.move(run.id, 0, InstanceState.FAILED)
    plane.pass_time(60)
    await loop.turn()
    assert all(folder.exists() for folder in folders)


async def test_a_folder_that_the_database_does_not_know_goes_unless_a_process_works_in_it(
    plane: ControlPlane, loop: FolderRetention, tmp_path: Path
) -> None:
    """A pipeline was deleted with its runs; or the database is an older copy, which does not know a living driver."""
    deleted = folder_of(tmp_path, str(uuid.uuid4()), written_at=plane.now)
    living = folder_of(tmp_path, str(uuid.uuid4()), written_at=plane.now)
    plane.pass_time(OLD_S)
    with process_in(living):
        await loop.turn()
    assert not deleted.exists()
    assert living.exists()


async def test_the_log_of_a_living_driver_is_cut_and_goes_on(
    plane: ControlPlane, loop: FolderRetention, tmp_path: Path
) -> None:
    run = await plane.running()
    files = InstanceFiles.of(tmp_path, run_id=run.id, ordinal=0, lease=1)
    files.folder.mkdir(parents=True)
    # As the launcher hands it to a driver.
    with files.log.open("ab", buffering=0) as driver:
        driver.write(b"short\n")
        await loop.turn()
        assert files.log.read_bytes() == b"short\n"
        driver.write(b"x" * LOG_LIMIT_BYTES)
        await loop.turn()
        driver.write(b"and on\n")
    assert files.log.read_bytes() == b"and on\n"
    assert files.older_log.read_bytes() == b"x" * LOG_LIMIT_BYTES
    assert not files.trim_log(), "once is enough"


async def test_folder_without_the_name_of_a_lease_stays(
    plane: ControlPlane, loop: FolderRetention, tmp_path: Path
) -> None:
    other = tmp_path / "instances" / "notes-0-1"
    other.mkdir(parents=True)
    os.utime(other, (plane.now.timestamp(), plane.now.timestamp()))
    plane.pass_time(OLD_S)
    await loop.turn()
    assert other.exists()


async def test_without_any_folder_nothing_happens(loop: FolderRetention) -> None:
    await loop.turn()
