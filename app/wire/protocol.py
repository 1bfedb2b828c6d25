"""The version that every message between server and workers carries.

A server speaks the current and the previous version; a worker names its own in every message.
Rules: add fields with defaults only; a field that changes its meaning is a new version.
"""

from __future__ import annotations

CURRENT = 1
SUPPORTED = frozenset({1})
"""There is no version 0; from version 2 on the previous one stands here too."""


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
