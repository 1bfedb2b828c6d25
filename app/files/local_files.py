"""A folder of this host, or one that is mounted here."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from app.domain.orphans import Stored
from app.files.errors import StoreUnavailableError
from app.files.open_upload import OpenUpload


class LocalFiles:
    """The port `FileStore`. Links are not followed: nothing outside of the root is listed, read or deleted."""

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
        with self._found(path), _translated(f"tell of {path}"), self._opened(path) as file:
            found = os.fstat(file.fileno())
        return Stored(path=path, size_bytes=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)

    def open(self, path: str) -> BinaryIO:
        with self._found(path), _translated(f"open {path}"):
            return self._opened(path)

    def delete(self, path: str) -> None:
        """Folders that it leaves empty stay: a sink may be about to write into one."""
        *folders, name = self._parts(path)
        with _translated(f"delete {path}"), self._entered(folders) as folder:
            os.unlink(name, dir_fd=folder)

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

    def _parts(self, path: str) -> list[str]:
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise StoreUnavailableError(f"{path!r} leads out of {self.root}")
        return parts

    def _opened(self, path: str) -> BinaryIO:
        """Opens no pipe either: one without a writer would be waited for."""
        *folders, name = self._parts(path)
        with self._entered(folders) as folder:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StoreUnavailableError(f"{path!r} below {self.root} is not a file")
        return os.fdopen(descriptor, "rb")

    @contextlib.contextmanager
    def _entered(self, folders: Iterable[str]) -> Generator[int]:
        """A descriptor of the folder below the root, entered part by part: no link is followed on the way."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(self._folder, flags)
        try:
            for folder in folders:
                inner = os.open(folder, flags | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

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
        # What O_NOFOLLOW says of a link, and of one where a folder is expected.
        is_link = error.errno in (errno.ELOOP, errno.ENOTDIR)
        reason = "a link is on its way, and links are not followed" if is_link else error.strerror or error
        raise StoreUnavailableError(f"cannot {what}: {reason}") from error
