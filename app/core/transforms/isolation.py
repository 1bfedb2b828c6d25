"""A place for code that nobody has vouched for: namespaces of its own, by bubblewrap (docs/adr/0025).

It sees the interpreter, our packages and the system's libraries, all read-only, and nothing else of this machine: no
network, no process but its own, no home or state folder, no settings and no secrets. Where the server is root, the code
runs as a user that nothing belongs to. All that it has started ends with it.
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
"""User ids that no account has: the range that systemd keeps for users that exist for one process."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a process is started in isolation.

    prefix: the arguments before the command itself.
    uid: the user that the process must become at once; None: it is that user already.
    """

    prefix: tuple[str, ...]
    uid: int | None


def isolation(*, secret_paths: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> Isolation | None:
    """How to isolate a process here; None where bubblewrap is not installed.

    Whether the kernel allows it, only a start can tell.

    Args:
        secret_paths: folders and files that stay out of sight also where they lie inside what is shown.
        environ: where PATH is looked up.
    """
    search = (os.environ if environ is None else environ).get("PATH", os.defpath)
    found = shutil.which("bwrap", path=search)
    if found is None:
        return None
    is_root = os.geteuid() == 0
    # One uid for each check, so that its limit of processes counts no other's.
    uid = _FIRST_UID + int.from_bytes(os.urandom(4)) % _UIDS if is_root else None
    shown = _shown()
    namespaces = _namespaces(None if is_root else found)
    return Isolation((found, *namespaces, *_view(shown), *_hidden(shown, secret_paths), "--"), uid)


def _namespaces(bubblewrap: str | None) -> tuple[str, ...]:
    """bubblewrap: its path, for an ordinary user; None: the server is root."""
    always = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
    # Root is not mapped into a user namespace: its files would stay its own there. It drops to another user instead.
    if bubblewrap is None:
        who = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
    else:
        who = ("--unshare-user", *(("--disable-userns",) if can_disable_userns(bubblewrap) else ()))
    return (*always, *who, "--die-with-parent", "--new-session", "--clearenv")


@lru_cache
def can_disable_userns(bubblewrap: str) -> bool:
    """Whether it can forbid user namespaces inside of its own, where a file would have every capability: since 0.8."""
    asked = subprocess.run([bubblewrap, "--version"], capture_output=True, check=False, timeout=10)
    numbers = asked.stdout.decode("ascii", "replace").rpartition(" ")[2].strip().split(".")
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= (0, 8)


def _shown() -> list[Path]:
    """What the interpreter and our packages need, outermost first."""
    packages = [importlib.util.find_spec(name) for name in _OURS]
    places = [
        *map(Path, SYSTEM),
        *(Path(prefix) for prefix in (sys.base_prefix, sys.prefix)),
        *(Path(spec.submodule_search_locations[0]) for spec in packages if spec and spec.submodule_search_locations),
    ]
    return sorted({place.absolute() for place in places if place.exists()})


def _view(shown: Iterable[Path]) -> list[str]:
    binds: list[str] = []
    for place in shown:
        # A folder that bubblewrap makes on the way would be root's alone.
        binds += [argument for parent in reversed(place.parents[:-1]) for argument in ("--dir", str(parent))]
        binds += ["--ro-bind", str(place), str(place)]
    # A file size of 0 is among the limits; the bound on folders and links is that of the small file system.
    empty = ("--size", str(1 << 20), "--tmpfs", EMPTY_FOLDER, "--chdir", EMPTY_FOLDER)
    return [*binds, "--proc", "/proc", "--dev", "/dev", *empty, "--remount-ro", "/"]


def _hidden(shown: Iterable[Path], secret_paths: Iterable[str]) -> list[str]:
    """Each secret by every name that it has inside: a place may be a link, or lie inside another one."""
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
