"""Files that two processes of one user share: private from the first moment, and ignored after their process."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import psutil
import pytest

from app.kit.state_files import (
    RunningServer,
    StateFileError,
    find_server,
    prepare_folder,
    read_private,
    write_private,
    write_server,
)


def _server(*, pid: int | None = None, started_at: float | None = None) -> RunningServer:
    return RunningServer(
        pid=os.getpid() if pid is None else pid,
        process_started_at=psutil.Process().create_time() if started_at is None else started_at,
        users_url="http://127.0.0.1:1",
        workers_url="http://127.0.0.1:2",
        database_url="postgresql://x",
    )


def test_written_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "state" / "token"
    old = os.umask(0)
    try:
        write_private(file, "secret")
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert read_private(file) == "secret"
    assert [path.name for path in file.parent.iterdir()] == ["token"]


def test_a_file_that_was_open_to_others_is_closed_when_it_is_written_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    file.chmod(0o644)
    with pytest.raises(StateFileError, match="chmod 600"):
        read_private(file)
    write_private(file, "new")
    assert read_private(file) == "new"


def test_no_file_is_no_mistake(tmp_path: Path) -> None:
    assert read_private(tmp_path / "none") is None
    assert find_server(tmp_path / "none") is None


def test_a_folder_that_cannot_be_made_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateFileError, match="FENCELINE_STATE_DIR"):
        prepare_folder(tmp_path / "file" / "state")


def test_a_server_is_found_while_its_process_lives(tmp_path: Path) -> None:
    write_server(tmp_path / "server.json", _server())
    found = find_server(tmp_path / "server.json")
    assert found is not None
    assert found.pid == os.getpid()


@pytest.mark.parametrize("changes", [{"started_at": 1.0}, {"pid": 2**22 + 1}])
def test_another_process_with_its_pid_is_not_taken_for_it(tmp_path: Path, changes: dict[str, float]) -> None:
    write_server(tmp_path / "server.json", _server(**changes))  # pyright: ignore[reportArgumentType] - pid is an int
    assert find_server(tmp_path / "server.json") is None


@pytest.mark.parametrize("text", ["", "{", '{"pid": "x"}'])
def test_a_broken_file_is_as_none(tmp_path: Path, text: str) -> None:
    write_private(tmp_path / "server.json", text)
    assert find_server(tmp_path / "server.json") is None
