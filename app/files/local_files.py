"""A folder of this host, or one that is mounted here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from app.domain.orphans import Stored
from app.files.errors import StoreUnavailableError
from app.files.open_upload import OpenUpload


class LocalFiles:
    """The port `FileStore`. Links are not followed: nothing outside of the root is listed or deleted."""

    def __init__(self, folder: Path, *, root: str) -> None:
        self.root = root
        self._folder = folder

    def now_ms(self) -> int | None:
        """A mounted folder may have another clock; asking it would mean to write."""
        return None

    def list(self, folder: str) -> Iterator[Stored]:
        with _translated(f"list {self.root}/{folder}"):
            self._check_is_here()
            yield from self._below(self._folder / folder)

    def stat(self, path: str) -> Stored:
        with self._found(path), _translated(f"tell of {path}"):
            found = self._path(path).stat()
        return Stored(path=path, size_bytes=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)

    def open(self, path: str) -> BinaryIO:
        with self._found(path), _translated(f"open {path}"):
            return self._path(path).open("rb")

    def delete(self, path: str) -> None:
        """Folders that it leaves empty stay: a sink may be about to write into one."""
        with _translated(f"delete {path}"):
            self._path(path).unlink()

    def open_uploads(self, folder: str) -> Iterator[OpenUpload]:
        """None: what was not complete is a file with a name of its own."""
        del folder
        return iter(())

    def abort_upload(self, upload: OpenUpload) -> None:
        raise StoreUnavailableError(f"{self.root} knows no upload in parts such as that of {upload.path}")

    @contextlib.contextmanager
    def _found(self, path: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            self._check_is_here()
            raise FileNotFoundError(path) from None

    def _check_is_here(self) -> None:
        """Without its folder it is no empty store: it is on another host, or is not mounted."""
        if not self._folder.is_dir():
            raise StoreUnavailableError(f"there is no folder {self.root} on this host")

    def _path(self, path: str) -> Path:
        if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
            raise StoreUnavailableError(f"{path!r} leads out of {self.root}")
        return self._folder / path

    def _below(self, folder: Path) -> Iterator[Stored]:
        try:
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._below(Path(entry.path))
            elif entry.is_file(follow_symlinks=False):
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    # It got its name, or was deleted, meanwhile.
                    continue
                yield Stored(
                    path=Path(entry.path).relative_to(self._folder).as_posix(),
                    size_bytes=found.st_size,
                    modified_ms=found.st_mtime_ns // 1_000_000,
                )


@contextlib.contextmanager
def _translated(what: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnavailableError(f"cannot {what}: {error.strerror or error}") from error
