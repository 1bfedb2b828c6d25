"""How connections that stay open for long notice that the other side is gone."""

from __future__ import annotations

KEEP_ALIVE: dict[str, int] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""Half a minute instead of the two hours of TCP's defaults: a machine that vanished says nothing."""
