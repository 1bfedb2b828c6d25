"""The source of a driver's specification: a file that only its user may read, else the workers' listener."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from app.core.wire import protocol
from app.core.wire import specification as wire
from app.core.wire.specification import InstanceSpecification
from app.products.audits import wire as audit
from app.products.audits.wire import AuditOrder
from workers.server_client import ServerAwayError, ServerClient, ServerRefusedError

Handed = TypeVar("Handed")
SPECIFICATION_PATH = "/workers/v1/specification"


class NoSpecificationError(Exception):
    """The driver cannot know its specification; the message lists the attempts to get it."""


def from_file(path: Path) -> InstanceSpecification:
    """Read the file; refuses one that others may read, since the run's token is in it. Raises NoSpecificationError."""
    return decode(_read_private(path), origin=str(path))


def audit_from_file(path: Path) -> AuditOrder:
    """An audit's order, under the same condition."""
    return _usable(_read_private(path), audit.decode, origin=str(path))


def token_from_file(path: Path) -> str:
    """The run's token alone, under the same condition."""
    return _read_private(path).decode().strip()


def _read_private(path: Path) -> bytes:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise NoSpecificationError(f"{path} has mode {mode:04o}: it holds the run's token and must be 0600")
        return path.read_bytes()
    except OSError as error:
        raise NoSpecificationError(f"{path} cannot be read: {error}") from error


def from_server(
    urls: Sequence[str], token: str, *, within_s: float, sleep: Callable[[float], None] = time.sleep
) -> InstanceSpecification:
    """Fetch it with the run's token; a server that is away is asked again until `within_s` is over."""
    client = ServerClient(urls, token)
    deadline = time.monotonic() + within_s
    while True:
        try:
            return decode(client.get_raw(SPECIFICATION_PATH), origin=", ".join(urls))
        except ServerRefusedError as error:
            raise NoSpecificationError(str(error)) from error
        except ServerAwayError as error:
            if time.monotonic() >= deadline:
                raise NoSpecificationError(f"no specification within {within_s:g} s: {error}") from error
            sleep(1.0)
        finally:
            client.close()


def decode(data: bytes, *, origin: str) -> InstanceSpecification:
    """Raises NoSpecificationError, which names both protocol versions if they differ."""
    return _usable(data, wire.decode, origin=origin)


def _usable(data: bytes, decode: Callable[[bytes], Handed], *, origin: str) -> Handed:
    try:
        return decode(data)
    except (protocol.UnsupportedProtocolError, msgspec.MsgspecError) as error:
        raise NoSpecificationError(f"the specification from {origin} is not usable: {error}") from error


def remove(path: Path | None) -> None:
    """Delete the file once its lease is claimed: from then on no other process may start from it."""
    if path is not None:
        path.unlink(missing_ok=True)
