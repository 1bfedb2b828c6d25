"""A place for untrusted code: namespaces of its own, by bubblewrap (docs/adr/0025).

It sees the interpreter, Fenceline's packages and the system's libraries, all read-only. It has no network, no process
but its own, no home or state folder, no settings and no secrets. If the server is root, the code runs as a user without
any files. All of its processes end with it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

EMPTY_FOLDER = "/tmp"  # noqa: S108 - inside the sandbox: its own, empty, and gone with it
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/localtime")
_OURS = ("app", "workers")
_FIRST_UID, _UIDS = 61_184, 4_336
"""User ids without an account: the range that systemd reserves for users of one process."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """The command and user for a process in isolation.

    prefix: the arguments before the command itself.
    uid: the user that the process must become at once; None: it is that user already.
    """

    prefix: tuple[str, ...]
    uid: int | None


def isolation(
    *,
    secret_paths: Iterable[str] = (),
    also_visible: Iterable[str] = (),
    writable_mb: int = 1,
    environ: Mapping[str, str] | None = None,
) -> Isolation | None:
    """Return the isolation of a process on this host; None if bubblewrap is not installed.

    Only a start shows whether the kernel allows it.

    Args:
        secret_paths: folders and files that stay hidden even inside of visible folders.
        also_visible: paths that it reads beside the interpreter's and Fenceline's own.
        writable_mb: size of its folder, which is in memory.
        environ: the environment whose PATH is searched.
    """
    search = (os.environ if environ is None else environ).get("PATH", os.defpath)
    found = shutil.which("bwrap", path=search)
    if found is None:
        return None
    is_root = os.geteuid() == 0
    # One uid for each check, so that the processes of another check do not count.
    uid = _FIRST_UID + int.from_bytes(os.urandom(4)) % _UIDS if is_root else None
    shown = sorted({*visible_paths(), *(Path(path).absolute() for path in also_visible)})
    namespaces = _namespaces(None if is_root else found)
    return Isolation((found, *namespaces, *_view(shown, writable_mb), *_hidden(shown, secret_paths), "--"), uid)


def _namespaces(bubblewrap: str | None) -> tuple[str, ...]:
    """Return the arguments for namespaces. bubblewrap: its path, for an ordinary user; None: the server is root."""
    always = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
    # Root is not mapped into a user namespace: its files would stay its own there. It changes to another user instead.
    if bubblewrap is None:
        who = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
    else:
        who = ("--unshare-user", *(("--disable-userns",) if can_disable_userns(bubblewrap) else ()))
    return (*always, *who, "--die-with-parent", "--new-session", "--clearenv")


@lru_cache
def can_disable_userns(bubblewrap: str) -> bool:
    """Return whether it can forbid user namespaces inside of its own, where a file would have every capability: 0.8."""
    asked = subprocess.run([bubblewrap, "--version"], capture_output=True, check=False, timeout=10)
    numbers = asked.stdout.decode("ascii", "replace").rpartition(" ")[2].strip().split(".")
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= (0, 8)


def visible_paths() -> list[Path]:
    """Return the paths that the interpreter and Fenceline's packages need, outermost first."""
    packages = [importlib.util.find_spec(name) for name in _OURS]
    places = [
        *map(Path, SYSTEM),
        *(Path(prefix) for prefix in (sys.base_prefix, sys.prefix)),
        *(Path(spec.submodule_search_locations[0]) for spec in packages if spec and spec.submodule_search_locations),
    ]
    return sorted({place.absolute() for place in places if place.exists()})


def _view(shown: Iterable[Path], writable_mb: int) -> list[str]:
    binds: list[str] = []
    for place in shown:
        # A folder that bubblewrap creates on the way would belong to root alone.
        binds += [argument for parent in reversed(place.parents[:-1]) for argument in ("--dir", str(parent))]
        binds += ["--ro-bind", str(place), str(place)]
    # A file size of 0 is among the limits; the small file system bounds folders and links. It comes first, because the
    # interpreter or the packages may lie below it.
    empty = ("--size", str(writable_mb << 20), "--tmpfs", EMPTY_FOLDER)
    return [*empty, *binds, "--proc", "/proc", "--dev", "/dev", "--chdir", EMPTY_FOLDER, "--remount-ro", "/"]


def _hidden(shown: Iterable[Path], secret_paths: Iterable[str]) -> list[str]:
    """Return each secret by every name that it has inside: a place may be a link, or inside another one."""
    secrets = [path for secret in secret_paths if (path := Path(secret).resolve()).exists()]
    names = {
        place / path.relative_to(real)
        for place in shown
        if (real := place.resolve())
        for path in secrets
        if path.is_relative_to(real)
    }
    arguments: list[str] = []
    for name in sorted(names):
        arguments += ["--tmpfs", str(name)] if name.is_dir() else ["--ro-bind", os.devnull, str(name)]
    return arguments
