"""The version that every message between server and workers carries.

A server speaks the current and the previous version; a worker names its own in every message.
Rules: add fields with defaults only; a field that changes its meaning is a new version. A message whose meaning an
older peer would miss names the version that has it, and the others stay as they are: so a new release starts what an
older worker knows, and no more.
"""

from __future__ import annotations

CURRENT = 1
FILES = 2
"""Of a specification whose outputs go into files (`definition.files`), of the order to audit them, and of no other
message."""
SUPPORTED = frozenset({1, FILES})
"""There is no version 0; the one before the current one stands here too once there is one."""


class UnsupportedProtocolError(Exception):
    """Server and worker speak different versions; the message names both."""


def check(version: int, *, peer: str) -> None:
    """Raise UnsupportedProtocolError unless `version` is one that we speak."""
    if version not in SUPPORTED:
        spoken = ", ".join(str(v) for v in sorted(SUPPORTED))
        raise UnsupportedProtocolError(
            f"{peer} speaks protocol version {version}, this side speaks {spoken}: "
            "install the same Fenceline release on both"
        )
