"""A local or mounted folder as a store."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from app.products.files.orphans import Stored
from app.products.files.reader.errors import StoreUnavailableError
from app.products.files.reader.open_upload import OpenUpload

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class LocalFiles:
    """Implement `FileStore`. Links are not followed, so nothing outside the root is listed, read or deleted."""

    def __init__(self, folder: Path, *, root: str) -> None:
        self.root = root
        self._folder = folder

    def now_ms(self) -> int | None:
        """Return None: a mounted folder may have another clock, which could only be read by writing."""
        return None

    def list(self, folder: str) -> Iterator[Stored]:
        with _translated(f"list {self.root}/{folder}"):
            self._check_is_here()
            parts = self._parts(folder) if folder else []
            try:
                with self._entered(parts) as descriptor:
                    yield from self._below(descriptor, parts)
            except FileNotFoundError:
                return

    def stat(self, path: str) -> Stored:
        with self._found(path), _translated(f"read the size of {path}"), self._opened(path) as file:
            found = os.fstat(file.fileno())
        return Stored(path=path, size_bytes=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)

    def open(self, path: str) -> BinaryIO:
        with self._found(path), _translated(f"open {path}"):
            return self._opened(path)

    def delete(self, path: str) -> None:
        """Delete a file. Empty folders are kept, since a sink may be about to write into one."""
        *folders, name = self._parts(path)
        with _translated(f"delete {path}"), self._entered(folders) as folder:
            os.unlink(name, dir_fd=folder)

    def open_uploads(self, folder: str) -> Iterator[OpenUpload]:
        """Return none: incomplete files have names of their own."""
        del folder
        return iter(())

    def abort_upload(self, upload: OpenUpload) -> None:
        raise StoreUnavailableError(f"{self.root} has no multipart uploads, such as that of {upload.path}")

    @contextlib.contextmanager
    def _found(self, path: str) -> Generator[None]:
        try:
            yield
        except FileNotFoundError:
            self._check_is_here()
            raise FileNotFoundError(path) from None

    def _check_is_here(self) -> None:
        """Raise if the folder is missing: it may be on another host, or not mounted, and is not an empty store."""
        if not self._folder.is_dir():
            raise StoreUnavailableError(f"the folder {self.root} does not exist on this host")

    def _parts(self, path: str) -> list[str]:
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts):
            raise StoreUnavailableError(f"{path!r} leads out of {self.root}")
        return parts

    def _opened(self, path: str) -> BinaryIO:
        """Open a regular file, without blocking at a pipe."""
        *folders, name = self._parts(path)
        with self._entered(folders) as folder:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StoreUnavailableError(f"{path!r} below {self.root} is not a file")
        return os.fdopen(descriptor, "rb")

    @contextlib.contextmanager
    def _entered(self, folders: Iterable[str]) -> Generator[int]:
        """Open a folder below the root part by part, without following a link."""
        descriptor = os.open(self._folder, _FOLDER)
        try:
            for folder in folders:
                inner = _opened_folder(folder, descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _below(self, folder: int, parts: Sequence[str]) -> Iterator[Stored]:
        """List by descriptors, so that a folder that is replaced by a link has no effect."""
        with os.scandir(folder) as scanned:
            entries = list(scanned)
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    inner = _opened_folder(entry.name, folder)
                    try:
                        yield from self._below(inner, [*parts, entry.name])
                    finally:
                        os.close(inner)
                elif entry.is_file(follow_symlinks=False):
                    found = entry.stat(follow_symlinks=False)
                    yield Stored(
                        path="/".join((*parts, entry.name)),
                        size_bytes=found.st_size,
                        modified_ms=found.st_mtime_ns // 1_000_000,
                    )
            except FileNotFoundError:
                # It was renamed or deleted meanwhile.
                continue


def _opened_folder(name: str, folder: int) -> int:
    """Open a folder. A link raises ELOOP, for which the kernel returns ENOTDIR as for a file."""
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


@contextlib.contextmanager
def _translated(what: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        reason = "the path has a link, and links are not followed" if is_link else error.strerror or error
        raise StoreUnavailableError(f"cannot {what}: {reason}") from error
