"""The small files in the state folder that one user's server and command line share; mode 0600, always."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
import psutil

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class StateFileError(Exception):
    """An unusable file; the message names it and the next step."""


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of this state folder's server, which may have taken free ports.

    process_started_at: distinguishes this process from a later one with the same pid.
    database_url: for commands while the server runs, as an embedded database has a port of its own.
    """

    pid: int
    process_started_at: float
    users_url: str
    workers_url: str
    database_url: str


def prepare_folder(folder: Path) -> None:
    """Make the state folder, for its owner only. Raises StateFileError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StateFileError(
            f"the state folder {folder} cannot be made: {error.strerror or error}; FENCELINE_STATE_DIR names another"
        ) from error


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, from the first moment on. Raises StateFileError."""
    write_private_parts(file, [text.encode()])


def write_private_parts(file: Path, parts: Iterable[bytes]) -> None:
    """Write a private file in parts: complete or not at all. Raises StateFileError."""
    prepare_folder(file.parent)
    beside = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_native_id()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
            opened.writelines(parts)
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StateFileError(f"{file} cannot be written: {error.strerror or error}") from error


def read_private(file: Path) -> str | None:
    """Return the file's text, None without one. Raises StateFileError when others than its owner may read it."""
    with open_private(file) as opened:
        return None if opened is None else opened.read().decode()


@contextmanager
def open_private(file: Path) -> Generator[BinaryIO | None]:
    """Open the file for reading; None without one. Raises StateFileError as `read_private` does."""
    try:
        if file.stat().st_mode & _OTHERS:
            raise StateFileError(f"{file} can be read by others, so it is not used: chmod 600 {file}")
        with file.open("rb") as opened:
            yield opened
    except FileNotFoundError:
        yield None
    except OSError as error:
        raise StateFileError(f"{file} cannot be read: {error.strerror or error}") from error


def write_server(file: Path, server: RunningServer) -> None:
    write_private(file, msgspec.json.encode(server).decode())


def find_server(file: Path) -> RunningServer | None:
    """Return the server that wrote the file, if its process lives."""
    try:
        text = read_private(file)
        found = None if text is None else msgspec.json.decode(text, type=RunningServer)
    except (StateFileError, msgspec.MsgspecError):
        return None
    return found if found is not None and _lives(found) else None


def _lives(server: RunningServer) -> bool:
    try:
        return psutil.Process(server.pid).create_time() == server.process_started_at
    except psutil.Error:
        return False
