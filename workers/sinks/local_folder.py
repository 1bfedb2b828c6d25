"""A folder as a store: its visible files are complete, and survive a loss of power."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from app.products.files.orphans import partial_name
from workers.sinks.uploads import StoreFaultError, StoreRefusalError, ToUpload, check_content, left_s

_BLOCK = 1 << 20
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
# Permanent errors, of the folder or the file.
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP})


class LocalFolder:
    """upload:
    1. copy it under a name of its own, and fsync    a crash leaves no half file under the real name; the collector
                                                     knows the other
    2. read that back and compare                    before it is visible under its name
    3. link it to its place                          the one way that fails if the path is taken, at the same moment
    4. fsync the folders                             the name survives as well
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def upload(self, file: ToUpload, *, deadline_s: float) -> None:
        try:
            self._upload(file, deadline_s=deadline_s)
        except OSError as error:
            what = error.strerror or type(error).__name__
            sentence = f"{what}: {error.filename}" if error.filename else what
            if error.errno in _REFUSED or error.filename == str(file.local):
                raise StoreRefusalError(sentence) from error
            raise StoreFaultError(sentence) from error

    def _upload(self, file: ToUpload, *, deadline_s: float) -> None:
        final = self._root / file.path
        made = _make_folders(final.parent)
        if final.exists():
            _check_same(final, file, deadline_s=deadline_s)
        else:
            partial = final.with_name(partial_name(final.name, secrets.token_hex(4)))
            try:
                _copy(file.local, partial, deadline_s=deadline_s)
                with partial.open("rb") as opened:
                    check_content(opened, file, where="the written file", deadline_s=deadline_s)
                _put_in_place(partial, final, file, deadline_s=deadline_s)
            finally:
                partial.unlink(missing_ok=True)
        for folder in (final.parent, *made):
            _fsync_folder(folder)


def _make_folders(folder: Path) -> list[Path]:
    """Make the missing folders; return the folders with new entries, which must survive as well."""
    missing: list[Path] = []
    at = folder
    while not at.exists():
        missing.append(at)
        at = at.parent
    folder.mkdir(parents=True, exist_ok=True)
    return [one.parent for one in missing]


def _copy(source: Path, target: Path, *, deadline_s: float) -> None:
    with source.open("rb") as reading, target.open("xb") as writing:
        while block := reading.read(_BLOCK):
            writing.write(block)
            left_s(deadline_s)
        writing.flush()
        os.fsync(writing.fileno())


def _put_in_place(partial: Path, final: Path, file: ToUpload, *, deadline_s: float) -> None:
    try:
        os.link(partial, final)
    except FileExistsError:
        _check_same(final, file, deadline_s=deadline_s)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # Not atomic: a file made between the check and the rename would be overwritten. Names are not reused.
        if final.exists():
            _check_same(final, file, deadline_s=deadline_s)
        else:
            partial.rename(final)


def _check_same(final: Path, file: ToUpload, *, deadline_s: float) -> None:
    with final.open("rb") as opened:
        check_content(opened, file, where="the path is taken: its file", deadline_s=deadline_s)


def _fsync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
