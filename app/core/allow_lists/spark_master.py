"""The Spark masters that a pipeline may name, and the meaning of each form."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

import msgspec


class SparkMasterKind(StrEnum):
    LOCAL = "local"
    STANDALONE = "standalone"


class MasterHost(NamedTuple):
    """The address of one standalone master; the name is in lower case."""

    name: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.name in _LOOPBACK


class SparkMaster(msgspec.Struct, frozen=True, kw_only=True):
    """A master in a supported form.

    slots: the `k` of `local[k]`; None: as many as the instance has tasks.
    hosts: the masters of `spark://host:port,host:port`; none for `local`.
    """

    kind: SparkMasterKind
    slots: int | None = None
    hosts: tuple[MasterHost, ...] = ()


class SparkMasterError(Exception):
    """The text is not a supported master; the message has the supported forms."""


DEFAULT_WEB_PORT = 8080
"""The default port of a standalone master's web page."""
ACCEPTED_FORMS = "`local`, `local[2]` (2 cores) or `spark://host:port`"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_LOCAL = re.compile(r"local(?:\[(?P<slots>[1-9][0-9]{0,3})\])?", re.ASCII)
_ADDRESS = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?):(?P<port>[0-9]{1,5})", re.ASCII
)


def parse(master: str) -> SparkMaster:
    """Read a master URL. Raises SparkMasterError for every form that is not one of `ACCEPTED_FORMS`."""
    if match := _LOCAL.fullmatch(master):
        slots = match["slots"]
        return SparkMaster(kind=SparkMasterKind.LOCAL, slots=None if slots is None else int(slots))
    if master.startswith("spark://"):
        return SparkMaster(kind=SparkMasterKind.STANDALONE, hosts=_addresses(master))
    raise SparkMasterError(_why_not(master))


def _addresses(master: str) -> tuple[MasterHost, ...]:
    addresses: list[MasterHost] = []
    for part in master.removeprefix("spark://").split(","):
        match = _ADDRESS.fullmatch(part)
        if match is None or not 0 < int(match["port"]) <= 65_535:
            raise SparkMasterError(
                f"`{master}` is not a standalone master: write `spark://host:port`, "
                "or `spark://host:port,host:port` for several"
            )
        addresses.append(MasterHost(match["host"].lower(), int(match["port"])))
    return tuple(addresses)


def _why_not(master: str) -> str:
    if master.startswith("local[") and "," in master:
        return f"`{master}`: leave the number of retries out, Fenceline adds its own; write `local[k]`"
    if master.startswith("local["):
        return (
            f"`{master}`: name the number of cores, from 1 to 9999, as in `local[2]`, or write `local` for one a task"
        )
    if master.startswith(("k8s://", "yarn")):
        kind = "Kubernetes" if master.startswith("k8s://") else "YARN"
        return f"{kind} is not supported yet; this release starts instances on {ACCEPTED_FORMS}"
    return f"`{master}` is not a Spark master that Fenceline supports; write {ACCEPTED_FORMS}"
