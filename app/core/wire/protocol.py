"""The version that every message between server and workers carries.

A server supports the current and the previous version; a worker names its own in every message.
Rules: add fields with defaults only; a field that changes its meaning is a new version. A message that an older peer
would misunderstand names the newer version, and the others stay as they are. So a new release starts only what an older
worker supports.
"""

from __future__ import annotations

CURRENT = 1
FILES = 2
"""The version of a specification with files (`definition.files`) and of the order to audit them, and of no other
message."""
COMPARISONS = 3
"""The version of an order to compare with another system's output, and of no other message."""
DATAFRAMES = 4
"""The version of a specification with a query of DataFrames and of the order to recompute it, and of no other
message."""
SUPPORTED = frozenset({1, FILES, COMPARISONS, DATAFRAMES})
"""There is no version 0; the version before the current one is listed here once there is one."""


class UnsupportedProtocolError(Exception):
    """Server and worker have different versions; the message names both."""


def check(version: int, *, peer: str) -> None:
    """Raise UnsupportedProtocolError unless `version` is supported."""
    if version not in SUPPORTED:
        spoken = ", ".join(str(v) for v in sorted(SUPPORTED))
        raise UnsupportedProtocolError(
            f"{peer} has protocol version {version}, this side supports {spoken}: "
            "install the same Fenceline release on both"
        )
