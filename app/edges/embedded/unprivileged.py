"""The unprivileged user for children of root, and the folders that it can read."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.processes import ChildUser

# Root's files for such a child, outside /root, which other users may not enter.
SHARED_ROOT = Path("/var/lib/fenceline")


def identity_for_child() -> ChildUser | None:
    """Return the user `nobody` if this process is root, else None: the child then runs as this user."""
    if os.geteuid() != 0:
        return None
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise EmbeddedError(
            "Postgres refuses to run as root, and this machine has no user nobody for it. "
            "Start Fenceline as another user, or set FENCELINE_DATABASE_URL."
        ) from None
    return ChildUser(uid=nobody.pw_uid, gid=nobody.pw_gid)


def can_reach(path: Path, identity: ChildUser | None) -> bool:
    """Return whether the identity may enter every folder above `path` and read it."""
    if identity is None:
        return True
    resolved = path.resolve()
    if resolved.exists() and not _allows(resolved, identity, 0o5 if resolved.is_dir() else 0o4):
        return False
    return all(_allows(parent, identity, 0o1) for parent in resolved.parents if parent.exists())


def _allows(path: Path, identity: ChildUser, bits: int) -> bool:
    status = path.stat()
    if status.st_uid == identity.uid:
        return status.st_mode >> 6 & bits == bits
    if status.st_gid == identity.gid:
        return status.st_mode >> 3 & bits == bits
    return status.st_mode & bits == bits


def shared_folder(name: str) -> Path:
    """`/var/lib/fenceline/NAME`, which every user may enter; root only."""
    folder = SHARED_ROOT / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entered in (SHARED_ROOT, folder):
            entered.chmod(0o755)
    except OSError as error:
        raise EmbeddedError(f"{folder} could not be made for the user that Postgres runs as: {error}") from error
    return folder


def shared_copy(source: Path, name: str, parts: Iterable[Path]) -> Path:
    """Copy the existing `parts` of `source` to `/var/lib/fenceline/NAME`, readable by all, once."""
    target = SHARED_ROOT / name
    if target.is_dir():
        return target
    parent = shared_folder("")
    # A copy is renamed when complete, as several processes may copy at the same time.
    scratch = Path(tempfile.mkdtemp(prefix=".copy-", dir=parent))
    try:
        for part in parts:
            if not (source / part).is_dir():
                continue
            shutil.copytree(source / part, scratch / part, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
        for folder, _, files in os.walk(scratch):
            Path(folder).chmod(0o755)
            for file in files:
                entry = Path(folder) / file
                if not entry.is_symlink():
                    entry.chmod(0o755 if os.access(entry, os.X_OK) and entry.stat().st_mode & 0o100 else 0o644)
        try:
            scratch.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def give_to(path: Path, identity: ChildUser | None) -> None:
    """Make the identity the owner of one file or folder."""
    if identity is not None:
        os.chown(path, identity.uid, identity.gid)
